{{/* What is particular to this operator. */}}

{{/* The flags that the operator adds to the runtime's. */}}
{{- define "flightticket-operator.arguments" -}}
- {{ printf "--booking-url=%s" .Values.booking.url | toJson }}
- --booking-token-path=/etc/booking-token/token
- --booking-rate={{ int .Values.booking.rate }}
{{- end }}

{{/* The volumes that the operator itself reads, and where. A mounted Secret follows its changes. */}}
{{- define "flightticket-operator.ownVolumes" -}}
- name: booking-token
  secret:
    secretName: {{ .Values.booking.token.secretName | quote }}
    # Without it the operator runs, and every FlightTicket says what is missing.
    optional: true
    items:
      - {key: {{ .Values.booking.token.key | quote }}, path: token}
{{- end }}
{{- define "flightticket-operator.ownVolumeMounts" -}}
- name: booking-token
  mountPath: /etc/booking-token
  readOnly: true
{{- end }}

{{/* What cannot work among this operator's own values. */}}
{{- define "flightticket-operator.validateOwn" -}}
{{- end }}

{{/* The alerts beyond the runtime's, from (dict "ours" <selector of this operator's samples>). Each links
to its section in docs/runbooks.md, which a release commits; write the section at its end. */}}
{{- define "flightticket-operator.ownAlerts" }}
{{- end }}

{{/* How one sees it work, in a namespace that is watched. */}}
{{- define "flightticket-operator.walkthrough" -}}
kubectl -n {{ . }} apply -f - <<'END'
{{ include "flightticket-operator.sample" . }}
END

3. Watch it:

kubectl -n {{ . }} wait --for=condition=Ready --timeout=2m flightticket/sample
kubectl -n {{ . }} get ft

If it does not become ready, this says why:

kubectl -n {{ . }} describe flightticket sample
{{- end }}
