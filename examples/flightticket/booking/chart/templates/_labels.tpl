{{/* What selects its Pod. */}}
{{- define "booking.selectorLabels" -}}
app.kubernetes.io/name: booking
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* What each of its objects is marked with. */}}
{{- define "booking.labels" -}}
{{ include "booking.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
