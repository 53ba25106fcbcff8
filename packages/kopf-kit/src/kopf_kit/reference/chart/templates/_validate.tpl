{{/* Combinations of values that would fail late or in silence. What is wrong by itself, values.schema.json
refuses, and what Kubernetes does not take, the API server does. Each stops the installation with one sentence
that says what is wrong and what to do. */}}
{{- define "widget-operator.validate" -}}
#@ if runtime
{{- $replicas := int .Values.replicaCount }}
{{- $lease := .Values.leaderElection }}
{{- if not $lease.enabled }}
{{- if gt $replicas 1 }}
{{- fail (printf "replicaCount is %d, but leaderElection.enabled is false: several operators would work on the same Widgets. Enable leader election, or set replicaCount to 1." $replicas) }}
{{- end }}
{{- if ne (default "Recreate" (default dict .Values.strategy).type) "Recreate" }}
{{- fail (printf "strategy.type is %s, but leaderElection.enabled is false: during a rollout two operators would work on the same Widgets. Enable leader election, or leave strategy empty." .Values.strategy.type) }}
{{- end }}
{{- end }}
{{- if not (and (lt (int $lease.retryPeriodSeconds) (int $lease.renewDeadlineSeconds)) (lt (int $lease.renewDeadlineSeconds) (int $lease.leaseDurationSeconds))) }}
{{- fail (printf "leaderElection: retryPeriodSeconds (%d) must be less than renewDeadlineSeconds (%d), and that less than leaseDurationSeconds (%d)." (int $lease.retryPeriodSeconds) (int $lease.renewDeadlineSeconds) (int $lease.leaseDurationSeconds)) }}
{{- end }}
{{- if and .Values.watchNamespaces .Values.watchNamespaceSelector }}
{{- fail "watchNamespaces and watchNamespaceSelector are both set: one lists the namespaces, the other finds them by their labels. Leave one of them empty." }}
{{- end }}
{{- include "widget-operator.validateSelector" (default "" .Values.watchNamespaceSelector) }}
#@ end
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false, so serviceAccount.name must say which existing ServiceAccount the operator uses." }}
{{- end }}
#@ if runtime
{{- include "widget-operator.validateDisruptionBudget" . }}
{{- include "widget-operator.validateMetrics" . }}
#@ end
{{- $seen := list }}
{{- range .Values.extraEnv }}
{{- if has .name (list "POD_NAME" "POD_NAMESPACE" "POD_UID") }}
{{- fail (printf "extraEnv has %s, which the chart sets itself. Leave it out." .name) }}
{{- end }}
{{- if has .name $seen }}
{{- fail (printf "extraEnv has %s twice, and only the last one would count. Leave one of them out." .name) }}
{{- end }}
{{- $seen = append $seen .name }}
{{- if hasPrefix "WIDGET_OPERATOR_" .name }}
{{- fail (printf "extraEnv has %s, but the chart's arguments prevail over the environment. Use the chart's value for it, or extraArgs." .name) }}
{{- end }}
{{- end }}
{{- if not (or .Values.serviceAccount.automountToken .Values.extraVolumeMounts) }}
{{- fail "serviceAccount.automountToken is false, and extraVolumeMounts bring no other token: the operator could not log in. Set it to true, or mount a token." }}
{{- end }}
#@ if webhooks
{{- with .Values.webhooks }}
{{- if and (eq .certificate "secret") (not (and .secretName .caBundle)) }}
{{- fail "webhooks.certificate is secret, but webhooks.secretName or webhooks.caBundle is empty: name the Secret with the certificate, and give the authority that signed it, as PEM." }}
{{- end }}
#@ end
#@ if runtime and webhooks
{{- if has (int .port) (list 8080 8081) }}
{{- fail (printf "webhooks.port is %d, at which the operator serves its metrics or probes. Choose another one." (int .port)) }}
{{- end }}
{{- end }}
#@ end
#@ if plain and webhooks
{{- if eq (int .port) 8081 }}
{{- fail "webhooks.port is 8081, at which the operator serves its probes. Choose another one." }}
{{- end }}
{{- end }}
#@ end
{{- include "widget-operator.validateImage" (dict "value" "image" "image" .Values.image "root" .) }}
{{- include "widget-operator.validateImages" . }}
{{- include "widget-operator.validateOwn" . }}
{{- end }}

