"""The control plane of the fault tests; `kubelet` stands in for the kubelet and the scheduler."""

import contextlib
from collections.abc import Iterator

from hack.rig.control_plane import GARBAGE, ControlPlane, chosen

#: Whom tests.chart.helm installs.
OPERATOR = "system:serviceaccount:operators:demo-message-operator"
_USERS = {OPERATOR: "system:serviceaccounts"}
_FLAGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
)  # fmt: skip
#: What is beta in an older Kubernetes, and needed to stand for the admission of others.
_BETA = {
    "1.35": (
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ),
}
CONTROLLERS = (
    GARBAGE, "namespace-controller", "pod-garbage-collector-controller",
    "resourcequota-controller", "deployment-controller", "replicaset-controller",
)  # fmt: skip


@contextlib.contextmanager
def running(*flags: str) -> Iterator[ControlPlane]:
    """Have a control plane while the block lasts; its controllers are yet to be started."""
    kubernetes = chosen()
    plane = ControlPlane(_USERS, (*_FLAGS, *_BETA.get(kubernetes, ()), *flags), kubernetes)
    try:
        plane.start()
        plane.wait()
        yield plane
    finally:
        plane.remove()
