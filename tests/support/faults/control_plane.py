"""The control plane of the fault tests; `kubelet` stands in for the kubelet and the scheduler."""

import contextlib
from collections.abc import Iterator

from hack.rig.control_plane import GARBAGE, ControlPlane

#: Whom tests.chart.helm installs.
OPERATOR = "system:serviceaccount:operators:demo-message-operator"
_USERS = {OPERATOR: "system:serviceaccounts"}
_FLAGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
)  # fmt: skip
CONTROLLERS = (
    GARBAGE, "namespace-controller", "pod-garbage-collector-controller",
    "resourcequota-controller", "deployment-controller", "replicaset-controller",
)  # fmt: skip


@contextlib.contextmanager
def running(*flags: str) -> Iterator[ControlPlane]:
    """Have a control plane while the block lasts; its controllers are yet to be started."""
    plane = ControlPlane(_USERS, (*_FLAGS, *flags))
    try:
        plane.start()
        plane.wait()
        yield plane
    finally:
        plane.remove()
