{{/* The name of an object that monitoring finds, from (dict "root" $ "namespace" <its namespace>): that
of all objects; in another namespace than the operator's with the operator's before it, for releases
of one name may share the namespace of a monitoring stack. No namespace has a dot in its name. */}}
{{- define "widget-operator.monitoringName" -}}
{{- $home := include "widget-operator.namespace" .root }}
{{- if and .namespace (ne .namespace $home) }}{{ $home }}.{{ end }}{{ include "widget-operator.fullname" .root }}
{{- end }}
