"""Named sets of values: what people install, and every value set to something unusual."""

from typing import Any

from chart.unusual import UNUSUAL
from kopf_kit.cli import judges
from kopf_kit.project import documents

_INSTALLED = """
defaults: {}
air-gapped:
  global: {imageRegistry: "registry.example:5000", imagePullSecrets: [{name: registry}]}
  image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
ha:
  replicaCount: 3
  leaderElection: {leaseDurationSeconds: 9, renewDeadlineSeconds: 6, retryPeriodSeconds: 1}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 1}}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
minimal:
  crds: {install: false}
  rbac: {create: false}
  serviceAccount: {create: false, name: made-by-hand}
  leaderElection: {enabled: false}
  metrics: {enabled: false, service: {enabled: false}}
  podDisruptionBudget: {enabled: false}
  tests: {enabled: false}
monitoring:
  metrics:
    monitor: {enabled: true, interval: 30s}
    prometheusRule: {enabled: true, alertLabels: {team: platform}}
    dashboard: {enabled: true, annotations: {grafana_folder: Operators}}
namespaced: {watchNamespaces: [team-a, team-b], crds: {install: false}}
secure-metrics:
  metrics: {secure: {enabled: true, secretName: own}, monitor: {enabled: true, sampleLimit: 5000}}
selected: {watchNamespaceSelector: widgets=enabled}
"""
SCENARIOS: dict[str, dict[str, Any]] = documents.load(_INSTALLED) | {
    "hardened": documents.load((judges.FOLDER / "hardened.yaml").read_text()),
    "unusual": UNUSUAL,
}
