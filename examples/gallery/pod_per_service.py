"""A Pod for each Service with the label debug=yes, from which to look at what it serves."""

from collections.abc import Iterable

import kopf_runtime as kr

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.53"
SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Port(kr.Fields, frozen=True):
    """A port of a Service."""

    port: int


class Spec(kr.Fields, frozen=True):
    """What is read of a Service."""

    ports: tuple[Port, ...] = ()


class Service(kr.Object):
    """A Service."""

    spec: Spec = Spec()


manager = kr.Manager("pod-per-service", kr.Settings)
services = manager.controller_for(kr.kinds.SERVICE, Service, where={"labels": {"debug": "yes"}})
services.owns(kr.kinds.POD, update=kr.RECREATE)


@services.desired
def desired(service: Service, _: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the Pod of a Service, which knows its ports."""
    name = service.metadata.name
    if not service.spec.ports:
        raise kr.PlanError(f"the Service {name} has no ports; add one to .spec.ports")
    env = [{"name": "TARGETS", "value": " ".join(f"{name}:{p.port}" for p in service.spec.ports)}]
    container = {"name": "look", "image": IMAGE, "args": ["pause"], "env": env}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"look-at-{name}"},
        "spec": {
            "containers": [{**container, "securityContext": SAFE}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "automountServiceAccountToken": False,
        },
    }


if __name__ == "__main__":
    raise SystemExit(manager.run())
