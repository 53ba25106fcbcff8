{{/* The name of all objects: the release's, with the chart's behind it unless it is in there already. */}}
{{- define "message-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "message-operator.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of the Service, which has at most 63 characters, its suffix included. It is a label that
begins with a letter (DNS-1035); the name of a release may have dots, or begin with a digit, or be
longer. A name that is changed for that gets a hash, so that it is no other release's. */}}
{{- define "message-operator.serviceName" -}}
{{- $name := include "message-operator.fullname" . }}
{{- if not (regexMatch "^[a-z][-a-z0-9]{0,54}$" $name) }}
{{- $letters := regexReplaceAll "^([0-9])" (replace "." "-" $name) "release-${1}" }}
{{- $name = printf "%s-%s" (trunc 46 $letters | trimSuffix "-") (sha256sum $name | trunc 8) }}
{{- end }}
{{- $name }}-metrics
{{- end }}

{{- define "message-operator.serviceHost" -}}
{{- include "message-operator.serviceName" . }}.{{ include "message-operator.namespace" . }}.svc
{{- end }}

{{/* The Secret with the certificate that the metrics are served with. */}}
{{- define "message-operator.metricsSecret" -}}
{{- default (printf "%s-tls" (include "message-operator.serviceName" .)) .Values.metrics.secure.secretName }}
{{- end }}

{{/* The beginning of the names of the cluster's objects that each release has for its metrics, in
whatever namespace it is. */}}
{{- define "message-operator.metricsRole" -}}
{{- include "message-operator.namespace" . }}.{{ include "message-operator.fullname" . }}-metrics
{{- end }}

{{- define "message-operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "message-operator.serviceAccountName" -}}
{{- default (include "message-operator.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{/* The reference of an image, from (dict "image" <values> "tag" <default tag> "root" $). */}}
{{- define "message-operator.image" -}}
{{- $registry := default .image.registry (default dict .root.Values.global).imageRegistry | trimSuffix "/" }}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}
{{- else }}{{ with default .tag .image.tag }}:{{ . }}{{ end }}
{{- end }}
{{- end }}

{{- define "message-operator.operatorImage" -}}
{{- include "message-operator.image" (dict "image" .Values.image "tag" .Chart.AppVersion "root" .) }}
{{- end }}

{{/* The parent chart's pull secrets and an image's own, from (dict "root" $ "secrets" <list>). A
parent chart may share names alone, as Bitnami's do. */}}
{{- define "message-operator.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat (default list (default dict .root.Values.global).imagePullSecrets) (default list .secrets) }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- $secrets | uniq | toYaml }}
{{- end }}

{{- define "message-operator.imagePullSecrets" -}}
{{- with include "message-operator.pullSecrets" (dict "root" . "secrets" .Values.imagePullSecrets) | fromYamlArray }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* "true" where a PodDisruptionBudget has anything to protect. */}}
{{- define "message-operator.hasDisruptionBudget" -}}
{{- if and .Values.podDisruptionBudget.enabled (gt (int .Values.replicaCount) 1) }}true{{ end }}
{{- end }}

{{/* A value as text; null is empty, and 0 is not. */}}
{{- define "message-operator.text" -}}
{{- if not (kindIs "invalid" .) }}{{ . }}{{ end }}
{{- end }}

{{/* What a monitor of the Prometheus Operator has for an endpoint, from
(dict "root" $ "monitor" <its part of the values>). */}}
{{- define "message-operator.endpoint" -}}
port: metrics
path: /metrics
{{- with .monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
relabelings:
  # Tells the operators of a namespace apart.
  - action: replace
    targetLabel: operator
    replacement: {{ include "message-operator.fullname" .root | quote }}
{{- with .monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the names of the operator's Pods match. Kubernetes puts a ReplicaSet's hash of 10 characters
at most behind the Deployment's name, cuts that to 58 characters, and puts 5 random ones behind them. */}}
{{- define "message-operator.podPattern" -}}
{{- $name := include "message-operator.fullname" . }}
{{- $left := sub 57 (len $name) | int }}
{{- $name | trunc 58 | replace "." "\\." }}
{{- if ge $left 11 }}-[a-z0-9]+-[a-z0-9]{5}
{{- else if ge $left 0 }}-([a-z0-9]+-[a-z0-9]{5}|[a-z0-9]{ {{- add $left 5 -}} })
{{- else }}[a-z0-9]{5}
{{- end }}
{{- end }}

{{/* A probe as Kubernetes takes it. A null, by which a default goes, is lost on the way through a
parent chart (Helm 4): so `enabled` turns a probe off, and another way to ask replaces httpGet. */}}
{{- define "message-operator.probe" -}}
{{- $probe := default dict . }}
{{- if hasKey $probe "enabled" | ternary $probe.enabled true }}
{{- if or $probe.exec $probe.tcpSocket $probe.grpc }}
{{- $probe = omit $probe "httpGet" }}
{{- end }}
{{- with omit $probe "enabled" }}
{{- toYaml . }}
{{- end }}
{{- end }}
{{- end }}
