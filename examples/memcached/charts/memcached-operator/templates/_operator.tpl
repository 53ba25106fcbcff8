{{/* What is particular to this operator. */}}

{{/* The flags that the operator adds to the runtime's, such as
- --greeting={{ .Values.greeting }}
of a value in values.own.yaml. Those of images are generated. */}}
{{- define "memcached-operator.arguments" -}}
{{- end }}

{{/* The volumes that the operator itself reads, and where. */}}
{{- define "memcached-operator.ownVolumes" -}}
{{- end }}
{{- define "memcached-operator.ownVolumeMounts" -}}
{{- end }}

{{/* What cannot work among this operator's own values. */}}
{{- define "memcached-operator.validateOwn" -}}
{{- end }}

{{/* The alerts beyond the runtime's, from (dict "ours" <selector of this operator's samples>). Each links
to its section in docs/runbooks.md, which a release commits; write the section at its end. */}}
{{- define "memcached-operator.ownAlerts" }}
{{- end }}

{{/* How one sees it work, in a namespace that is watched. */}}
{{- define "memcached-operator.walkthrough" -}}
kubectl -n {{ . }} apply -f - <<'END'
{{ include "memcached-operator.sample" . }}
END

3. Watch it:

kubectl -n {{ . }} wait --for=condition=Ready --timeout=2m memcached/sample
kubectl -n {{ . }} get memcacheds,deployments,pods
kubectl -n {{ . }} scale memcached/sample --replicas=3

If it does not become ready, this says why:

kubectl -n {{ . }} describe memcached sample
{{- end }}