#@ if runtime
{{/* As the operator reads a label selector (kopf_runtime/declaring/parsers.py). A pattern in the schema would be
all that Helm says. */}}
{{- define "widget-operator.validateSelector" -}}
{{- $label := "[a-z0-9]([-a-z0-9]*[a-z0-9])?" }}
{{- $word := "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?" }}
{{- $key := printf "(%s(\\.%s)*/)?%s" $label $label $word }}
{{- $oneOf := printf " +(in|notin) *\\( *(%s)?( *, *(%s)?)* *\\)" $word $word }}
{{- $requirement := printf "(! *%s|%s( *(=|==|!=) *(%s)?|%s)?)" $key $key $word $oneOf }}
{{- if or (not (regexMatch (printf "^( *%s( *, *%s)* *)?$" $requirement $requirement) .)) (regexMatch "[-a-z0-9.]{254}/" .) }}
{{- fail (printf "watchNamespaceSelector is %q, which is no label selector. Write one as for `kubectl get namespaces -l`, such as team=a or tier in (a, b)." .) }}
{{- end }}
{{- end }}
#@ end

{{/* From (dict "value" <which value> "image" <values> "root" $). The global registry goes before the
image's own, so it counts here, too. */}}
{{- define "widget-operator.validateImage" -}}
{{- $value := .value }}
{{- $repository := .image.repository }}
{{- $registry := default .image.registry (default dict .root.Values.global).imageRegistry }}
{{- if contains "://" (default "" $registry) }}
{{- fail (printf "The registry of %s is %s, but a registry has no scheme. Set %s.registry, or global.imageRegistry, to %s." $value $registry $value (regexReplaceAll "^.*://" $registry "")) }}
{{- end }}
{{- if regexMatch "[:@][^/]*$" $repository }}
{{- fail (printf "%s.repository is %s, but a repository has no tag and no digest. Leave it out, and set %s.tag or %s.digest." $value $repository $value $value) }}
{{- end }}
{{- if and $registry (regexMatch "^([^/]*[.:][^/]*|localhost)/" $repository) }}
{{- fail (printf "%s.repository is %s, which names a registry, but so does %s. Leave it out of the repository, and set %s.registry instead." $value $repository $registry $value) }}
{{- end }}
{{- /* As Kubernetes reads one: github.com/distribution/reference. The host may have upper case. */}}
{{- $path := regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "" }}
{{- if $registry }}
{{- $path = regexReplaceAll "^[^/]*/" (printf "%s/%s" (trimSuffix "/" $registry) $repository) "" }}
{{- end }}
{{- $part := "[a-z0-9]+(([.]|__?|-+)[a-z0-9]+)*" }}
{{- if not (regexMatch (printf "^%s(/%s)*$" $part $part) $path) }}
{{- fail (printf "%s has the path %s, but the path of an image has lower case letters and digits, and between them \".\", \"_\", \"-\" or \"/\". Correct %s.repository, or the path of the registry." $value $path $value) }}
{{- end }}
{{- end }}

