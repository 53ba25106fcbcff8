{{/* What is particular to this operator. */}}

{{/* The flags that the operator adds to the runtime's. */}}
{{- define "etcd-operator.arguments" -}}
- {{ printf "--etcd-repository=%s" .Values.etcd.repository | toJson }}
- --agent-image={{ include "etcd-operator.operatorImage" . }}
{{- end }}

{{/* The volumes that the operator itself reads, and where. */}}
{{- define "etcd-operator.ownVolumes" -}}
{{- end }}
{{- define "etcd-operator.ownVolumeMounts" -}}
{{- end }}

{{/* What cannot work among this operator's own values. */}}
{{- define "etcd-operator.validateOwn" -}}
{{- end }}

{{/* The alerts beyond the runtime's, from (dict "ours" <selector of this operator's samples>). Each links
to its section in docs/runbooks.md, which a release commits; write the section in docs/runbooks.md.in. */}}
{{- define "etcd-operator.ownAlerts" }}
{{- end }}

{{/* How one sees it work, in a namespace that is watched. */}}
{{- define "etcd-operator.walkthrough" -}}
kubectl -n {{ . }} apply -f - <<'END'
{{ include "etcd-operator.sample" . }}
END

3. Watch it:

kubectl -n {{ . }} wait --for=condition=Ready --timeout=2m etcdcluster/sample
kubectl -n {{ . }} get etcdclusters -o wide

If it does not become ready, this says why:

kubectl -n {{ . }} describe etcdcluster sample
{{- end }}
