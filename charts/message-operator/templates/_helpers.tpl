{{- define "message-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

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

{{- define "message-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "message-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. commonLabels add to ours and cannot replace them. */}}
{{- define "message-operator.labels" -}}
{{- $labels := include "message-operator.selectorLabels" . | fromYaml }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set $labels "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service }}
{{- merge $labels (default dict .Values.commonLabels) | toYaml }}
{{- end }}

{{- define "message-operator.serviceAccountName" -}}
{{- default (include "message-operator.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{/* The reference of an image, from (dict "image" <values> "tag" <default tag> "root" $). */}}
{{- define "message-operator.image" -}}
{{- $registry := default .image.registry (default dict .root.Values.global).imageRegistry }}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}
{{- else }}{{ with default .tag .image.tag }}:{{ . }}{{ end }}
{{- end }}
{{- end }}

{{/* Combinations of values that cannot work; values.schema.json refuses what is wrong by itself. */}}
{{- define "message-operator.validate" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) }}
{{- fail (printf "replicaCount is %d, but leaderElection.enabled is false: several operators would work on the same Messages. Enable leader election, or set replicaCount to 1." (int .Values.replicaCount)) }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false, so serviceAccount.name must say which existing ServiceAccount the operator uses." }}
{{- end }}
{{- end }}
