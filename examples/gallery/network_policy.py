"""A NetworkPolicy for each Namespace with the label isolated=yes: others cannot reach its Pods."""

from collections.abc import Iterable

import kopf_runtime as kr

manager = kr.Manager("network-policy", kr.Settings)
namespaces = manager.controller_for(kr.kinds.NAMESPACE, where={"labels": {"isolated": "yes"}})
namespaces.owns(kr.kinds.NETWORK_POLICY)


@namespaces.desired
def desired(namespace: kr.Object, _: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the policy of a Namespace."""
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "from-here-alone", "namespace": namespace.metadata.name},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}]}],
        },
    }


if __name__ == "__main__":
    raise SystemExit(manager.run())
