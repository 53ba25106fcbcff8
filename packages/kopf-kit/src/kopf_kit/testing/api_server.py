"""A control plane of plain processes, for tests; `kubelet` simulates what runs its Pods."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kopf_kit.rig.control_plane import AUDITED, GARBAGE, ControlPlane, audit, chosen

#: The user that an operator is, unless its subject names another; its token is its name.
OPERATOR = "system:serviceaccount:operators:operator"
_GROUP = "system:serviceaccounts"
#: With all rights, for `kopf-kit rights`, which looks at what is asked for.
_ALMIGHTY = "system:masters"
_FLAGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)
#: What is alpha or beta in an older Kubernetes, and off; the tests simulate others' admission with
#: it. None before 1.32 has policies that mutate.
_EARLY = {
    "1.29": ("ValidatingAdmissionPolicy", "v1beta1"),
    "1.32": ("MutatingAdmissionPolicy", "v1alpha1"),
    "1.33": ("MutatingAdmissionPolicy", "v1alpha1"),
    "1.34": ("MutatingAdmissionPolicy", "v1beta1"),
    "1.35": ("MutatingAdmissionPolicy", "v1beta1"),
}
#: The servers may have memory, so that the operators have the processor.
_ROOMY = {"GOGC": "400"}
CONTROLLERS = (
    GARBAGE,
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
)


@contextlib.contextmanager
def running(*flags: str, users: Iterable[str] = (OPERATOR,)) -> Iterator[ControlPlane]:
    """Run a control plane during the block, without its controllers.

    Its programs are envtest's (KUBEBUILDER_ASSETS), the PATH's, or built. `flags` are further
    flags of the API server, and `users` those that operators run as.

    In a test that `kopf-kit rights` runs, it keeps an audit log of these users.
    """
    kubernetes = chosen()
    flags = (*_FLAGS, *_early(kubernetes), *flags)
    group = _GROUP
    if folder := os.environ.get(AUDITED):
        flags, group = (*flags, *audit(Path(folder), users)), _ALMIGHTY
    plane = ControlPlane(dict.fromkeys(users, group), flags, kubernetes, _ROOMY, installed=True)
    try:
        plane.start()
        plane.wait()
        yield plane
    finally:
        plane.remove()


def _early(kubernetes: str) -> tuple[str, ...]:
    """Return the flags of the API server that turn on what is off in an older version."""
    if kubernetes not in _EARLY:
        return ()
    feature, version = _EARLY[kubernetes]
    group = f"admissionregistration.k8s.io/{version}"
    return (f"--feature-gates={feature}=true", f"--runtime-config={group}=true")
