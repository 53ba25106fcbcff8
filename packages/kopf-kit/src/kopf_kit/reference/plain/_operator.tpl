{{/* How kopf is started; the flags of the values follow. */}}
{{- define "widget-operator.command" -}}
@COMMAND@
{{- end }}

{{/* Further flags, such as - --priority=1. */}}
{{- define "widget-operator.arguments" -}}
{{- end }}

{{/* The volumes that the operator itself reads, and where. */}}
{{- define "widget-operator.ownVolumes" -}}
@VOLUMES@
{{- end }}
{{- define "widget-operator.ownVolumeMounts" -}}
@MOUNTS@
{{- end }}

{{/* What cannot work among this operator's own values. */}}
{{- define "widget-operator.validateOwn" -}}
{{- end }}

{{/* Further alerts. */}}
{{- define "widget-operator.ownAlerts" }}
{{- end }}

{{/* How one sees it work, in a namespace that is watched. */}}
{{- define "widget-operator.walkthrough" -}}
kubectl -n {{ . }} apply -f - <<'END'
{{ include "widget-operator.sample" . }}
END

3. See what became of it:

kubectl -n {{ . }} get widgets -o yaml
{{- end }}
