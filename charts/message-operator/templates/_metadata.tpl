{{/* What the metadata of every object has. The chart of the CustomResourceDefinition alone has the same
(hack/pack/crds_chart.py). */}}
{{- define "message-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "message-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "message-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of every object. commonLabels add to ours and cannot replace them. */}}
{{- define "message-operator.labels" -}}
{{- include "message-operator.labelsWith" (dict "root" .) }}
{{- end }}

{{/* The same with more, from (dict "root" $ "labels" <map>). */}}
{{- define "message-operator.labelsWith" -}}
{{- $root := .root }}
{{- $labels := include "message-operator.selectorLabels" $root | fromYaml }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- merge $labels (default dict .labels) (default dict $root.Values.commonLabels) | toYaml }}
{{- end }}

{{/* The annotations of an object, if it has any, from
(dict "root" $ "annotations" <map> "own" <map> "indent" 2), each but the root may be left out: ours prevail over those of the object's values, and these over commonAnnotations. */}}
{{- define "message-operator.annotations" -}}
{{- with merge (dict) (default dict .own) (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
{{- dict "annotations" . | toYaml | nindent (default 2 $.indent) }}
{{- end }}
{{- end }}

{{/* The annotation that keeps an object when the release is uninstalled, if it is to be kept. */}}
{{- define "message-operator.keep" -}}
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- end }}
{{- end }}
