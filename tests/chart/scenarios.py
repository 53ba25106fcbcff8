"""Named sets of values that together switch on all of the chart."""

from typing import Any

SCENARIOS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "namespaced": {"watchNamespaces": ["team-a", "team-b"]},
    "ha": {"replicaCount": 2},
    "air-gapped": {
        "global": {"imageRegistry": "registry.example:5000"},
        "image": {"digest": "sha256:" + "0" * 64},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "monitored": {"metrics": {"service": {"enabled": True, "annotations": {"a": "b"}}}},
    "minimal": {
        "crds": {"install": False},
        "rbac": {"create": False},
        "leaderElection": {"enabled": False},
        "serviceAccount": {"create": False, "name": "made-by-hand"},
    },
    "everything-set": {
        "fullnameOverride": "other-name",
        "commonLabels": {"team": "a"},
        "crds": {"annotations": {"a": "b"}},
        "serviceAccount": {"annotations": {"a": "b"}},
        "logging": {"level": "debug", "format": "text"},
        "extraArgs": ["--log-level=warning"],
        "extraEnv": [{"name": "A", "value": "b"}],
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"},
                    }
                ]
            }
        },
    },
}
