#@ if conversion
{{/* Whom the API server asks to convert Widgets: the operator of the release widget-operator beside this
one, or what the values say. From (dict "root" $ "path" <path>). */}}
{{- define "widget-operator-crds.clientConfig" -}}
{{- with .root.Values }}
service:
  namespace: {{ default $.root.Release.Namespace .converterNamespace | quote }}
  name: {{ default "widget-operator-webhook" .converterService | quote }}
  path: {{ $.path }}
  port: 443
{{- with .caBundle }}
caBundle: {{ . | b64enc }}
{{- end }}
{{- end }}
{{- end }}

{{- define "widget-operator-crds.injected" -}}
{{- end }}
#@ end
