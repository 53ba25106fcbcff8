{{/* The name of all objects: the release's, with the chart's behind it unless it is in there already. */}}
{{- define "widget-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "widget-operator.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

#@ if runtime
{{/* The name of the Service, which has at most 63 characters, its suffix included. It is a label that
begins with a letter (DNS-1035); the name of a release may have dots, or begin with a digit, or be
longer. A name that is changed for that gets a hash, so that it is no other release's. */}}
{{- define "widget-operator.serviceName" -}}
{{- include "widget-operator.serviceStem" . }}-metrics
{{- end }}

#@ end
#@ if runtime or webhooks
{{- define "widget-operator.serviceStem" -}}
{{- $name := include "widget-operator.fullname" . }}
{{- if not (regexMatch "^[a-z][-a-z0-9]{0,54}$" $name) }}
{{- $letters := regexReplaceAll "^([0-9])" (replace "." "-" $name) "release-${1}" }}
{{- $name = printf "%s-%s" (trunc 46 $letters | trimSuffix "-") (sha256sum $name | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

#@ end
#@ if runtime
{{- define "widget-operator.serviceHost" -}}
{{- include "widget-operator.serviceName" . }}.{{ include "widget-operator.namespace" . }}.svc
{{- end }}

{{/* The Secret with the certificate that the metrics are served with. */}}
{{- define "widget-operator.metricsSecret" -}}
{{- default (printf "%s-tls" (include "widget-operator.serviceName" .)) .Values.metrics.secure.secretName }}
{{- end }}

#@ end
#@ if webhooks
{{/* The name of the Service that the API server asks, and of what belongs to it. */}}
{{- define "widget-operator.webhookService" -}}
{{- include "widget-operator.serviceStem" . }}-webhook
{{- end }}

{{- define "widget-operator.webhookSecret" -}}
{{- default (printf "%s-tls" (include "widget-operator.webhookService" .)) .Values.webhooks.secretName }}
{{- end }}

#@ end
#@ if runtime and webhooks
{{/* In these the operator writes the authority of its certificate, and nothing else. */}}
{{- define "widget-operator.webhookRules" -}}
#@ end
#@ if runtime and admission
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [{{ include "widget-operator.clusterName" . | quote }}]
  verbs: [get, patch]
#@ end
#@ if conversion
{{- if or .Values.crds.install (not .Values.watchNamespaces) }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ include "widget-operator.converted" . }}
  verbs: [get, patch]
{{- end }}
#@ end
#@ if runtime and webhooks
{{- end }}

#@ end
#@ if webhooks
{{/* Where the API server asks, and whom it trusts there, from (dict "root" $ "path" <path>). The caBundle
is written later, unless the values have it. */}}
{{- define "widget-operator.clientConfig" -}}
service:
  namespace: {{ include "widget-operator.namespace" .root | quote }}
  name: {{ include "widget-operator.webhookService" .root | quote }}
  path: {{ .path }}
  port: 443
{{- with .root.Values.webhooks }}
{{- if and .caBundle (eq .certificate "secret") }}
caBundle: {{ .caBundle | b64enc }}
{{- end }}
{{- end }}
{{- end }}

{{/* The folder with the certificate. That of OLM is where it mounts tls.crt and tls.key by itself. */}}
{{- define "widget-operator.webhookFolder" -}}
{{- eq .Values.webhooks.certificate "olm" | ternary "/tmp/k8s-webhook-server/serving-certs" "/etc/webhook-certificate" }}
{{- end }}

{{/* The annotation by which cert-manager writes the caBundle. */}}
{{- define "widget-operator.injected" -}}
{{- if eq .Values.webhooks.certificate "certManager" }}
cert-manager.io/inject-ca-from: {{ include "widget-operator.namespace" . }}/{{ include "widget-operator.webhookService" . }}
{{- end }}
{{- end }}

#@ end
{{/* The name of the cluster's objects of a release. It begins with the namespace, because releases in
other namespaces may have the same name. No namespace has a dot in its name. */}}
{{- define "widget-operator.clusterName" -}}
{{- include "widget-operator.namespace" . }}.{{ include "widget-operator.fullname" . }}
{{- end }}

{{- define "widget-operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{/* The watched namespaces as JSON: $(POD_NAMESPACE) is the operator's own. */}}
{{- define "widget-operator.watched" -}}
{{- default list .Values.watchNamespaces | toJson | replace "$(POD_NAMESPACE)" (include "widget-operator.namespace" .) }}
{{- end }}

{{- define "widget-operator.serviceAccountName" -}}
{{- default (include "widget-operator.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{/* The reference of an image, from (dict "image" <values> "tag" <default tag> "root" $). The default tag of
a published chart is "@sha256:…": so a user's tag replaces the digest, too. */}}
{{- define "widget-operator.image" -}}
{{- $registry := default .image.registry (default dict .root.Values.global).imageRegistry | default "" | trimSuffix "/" }}
{{- $tag := default "" .image.tag }}
{{- if .image.digest }}
{{- $tag = printf "%s@%s" (regexReplaceAll "@.*" $tag "") .image.digest }}
{{- end }}
{{- $tag = default .tag $tag }}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- with $tag }}{{ hasPrefix "@" . | ternary "" ":" }}{{ . }}{{ end }}
{{- end }}

{{- define "widget-operator.operatorImage" -}}
{{- include "widget-operator.image" (dict "image" .Values.image "tag" .Chart.AppVersion "root" .) }}
{{- end }}

{{/* The parent chart's pull secrets and an image's own, from (dict "root" $ "secrets" <list>). A
parent chart may share names alone, as Bitnami's do. */}}
{{- define "widget-operator.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat (default list (default dict .root.Values.global).imagePullSecrets) (default list .secrets) }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- $secrets | uniq | toYaml }}
{{- end }}

{{- define "widget-operator.imagePullSecrets" -}}
{{- with include "widget-operator.pullSecrets" (dict "root" . "secrets" .Values.imagePullSecrets) | fromYamlArray }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

#@ if runtime
{{/* "true" where a PodDisruptionBudget has anything to protect. */}}
{{- define "widget-operator.hasDisruptionBudget" -}}
{{- if and .Values.podDisruptionBudget.enabled (gt (int .Values.replicaCount) 1) }}true{{ end }}
{{- end }}

{{/* A value as text; null is empty, and 0 is not. */}}
{{- define "widget-operator.text" -}}
{{- if not (kindIs "invalid" .) }}{{ . }}{{ end }}
{{- end }}

{{/* What a monitor of the Prometheus Operator has for an endpoint, from
(dict "root" $ "monitor" <its part of the values>). */}}
{{- define "widget-operator.endpoint" -}}
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
    replacement: {{ include "widget-operator.fullname" .root | quote }}
{{- with .monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

#@ end
{{/* What the names of the operator's Pods match. Kubernetes puts a ReplicaSet's hash of 10 characters
at most behind the Deployment's name, cuts that to 58 characters, and puts 5 random ones behind them. */}}
{{- define "widget-operator.podPattern" -}}
{{- $name := include "widget-operator.fullname" . }}
{{- $left := sub 57 (len $name) | int }}
{{- $name | trunc 58 | replace "." "\\." }}
{{- if ge $left 11 }}-[a-z0-9]+-[a-z0-9]{5}
{{- else if ge $left 0 }}-([a-z0-9]+-[a-z0-9]{5}|[a-z0-9]{ {{- add $left 5 -}} })
{{- else }}[a-z0-9]{5}
{{- end }}
{{- end }}

{{/* A probe as Kubernetes takes it. A null, by which a default goes, is lost on the way through a
parent chart (Helm 4): so `enabled` turns a probe off, and another way to ask replaces httpGet. */}}
{{- define "widget-operator.probe" -}}
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
