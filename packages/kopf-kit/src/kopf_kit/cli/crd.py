"""`kopf-kit install` and `kopf-kit uninstall`: only the CRD; and whose operators serve it.

Also used by the commands that install the CRD with the rest of the chart, or run without it.
"""

import json
import time

import click

from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.release.artifacts import CHART
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import say, step

#: Where `kopf-kit deploy` installs the operator.
NAMESPACE = RELEASE = PROJECT.name
_OPERATORS = ("get", "deployments", "-A", "-l", f"app.kubernetes.io/name={PROJECT.name}")
_CRDS = tuple(kind.crd for kind in PROJECT.kinds)
#: The CRDs' names, for sentences.
NAMES = ", ".join(_CRDS)
#: The roles that belong to a kind; the chart keeps them like the CRD.
_ROLES = tuple(f"{crd}-{role}" for crd in _CRDS for role in ("view", "edit", "admin"))
#: Seconds that a deletion may take, and seconds after which a finalizer counts as blocking it.
_DELETION, _HELD = 300.0, 5.0
#: The finalizer of a foreground deletion, which the garbage collector removes.
_ITS_OWN = '["foregroundDeletion"]'
_HOLDERS = (
    "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}"
    '{" "}{.metadata.finalizers}{"\\n"}{end}'
)


@click.command()
def install_command() -> None:  # noqa: D103 (the program has its help)
    install(clusters.up())


@click.command()
def uninstall_command() -> None:  # noqa: D103
    uninstall()


def install(cluster: Cluster, client: dict[str, str] | None = None) -> None:
    """Apply the CRD, unless it belongs to an operator that `kopf-kit deploy` did not install.

    `client` is where the API server is to have objects converted, instead of the chart's Service.
    """
    wait_while_deleted(cluster)
    foreign = others(cluster)
    if foreign and is_there(cluster):
        say(f"note: the CRD {NAMES} belongs to the operator {foreign[0]} and is left as it is.")
    else:
        apply(cluster, redirect(cluster, client))


def redirect(cluster: Cluster, client: dict[str, str] | None = None) -> bytes:
    """Return the CRDs with this client; existing ones are asked to change to it before.

    An apply leaves what others have written, and the API server refuses a URL beside a Service.
    """
    crds = documents.load_all(_rendered(cluster))
    for crd in crds:
        webhook = (crd["spec"].get("conversion") or {}).get("webhook")
        if webhook is None:
            continue
        webhook["clientConfig"] = client or webhook["clientConfig"]
        name, path = crd["metadata"]["name"], ".spec.conversion.webhook.clientConfig"
        look = ("get", "crd", name, "--ignore-not-found", "-o", f"jsonpath={{{path}}}")
        asked = output([*cluster.kubectl_command, *look])
        ours = not cluster.existing  # a URL in a cluster of others is not from `kopf-kit run`
        if ours and asked and ("url" in json.loads(asked)) != bool(client):
            value = {"path": path.replace(".", "/"), "value": webhook["clientConfig"]}
            patch = ("--type=json", "--patch", json.dumps([{"op": "replace", **value}]))
            output([*cluster.kubectl_command, "patch", "crd", name, *patch])
    return documents.text(*crds).encode()


def uninstall() -> None:
    """Run `kopf-kit uninstall`."""
    cluster = clusters.find()
    if cluster is None:
        return
    refuse_others(cluster, f"it serves the {PROJECT.many} that this command deletes")
    delete(cluster)
    for operator in operators(cluster):
        say(
            f"note: the operator {operator} still runs and waits for the CRD; "
            "`kopf-kit undeploy` removes it."
        )


def is_there(cluster: Cluster) -> bool:
    """Return whether the cluster has any of the CRDs."""
    return bool(_there(cluster))


def release(cluster: Cluster) -> str:
    """Return the Helm release that owns the CRD, as NAMESPACE/NAME; empty if none does."""
    annotations = r"{.metadata.annotations.meta\.helm\.sh/release-%s}"
    form = "jsonpath=" + "/".join(annotations % part for part in ("namespace", "name"))
    look = ("get", "crd", _CRDS[0], "--ignore-not-found", "-o", form)
    owner = output([*cluster.kubectl_command, *look])
    return owner.strip("/")


def apply(cluster: Cluster, manifests: bytes) -> None:
    """Apply CRDs, and wait until they are served."""
    with step(f"CRD {NAMES}") as work:
        work.run(
            [*cluster.kubectl_command, "apply", "--server-side", "--force-conflicts", "-f", "-"],
            timeout=90,
            stdin=manifests,
        )
        established = ("wait", "--for=condition=Established", "crd", *_CRDS, "--timeout=60s")
        work.run([*cluster.kubectl_command, *established], timeout=90)


