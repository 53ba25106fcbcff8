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
to its section in docs/runbooks.md, which a release commits; write the section at its end. */}}
{{- define "etcd-operator.ownAlerts" }}
{{- $by := "max by (exported_namespace, name)" }}
{{- $cluster := "EtcdCluster {{ $labels.exported_namespace }}/{{ $labels.name }}" }}
{{- $backup := "EtcdBackup {{ $labels.exported_namespace }}/{{ $labels.name }}" }}
{{- $members := "EtcdCluster {{ $labels.etcd_namespace }}/{{ $labels.etcd_cluster }}" }}
- alert: EtcdOperatorClusterUnavailable
  severity: critical
  for: 3m
  summary: An etcd cluster does not serve
  description: {{ $cluster }} has had no quorum for 3 minutes, so nothing can be read or written.
  expr: {{ $by }} (etcd_operator_available{ {{- .ours -}} }) == 0
- alert: EtcdOperatorMembersUnhealthy
  severity: warning
  for: 15m
  summary: Members of an etcd cluster are missing
  description: >-
    {{ $cluster }} has had {{ "{{ $value | humanize }}" }} healthy members for 15 minutes, which is less
    than wanted.
  expr: |-
    {{ $by }} (etcd_operator_members_healthy{ {{- .ours -}} })
    < {{ $by }} (etcd_operator_members_wanted{ {{- .ours -}} })
- alert: EtcdOperatorAlarm
  severity: critical
  for: 5m
  summary: A member of an etcd cluster has an alarm
  description: {{ $cluster }} has had an alarm for 5 minutes, and may refuse all writes.
  expr: {{ $by }} (etcd_operator_healthy{ {{- .ours -}} }) == 0
- alert: EtcdOperatorCertificateExpires
  severity: warning
  for: 15m
  summary: A certificate of an etcd cluster expires soon
  description: A certificate of {{ $cluster }} expires in {{ "{{ $value | humanizeDuration }}" }}.
  expr: |-
    {{ $by }} (etcd_operator_certificate_expiration_timestamp_seconds{ {{- .ours -}} }) - time()
    and {{ $by }} (etcd_operator_certificate_late_timestamp_seconds{ {{- .ours -}} }) < time()
- alert: EtcdOperatorBackupFailed
  severity: warning
  for: 5m
  summary: A backup of an etcd cluster has failed
  description: {{ $backup }} has failed {{ "{{ $value | humanize }}" }} times in a row.
  expr: {{ $by }} (etcd_operator_backup_failures{ {{- .ours -}} }) > 0
- alert: EtcdOperatorBackupOverdue
  severity: warning
  for: 1h
  summary: A backup of an etcd cluster is overdue
  description: {{ $backup }} has had no complete backup for an hour after one was due.
  expr: |-
    {{ $by }} (etcd_operator_backup_due_timestamp_seconds{ {{- .ours -}} })
    > ({{ $by }} (etcd_operator_backup_last_success_timestamp_seconds{ {{- .ours -}} })
    or {{ $by }} (etcd_operator_backup_due_timestamp_seconds{ {{- .ours -}} }) * 0)
{{- /* The members tell these themselves, if the chart's PodMonitor for them is there. */}}
- alert: EtcdOperatorMemberWithoutLeader
  severity: critical
  for: 3m
  summary: A member of an etcd cluster knows no leader
  description: >-
    A member of {{ $members }} has known no leader for 3 minutes: the quorum is lost, or this member is
    cut off.
  expr: min by (etcd_namespace, etcd_cluster) (etcd_server_has_leader{etcd_cluster!=""}) == 0
- alert: EtcdOperatorQuotaNear
  severity: warning
  for: 15m
  summary: The database of an etcd cluster is nearly full
  description: >-
    The database of {{ $members }} has had {{ "{{ $value | humanizePercentage }}" }} of its quota for 15
    minutes; at 100 %, etcd refuses all writes.
  expr: |-
    max by (etcd_namespace, etcd_cluster) (etcd_mvcc_db_total_size_in_bytes{etcd_cluster!=""}
    / etcd_server_quota_backend_bytes{etcd_cluster!=""}) > 0.8
{{- /* The kubelets tell this of each claim; the labels of the members are taken from its name. */}}
- alert: EtcdOperatorVolumeNearlyFull
  severity: warning
  for: 15m
  summary: A volume of an etcd cluster is nearly full
  description: >-
    A volume of {{ $members }} has been {{ "{{ $value | humanizePercentage }}" }} full for 15 minutes;
    once it is full, its member ends.
  expr: |-
    max by (etcd_namespace, etcd_cluster) (label_replace(label_replace(
    1 - kubelet_volume_stats_available_bytes{persistentvolumeclaim=~"data-.+-[0-9]+-[0-9a-f]{5}"}
    / kubelet_volume_stats_capacity_bytes,
    "etcd_cluster", "$1", "persistentvolumeclaim", "data-(.+)-[0-9]+-[0-9a-f]{5}"),
    "etcd_namespace", "$1", "namespace", "(.+)")) > 0.85
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
