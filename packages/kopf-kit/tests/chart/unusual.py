"""Every value of the chart set to what is neither its default nor like any other value here.

So that a value that is mistaken for another, or has no effect, is found by what is rendered.
"""

from typing import Any

from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT

_REFERENCE = r"""
nameOverride: u-name
fullnameOverride: u-fullname
namespaceOverride: u-namespace
commonLabels: {u-common-label: u}
commonAnnotations: {u-common-annotation: u}
global: {imagePullSecrets: [{name: u-global-secret}], u-of-the-parent: true}
enabled: false
crds: {install: true, keep: false, aggregateRoles: false, labels: {u-crd-label: u},
  annotations: {u-crd-annotation: u}}
watchNamespaces: [u-watched]
watchNamespaceSelector: ''
controller: {workers: 31, resyncPeriodSeconds: 32, requestTimeoutSeconds: 33}
logging: {level: warning, format: text}
image: {registry: u-registry, repository: u-repository, tag: u-tag, pullPolicy: Always,
  digest: 'sha256:cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd'}
imagePullSecrets: [{name: u-pull-secret}]
replicaCount: 5
leaderElection: {enabled: true, leaseDurationSeconds: 43, renewDeadlineSeconds: 42,
  retryPeriodSeconds: 41}
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 51%}}
revisionHistoryLimit: 52
podDisruptionBudget: {enabled: true, minAvailable: 53%, maxUnavailable: ''}
rbac: {create: true, annotations: {u-rbac-annotation: u}}
serviceAccount: {create: true, name: u-service-account, labels: {u-account-label: u},
  annotations: {u-account-annotation: u}, automountToken: false}
deploymentLabels: {u-deployment-label: u}
deploymentAnnotations: {u-deployment-annotation: u}
podLabels: {u-pod-label: u}
podAnnotations: {u-pod-annotation: u}
extraArgs: [--log-level=error]
extraEnv: [{name: U_EXTRA_ENV, value: u}]
extraEnvFrom: [{configMapRef: {name: u-extra-env-from}}]
extraVolumes: [{name: u-volume, configMap: {name: u-extra-volume}}]
extraVolumeMounts: [{name: u-volume, mountPath: /u-volume-mount}]
initContainers:
  - {name: u-init, image: u-init-image, securityContext: {allowPrivilegeEscalation: false,
    capabilities: {drop: [ALL]}}}
extraContainers:
  - {name: u-extra, image: u-extra-image, securityContext: {allowPrivilegeEscalation: false,
    capabilities: {drop: [ALL]}}}
resources: {requests: {cpu: 54m, memory: 55Mi}, limits: {memory: 256Mi}}
podSecurityContext: {supplementalGroups: [1056]}
securityContext: {runAsUser: 1057}
hostUsers: false
startupProbe: {tcpSocket: {port: health}, initialDelaySeconds: 58}
livenessProbe: {initialDelaySeconds: 59}
readinessProbe: {initialDelaySeconds: 60}
terminationGracePeriodSeconds: 1000000
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.53]}
priorityClassName: u-priority-class
runtimeClassName: u-runtime-class
nodeSelector: {u-node-label: u}
tolerations: [{key: u-toleration, operator: Exists}]
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 63, podAffinityTerm: {topologyKey: u-affinity}}
topologySpreadConstraints:
  - {maxSkew: 64, topologyKey: u-spread, whenUnsatisfiable: DoNotSchedule}
networkPolicy:
  enabled: true
  apiServerPorts: [16443]
  apiServerCIDRs: [192.0.2.0/24]
  dnsPorts: [10053]
  healthFrom: [{podSelector: {matchLabels: {u-prober: u}}}]
  metricsFrom: [{podSelector: {matchLabels: {u-scraper: u}}}]
  extraIngress: [{ports: [{port: 1065}]}]
  extraEgress: [{ports: [{port: 1066}]}]
metrics:
  enabled: true
  secure:
    enabled: true
    secretName: u-certificate.secret
    certManager: {enabled: true, issuerRef: {name: u-issuer, kind: u-issuer-kind,
      group: u-issuers}}
  service: {enabled: true, port: 1067, healthPort: 1068, labels: {u-service-label: u},
    annotations: {u-service-annotation: u}}
  monitor:
    enabled: true
    kind: PodMonitor
    namespace: u-monitor-namespace
    labels: {u-monitor-label: u}
    annotations: {u-monitor-annotation: u}
    interval: 71s
    scrapeTimeout: 61s
    scheme: https
    tlsConfig: {serverName: u-monitor-tls-config}
    authorization: {credentials: {name: u-monitor-authorization, key: u}}
    honorLabels: true
    sampleLimit: 1073
    relabelings: [{action: replace, targetLabel: u-monitor-relabeling}]
    metricRelabelings: [{action: drop, regex: u-monitor-metric-relabeling}]
  prometheusRule:
    enabled: true
    namespace: u-rule-namespace
    labels: {u-rule-label: u}
    annotations: {u-rule-annotation: u}
    alertLabels: {u_alert_label: u}
    disabledAlerts: [ALERTSDown]
    runbookUrl: https://u.example/
    extraRules: [{record: 'u:extra_rule', expr: '1'}]
  dashboard: {enabled: true, namespace: u-dashboard-namespace, labels: {u-dashboard-label: u},
    annotations: {u-dashboard-annotation: u}}
tests: {enabled: true, resources: {requests: {cpu: 69m}}}
extraObjects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: u-extra-map}, data: {release:
    u-extra-release}}
  - "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: u-extra-text-{{ .Release.Name }}\n"
"""
#: Those that only the widget operator has.
_WIDGETS = """
widgetPod:
  image: {registry: u-widget-registry, repository: u-widget-repository, tag: u-widget-tag,
    digest: 'sha256:abababababababababababababababababababababababababababababababab'}
"""
REFERENCE: dict[str, Any] = documents.load(_REFERENCE.replace("ALERTS", PROJECT.alerts))
UNUSUAL = REFERENCE | documents.load(_WIDGETS)