def _rendered(cluster: Cluster) -> bytes:
    """Return only the CRD, as the chart renders it for `kopf-kit deploy`.

    It is rendered without the cluster: otherwise Helm would compare it with the existing one, and
    refuse one that another release, or no release, has installed.
    """
    template = (cluster.helm, "template", RELEASE, CHART)
    options = ("--namespace", NAMESPACE, "--show-only", "templates/crd.yaml")
    return output([*template, *options], timeout=60).encode()


def delete(cluster: Cluster) -> None:
    """Delete the CRD, and with it every object of the kind; wait until they are gone."""
    with step(f"CRD {NAMES} and all {PROJECT.many}: delete") as work:
        delete = (*cluster.kubectl_command, "delete", "--ignore-not-found", "--wait=false")
        # The garbage collector learns of a kind up to half a minute late, and never collects the
        # children of one that is gone by then. So it has to let go of each object first. A kind
        # that is too new to be served has none.
        for crd in _there(cluster):
            every = (crd, "--all", "--all-namespaces", "--cascade=foreground")
            answer([*delete, *every], timeout=600)
        work.run([*delete, "crd", *_CRDS], timeout=90)
        work.run([*delete, "clusterrole", *_ROLES], timeout=90)
    wait_while_deleted(cluster)


def wait_while_deleted(cluster: Cluster) -> None:
    """Wait while the CRD is being deleted: objects created until then are deleted with it.

    Raise KitError with the objects whose finalizers block the deletion.
    """
    began = time.monotonic()
    while _is_being_deleted(cluster):
        waited = time.monotonic() - began
        free, held = _remaining(cluster)
        if held and not free and waited > _HELD:
            raise KitError(
                f"the CRD {NAMES} is being deleted, but {PROJECT.many} have finalizers that nobody "
                f"removes: {', '.join(held)}. Remove the finalizers (kubectl edit {_CRDS[0]} …), "
                "then run the same command again."
            )
        if waited > _DELETION:
            raise KitError(
                f"the CRD {NAMES} is still being deleted after {_DELETION:.0f} s; "
                f"{len(free) + len(held)} {PROJECT.many} are left. Run the same command "
                "again later."
            )
        time.sleep(0.5)


def _there(cluster: Cluster) -> list[str]:
    """Return the CRDs that exist in the cluster."""
    look = ("get", "crd", *_CRDS, "--ignore-not-found", "-o", "name")
    listed = output([*cluster.kubectl_command, *look])
    return [line.partition("/")[2] for line in listed.splitlines()]


def _is_being_deleted(cluster: Cluster) -> bool:
    look = ("get", "crd", *_CRDS, "--ignore-not-found")
    since = "jsonpath={..metadata.deletionTimestamp}"
    return bool(output([*cluster.kubectl_command, *look, "-o", since]).strip())


def _remaining(cluster: Cluster) -> tuple[list[str], list[str]]:
    """Return the remaining objects: those that are ending, and those that a finalizer blocks."""
    free: list[str] = []
    held: list[str] = []
    for crd in _CRDS:
        lines = answer([*cluster.kubectl_command, "get", crd, "-A", "-o", _HOLDERS]) or ""
        for line in lines.splitlines():
            name, _, finalizers = line.partition(" ")
            (free if finalizers in ("", _ITS_OWN) else held).append(name)
    return free, held


def operators(cluster: Cluster) -> dict[str, bool]:
    """Return the operators in the cluster, as NAMESPACE/NAME, and whether each is ours.

    Ours is the one from `kopf-kit deploy`; one installed by OLM or by another release is not.
    """
    items = json.loads(output([*cluster.kubectl_command, *_OPERATORS, "-o", "json"]))["items"]
    return {
        f"{meta['namespace']}/{meta['name']}": (
            (meta["namespace"], meta["name"]) == (NAMESPACE, RELEASE)
            and "olm.owner" not in meta.get("labels", {})
        )
        for meta in (item["metadata"] for item in items)
    }


def others(cluster: Cluster) -> list[str]:
    """Return the operators that `kopf-kit deploy` did not install."""
    return [name for name, ours in operators(cluster).items() if not ours]


def refuse_others(cluster: Cluster, why: str) -> None:
    """Raise KitError if the cluster has an operator that `kopf-kit deploy` did not install."""
    for other in others(cluster):
        namespace, _, name = other.partition("/")
        raise KitError(
            f"the cluster already has an operator, {other}, and {why}. Remove it first (helm "
            f"uninstall {name} --namespace {namespace}; if OLM installed it, delete its "
            "Subscription and CSV), or use another cluster."
        )
