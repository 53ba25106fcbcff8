#@ if runtime
{{/* How Prometheus reaches and convinces the operator, from
(dict "root" $ "monitor" <its part of the values> "own" <what stands for Prometheus' own token>). */}}
{{- define "widget-operator.scraping" -}}
{{- $secure := .root.Values.metrics.secure.enabled }}
{{- with default (ternary "https" "" $secure) .monitor.scheme }}
scheme: {{ . }}
{{- end }}
{{- $trust := deepCopy (default dict .monitor.tlsConfig) }}
{{- if $secure }}
{{- if not $trust }}
{{- $_ := set $trust "ca" (dict "secret" (dict "name" (include "widget-operator.metricsSecret" .root) "key" "ca.crt")) }}
{{- end }}
{{- /* The certificate is the Service's, and the Pods are scraped by their addresses. */}}
{{- $trust = merge $trust (dict "serverName" (include "widget-operator.serviceHost" .root)) }}
{{- end }}
{{- with $trust }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
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
#@ end
