{{/* How Prometheus reaches and convinces the operator, from
(dict "root" $ "monitor" <its part of the values> "own" <what stands for Prometheus' own token>). */}}
{{- define "message-operator.scraping" -}}
{{- $secure := .root.Values.metrics.secure.enabled }}
{{- with default (ternary "https" "" $secure) .monitor.scheme }}
scheme: {{ . }}
{{- end }}
{{- if .monitor.tlsConfig }}
tlsConfig:
  {{- toYaml .monitor.tlsConfig | nindent 2 }}
{{- else if $secure }}
tlsConfig:
  ca:
    secret:
      name: {{ include "message-operator.metricsSecret" .root | quote }}
      key: ca.crt
  # The certificate is the Service's, and the Pods are scraped by their addresses.
  serverName: {{ include "message-operator.serviceHost" .root }}
{{- end }}
{{- if .monitor.authorization }}
authorization:
  {{- toYaml .monitor.authorization | nindent 2 }}
{{- else if $secure }}
{{ .own }}
{{- end }}
{{- if .monitor.honorLabels }}
honorLabels: true
{{- end }}
{{- end }}
