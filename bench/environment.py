"""The environment of a measurement: its own control plane, and one node simulated by kwok.

A real node accepts 110 Pods and needs seconds to start one. We measure the operators, so kwok
reports each Pod as running as soon as it sees it. Instead of a scheduler, which would make one more
write per Pod, an admission policy sets the node. It also removes the grace period, so that a
deleted Pod is gone at once. All of this is the same for each peer. Used by `measures`.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from bench import node
from bench.api import NAMESPACE, NODE, OPERATOR, PODS, Api, RefusedError
from kopf_kit.project import documents
from kopf_kit.rig import paths, tools
from kopf_kit.rig.control_plane import GARBAGE, ControlPlane
from kopf_kit.rig.run import KitError, output
from kopf_offline import golang

Crd = dict[str, object]

_GROUPS = {
    OPERATOR: "system:serviceaccounts:message-operator",
    "floor": "system:serviceaccounts:message-operator",
    "kwok": "system:masters",
}
_FLAGS = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)
_MUTATION = (
    f'[JSONPatch{{op: "add", path: "/spec/nodeName", value: "{NODE}"}}, '
    'JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 0}]'
)
_POLICIES = "/apis/admissionregistration.k8s.io/v1beta1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": list(_GROUPS)}],
}
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_STAGES = Path(__file__).with_name("stages.yaml")
_PATIENCE = 60.0
#: Go collects less often, and still leaves room for etcd's data and the operators in 24 GiB.
_ROOMY = {"GOGC": "400", "GOMEMLIMIT": "10GiB"}


@contextlib.asynccontextmanager
async def running(
    *,
    audited: bool = False,
    crd: Crd | None = None,
    controllers: Sequence[str] = (GARBAGE,),
    crowded: bool = False,
) -> AsyncIterator[ControlPlane]:
    """Run a control plane with the namespace, the node and a CRD, by default the Message's.

    `controllers` are those of Kubernetes' own that run. A `crowded` control plane is for 100,000
    Messages and takes less time to fill: `node` runs the Pods in place of kwok, there is no garbage
    collector because nothing is deleted, and the API server collects its memory less often.
    """
    flags = _FLAGS + (_audit_flags() if audited else ())
    plane = ControlPlane(_GROUPS, flags, variables=_ROOMY if crowded else {})
    if audited:
        (plane.folder / "audit-policy.yaml").write_text(json.dumps(_AUDIT))
    try:
        plane.start()
        await asyncio.to_thread(plane.wait)
        async with contextlib.AsyncExitStack() as stack:
            api = await stack.enter_async_context(Api(plane.server))
            kind = await asyncio.to_thread(message_crd) if crd is None else crd
            await _furnish(api, kind)
            if crowded:
                as_node = await stack.enter_async_context(Api(plane.server, "kwok"))
                await stack.enter_async_context(node.running(as_node))
            else:
                plane.start_controllers(*controllers)
                plane.run(
                    "kwok",
                    golang.program("kwok"),
                    f"--kubeconfig={plane.kubeconfig('kwok')}",
                    f"--config={_STAGES}",
                    f"--manage-single-node={NODE}",
                    "--node-lease-duration-seconds=0",
                    "-v=WARN",
                )
            await _settled(api, plane, kind)
            yield plane
            plane.check()
    finally:
        await asyncio.to_thread(plane.remove)


def audit_log(plane: ControlPlane) -> Path:
    """Return the path of a control plane's audit log."""
    return plane.folder / "audit.log"


def _audit_flags() -> tuple[str, ...]:
    return (  # relative: the parts run in the control plane's folder
        "--audit-log-path=audit.log",
        "--audit-policy-file=audit-policy.yaml",
        "--audit-log-mode=blocking",
    )


def message_crd() -> Crd:
    """Return the CRD of our chart, with which all peers are measured."""
    chart = paths.CHECKOUT / "charts" / "message-operator"
    rendered = output(
        [
            *(tools.path("helm"), "template", "bench", chart),
            *("--show-only", "templates/crd.yaml"),
        ],
        timeout=60,
    )
    found: Crd = documents.load(rendered)
    return found


async def _furnish(api: Api, crd: Crd) -> None:
    await api.request("POST", _CRDS, crd)
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    fake = {
        "metadata": {"name": NODE},
        "status": {"capacity": {"pods": "1000000"}, "allocatable": {"pods": "1000000"}},
    }
    await api.request("POST", "/api/v1/nodes", fake)
    rights = {
        "metadata": {"name": "bench"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            for user in _GROUPS
        ],
    }
    await api.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", rights)
    policy = {
        "metadata": {"name": "pods-to-the-node"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                    }
                ]
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": _MUTATION},
                }
            ],
        },
    }
    await api.request("POST", f"{_POLICIES}/mutatingadmissionpolicies", policy)
    binding = {
        "metadata": {"name": "pods-to-the-node"},
        "spec": {"policyName": "pods-to-the-node"},
    }
    await api.request("POST", f"{_POLICIES}/mutatingadmissionpolicybindings", binding)


async def _settled(api: Api, plane: ControlPlane, crd: Crd) -> None:
    """Wait until the kind is served, and a Pod can be created, runs, and can be deleted."""
    spec: Any = crd["spec"]
    objects = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    probe = {
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    }
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    trouble = ""
    while loop.time() < deadline:
        plane.check()
        try:
            await api.request("GET", objects)
            tried = await api.request("POST", f"{PODS}?dryRun=All", probe)
            if "nodeName" in tried["spec"]:
                break
            trouble = "the admission policy is not in force"
        except RefusedError as error:
            trouble = str(error)
        await asyncio.sleep(0.1)
    else:
        raise KitError(f"no Pod can be created after {_PATIENCE:.0f} s: {trouble}")
    await api.request("POST", PODS, probe)
    while (await api.request("GET", f"{PODS}/probe"))["status"]["phase"] != "Running":
        await _again(plane, deadline, "the node starts no Pod")
    await api.request("DELETE", f"{PODS}/probe")
    while (await api.request("GET", PODS))["items"]:
        await _again(plane, deadline, "the Pod does not go")


async def _again(plane: ControlPlane, deadline: float, trouble: str) -> None:
    plane.check()
    if asyncio.get_running_loop().time() > deadline:
        raise KitError(f"{trouble} after {_PATIENCE:.0f} s")
    await asyncio.sleep(0.1)


class Audit:
    """Counts writes in the API server's audit log, from where it was last read."""

    def __init__(self, log: Path, user: str) -> None:
        self._log, self._user = log, user
        self._at = 0

    def writes(self) -> Counter[str]:
        """Count the user's writes since the last call, such as ``patch messages/status``."""
        found: Counter[str] = Counter()
        with self._log.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the line is still being written
                self._at += len(line)
                entry = json.loads(line)
                if entry["user"]["username"] == self._user and entry["verb"] in _WRITES:
                    where = entry["objectRef"]
                    parts = (where["resource"], where.get("subresource"))
                    found[f"{entry['verb']} {'/'.join(part for part in parts if part)}"] += 1
        return found
