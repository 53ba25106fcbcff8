"""A control plane of plain processes, for tests, with its kubectl and the operator's roles."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kopf_kit.project import rbac
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, AUDITED, GARBAGE, ControlPlane, audit, chosen
from kopf_kit.testing.requests import Raw
from kopf_runtime import Manager


def kubectl(plane: ControlPlane, *arguments: str, stdin: list[Raw] | None = None) -> str:
    """Run kubectl with all rights, with these objects as its input; return its output."""
    done = subprocess.run(
        [
            *(tools.path("kubectl"), f"--server={plane.server}", f"--token={ADMIN}"),
            *("--insecure-skip-tls-verify", *arguments),
        ],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": stdin or []}),
        env={**os.environ, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=330,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


_API = "rbac.authorization.k8s.io"


def declared_rules(operator: Manager[Any]) -> list[Raw]:
    """Return exactly the rules that an operator's declaration needs, and those for its Lease."""
    return [*(rule for _, rule in rbac.rules(operator)), rbac.LEASES]


def granted(name: str, rules: Iterable[Raw], user: str, namespace: str | None) -> list[Raw]:
    """Return a user's role and binding of this name for a namespace, or for all if it is None."""
    prefix = "" if namespace else "Cluster"
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return [
        {"apiVersion": f"{_API}/v1", "kind": f"{prefix}Role", "metadata": meta, "rules": [*rules]},
        {
            "apiVersion": f"{_API}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _API, "kind": f"{prefix}Role", "name": name},
            "subjects": [{"apiGroup": _API, "kind": "User", "name": user}],
        },
    ]


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
