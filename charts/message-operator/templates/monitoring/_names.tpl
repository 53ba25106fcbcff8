{{/* The name of an object that monitoring finds, from (dict "root" $ "namespace" <its namespace>): that
of all objects; in another namespace than the operator's with the operator's before it, for releases
of one name may share the namespace of a monitoring stack. No namespace has a dot in its name. */}}
{{- define "message-operator.monitoringName" -}}
{{- $home := include "message-operator.namespace" .root }}
{{- if and .namespace (ne .namespace $home) }}{{ $home }}.{{ end }}{{ include "message-operator.fullname" .root }}
{{- end }}
