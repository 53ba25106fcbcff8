{{/* What is particular to this operator. The other templates hold for every operator:
packages/kopf-kit/src/kopf_kit/chart/templates.py writes them into the charts of others. */}}

{{/* The flags that the operator adds to the runtime's. */}}
{{- define "message-operator.arguments" -}}
- --message-pull-policy={{ .Values.messagePod.image.pullPolicy }}
{{- with include "message-operator.pullSecrets" (dict "root" . "secrets" .Values.messagePod.imagePullSecrets) | fromYamlArray }}
{{- $names := list }}
{{- range . }}{{ $names = append $names .name }}{{ end }}
- --message-pull-secrets={{ join "," $names }}
{{- end }}
- --message-user={{ include "message-operator.messageUser" .Values.messagePod.runAsUser }}
- {{ include "message-operator.messagePod" . | printf "--message-pod=%s" | toJson }}
{{- end }}

{{/* A numeric user, `auto` or `none`, which null means, too. */}}
{{- define "message-operator.messageUser" -}}
{{- if kindIs "invalid" . }}none{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ int64 . }}{{ end }}
{{- end }}

{{/* What the cluster asks of the message Pods, as `--message-pod` takes it. Each field is there: one
that is left out would have the operator's default. Kubernetes makes $$ in an argument a plain $. */}}
{{- define "message-operator.messagePod" -}}
{{- $pod := dict }}
{{- range $field, $empty := dict "labels" dict "annotations" dict "nodeSelector" dict "affinity" dict "resources" dict "podSecurityContext" dict "securityContext" dict "tolerations" list "topologySpreadConstraints" list "priorityClassName" "" "runtimeClassName" "" }}
{{- $_ := set $pod $field (default $empty (get $.Values.messagePod $field)) }}
{{- end }}
{{- $pod | toJson | replace "$" "$$" }}
{{- end }}

{{/* The volumes that the operator itself reads, and where. */}}
{{- define "message-operator.ownVolumes" -}}
{{- end }}
{{- define "message-operator.ownVolumeMounts" -}}
{{- end }}

{{/* What cannot work among this operator's own values. */}}
{{- define "message-operator.validateOwn" -}}
{{- $user := float64 .Values.messagePod.runAsUser }}
{{- if gt $user 2147483647.0 }}
{{- fail (printf "messagePod.runAsUser is %.0f, but 2147483647 is the highest user that Kubernetes accepts. Choose a lower one, auto or none." $user) }}
{{- end }}
{{- /* What the API server would say of message Pods, and so late. */}}
{{- range .Values.messagePod.tolerations }}
{{- if and .value (eq (default "Equal" .operator) "Exists") }}
{{- fail (printf "messagePod.tolerations has the value %s beside the operator Exists, which holds for any. Leave the value out, or take the operator Equal." .value) }}
{{- end }}
{{- if and (not .key) (ne (default "Equal" .operator) "Exists") }}
{{- fail (printf "messagePod.tolerations has no key beside the operator %s. Name the key, or take the operator Exists, which then holds for all taints." (default "Equal" .operator)) }}
{{- end }}
{{- if and (hasKey . "tolerationSeconds") (ne (default "" .effect) "NoExecute") }}
{{- fail "messagePod.tolerations has tolerationSeconds beside another effect than NoExecute: only that one evicts. Set the effect, or leave the seconds out." }}
{{- end }}
{{- end }}
{{- end }}

{{/* The alerts beyond the runtime's, from (dict "ours" <selector of this operator's samples>). */}}
{{- define "message-operator.ownAlerts" }}
- alert: MessageOperatorMessagesFailed
  severity: warning
  for: 15m
  summary: Messages cannot be printed
  description: >-
    {{ "{{ $value | humanize }}" }} Messages have been in the phase Failed for 15 minutes.
  expr: max(message_operator_messages{ {{- .ours -}} ,phase="Failed"}) > 0
- alert: MessageOperatorMessagesPending
  severity: warning
  for: 30m
  summary: Messages wait for their Pods
  description: >-
    {{ "{{ $value | humanize }}" }} Messages have been in the phase Pending for 30 minutes.
  expr: max(message_operator_messages{ {{- .ours -}} ,phase="Pending"}) > 0
{{- end }}

{{/* How one sees it work, in a namespace that is watched. */}}
{{- define "message-operator.walkthrough" -}}
kubectl -n {{ . }} apply -f - <<'MESSAGE'
{{ include "message-operator.sample" . }}
MESSAGE

3. Watch it:

kubectl -n {{ . }} wait --for=condition=Ready --timeout=2m message/hello-msg
kubectl -n {{ . }} get messages -o wide
kubectl -n {{ . }} logs --follow msg-hello-msg

If it does not become ready, this says why:

kubectl -n {{ . }} describe message hello-msg
{{- end }}