#@ if runtime
{{- define "widget-operator.validateDisruptionBudget" -}}
{{- $minimum := include "widget-operator.text" .Values.podDisruptionBudget.minAvailable }}
{{- $maximum := include "widget-operator.text" .Values.podDisruptionBudget.maxUnavailable }}
{{- if include "widget-operator.hasDisruptionBudget" . }}
{{- $replicas := int .Values.replicaCount }}
{{- if has $maximum (list "0" "0%") }}
{{- fail (printf "podDisruptionBudget.maxUnavailable is %s: no node that runs an operator could ever be drained. Set it to 1." $maximum) }}
{{- end }}
{{- if $minimum }}
{{- $stay := int (trimSuffix "%" $minimum) }}
{{- if hasSuffix "%" $minimum }}
{{- /* Kubernetes rounds up. */}}
{{- $stay = div (add (mul $stay $replicas) 99) 100 | int }}
{{- end }}
{{- if ge $stay $replicas }}
{{- fail (printf "podDisruptionBudget.minAvailable is %s, which is all of the %d replicas: no node that runs one could ever be drained. Lower it, or raise replicaCount." $minimum $replicas) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "widget-operator.validateMetrics" -}}
{{- include "widget-operator.validateSecureMetrics" . }}
{{- $metrics := .Values.metrics }}
{{- if not $metrics.enabled }}
{{- range list "secure" "monitor" "prometheusRule" "dashboard" }}
{{- if (get $metrics .).enabled }}
{{- fail (printf "metrics.%s.enabled is true, but metrics.enabled is false: there is nothing to be scraped. Enable the metrics, or disable metrics.%s." . .) }}
{{- end }}
{{- end }}
{{- end }}
{{- $monitor := $metrics.monitor }}
{{- if $monitor.enabled }}
{{- if and (eq $monitor.kind "ServiceMonitor") (not $metrics.service.enabled) }}
{{- fail "metrics.monitor.kind is ServiceMonitor, but metrics.service.enabled is false: there is no Service to be scraped. Enable it, or set the kind to PodMonitor." }}
{{- end }}
{{- $interval := include "widget-operator.milliseconds" $monitor.interval | int64 }}
{{- if and $interval (gt (include "widget-operator.milliseconds" $monitor.scrapeTimeout | int64) $interval) }}
{{- fail (printf "metrics.monitor.scrapeTimeout is %s, which is more than its interval of %s: the Prometheus Operator would leave the monitor out, and only its log would say so. Lower it." $monitor.scrapeTimeout $monitor.interval) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "widget-operator.validateSecureMetrics" -}}
{{- $metrics := .Values.metrics }}
{{- $secure := $metrics.secure }}
{{- $certificate := or $secure.secretName $secure.certManager.enabled }}
{{- if and $certificate (not $secure.enabled) }}
{{- fail "metrics.secure names a certificate, but metrics.secure.enabled is false: the metrics would be plain, and everyone who reaches the Pod could read them. Set it to true, or leave the certificate out." }}
{{- end }}
{{- if and $secure.enabled (not $certificate) }}
{{- fail "metrics.secure.enabled is true, but there is no certificate. Name a Secret that has one in metrics.secure.secretName, or enable metrics.secure.certManager." }}
{{- end }}
{{- $monitor := $metrics.monitor }}
{{- if and $secure.enabled $monitor.enabled }}
{{- if eq (default "" $monitor.scheme) "http" }}
{{- fail "metrics.monitor.scheme is http, but metrics.secure.enabled is true: nothing answers there. Leave the scheme empty." }}
{{- end }}
{{- $home := include "widget-operator.namespace" $ }}
{{- if and (not $monitor.tlsConfig) (ne $home (default $home $monitor.namespace)) }}
{{- fail (printf "metrics.monitor.tlsConfig is empty, and the Secret that it would name is not in the monitor's namespace, %s. Say there how Prometheus trusts the certificate, or leave metrics.monitor.namespace empty." $monitor.namespace) }}
{{- end }}
{{- if and (eq $monitor.kind "PodMonitor") (not $monitor.authorization) }}
{{- fail "metrics.monitor.authorization is empty, but metrics.secure.enabled is true: a PodMonitor cannot tell Prometheus to send its own token. Name a Secret with a token there, or set metrics.monitor.kind to ServiceMonitor." }}
{{- end }}
{{- end }}
{{- end }}

{{/* The length of a Prometheus duration such as 1m30s. */}}
{{- define "widget-operator.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9]+(ms|[smhdwy])" (default "" .) -1 }}
{{- $number := regexFind "^[0-9]+" . }}
{{- $sum = add $sum (mul (int64 $number) (int64 (get $units (trimPrefix $number .)))) }}
{{- end }}
{{- $sum }}
{{- end }}
#@ end
