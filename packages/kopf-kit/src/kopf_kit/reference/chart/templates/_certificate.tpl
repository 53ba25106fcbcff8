#@ if runtime or webhooks
{{- /* A certificate of cert-manager, from
(dict "root" $ "service" <its Service> "secret" <its Secret> "issuerRef" <its issuer, if another makes it>). */}}
{{- define "widget-operator.certificate" -}}
{{- $host := printf "%s.%s.svc" .service (include "widget-operator.namespace" .root) }}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .service | quote }}
  namespace: {{ include "widget-operator.namespace" .root | quote }}
  labels:
    {{- include "widget-operator.labels" .root | nindent 4 }}
  {{- include "widget-operator.annotations" (dict "root" .root) }}
spec:
  secretName: {{ .secret | quote }}
  dnsNames:
    - {{ $host }}
    - {{ $host }}.cluster.local
  # A certificate that signs itself must name its issuer (RFC 5280), which is then its subject.
  subject:
    organizations: [{{ .root.Chart.Name }}]
  usages: [digital signature, server auth]
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  issuerRef:
    {{- default (dict "group" "cert-manager.io" "kind" "Issuer" "name" .service) .issuerRef | toYaml | nindent 4 }}
{{- if not .issuerRef }}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .service | quote }}
  namespace: {{ include "widget-operator.namespace" .root | quote }}
  labels:
    {{- include "widget-operator.labels" .root | nindent 4 }}
  {{- include "widget-operator.annotations" (dict "root" .root) }}
spec:
  selfSigned: {}
{{- end }}
{{- end }}
#@ end
