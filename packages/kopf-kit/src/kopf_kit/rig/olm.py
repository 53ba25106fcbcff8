"""A real Operator Lifecycle Manager in the kind cluster: `python -m kopf_kit olm up|down`.

kopf-offline builds its programs into one image, and has the chart of its own module, by which it is
installed. catalogd, the component of OLM v1 that serves catalogs, runs beside it.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from kopf_kit.rig import cluster, kind, reading, registry, tools, versions
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import Step, say, step, together

#: Where catalogd runs.
CATALOGD_NAMESPACE = "olmv1-system"
_CONTROLLER = "github.com/operator-framework/operator-controller"


def extension_kind() -> Path:
    """Return the file with the CRD of OLM v1's ClusterExtension."""
    folder = _module() / "helm/olmv1/base/operator-controller/crd/standard"
    return folder / "olm.operatorframework.io_clusterextensions.yaml"


def _module() -> Path:
    """Return the folder of catalogd's sources, with its chart."""
    return tools.builder("catalogd's chart is in its Go module:").module(_CONTROLLER)


def install(cluster: Cluster, ref: str) -> None:
    """Install catalogd from the image that contains it; wait until it runs."""
    with step(f"catalogd {versions.CATALOGD}") as work:
        work.run(
            [*cluster.kubectl_command, "apply", "--server-side", "--force-conflicts", "-f", "-"],
            timeout=120,
            stdin=_listed([*_manifests(cluster, ref), *_certificate(cluster, work)]),
        )
        work.run(
            [
                *(*cluster.kubectl_command, "-n", CATALOGD_NAMESPACE, "rollout", "status"),
                *("deployment/catalogd-controller-manager", "--timeout=300s"),
                "--request-timeout=0",
            ],
            timeout=330,
        )


def remove(cluster: Cluster) -> None:
    """Remove catalogd."""
    with step("catalogd, away") as work:
        work.run(
            [*cluster.kubectl_command, "delete", "--ignore-not-found", "--timeout=120s", "-f", "-"],
            timeout=150,
            stdin=_listed(_manifests(cluster, "any")),
        )


def _listed(manifests: list[dict[str, Any]]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}).encode()


def _manifests(cluster: Cluster, ref: str) -> list[dict[str, Any]]:
    """Return catalogd's manifests, from its chart, for a cluster without cert-manager."""
    chart = _module() / "helm" / "olmv1"
    settings = {
        "options.operatorController.enabled": "false",
        "options.certManager.enabled": "true",  # so the certificate is taken from a Secret
        "options.catalogd.deployment.image": ref,
    }
    options = [f"--set={name}={value}" for name, value in settings.items()]
    rendered = output([*cluster.helm_command, "template", "olmv1", chart, *options], timeout=60)
    manifests = reading.load_all(rendered, chart)
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            pod["containers"][0]["command"] = ["/bin/catalogd"]
            pod["hostAliases"] = [{"ip": registry.address(), "hostnames": [registry.NAME]}]
    return [
        manifest
        for manifest in manifests
        if "cert-manager.io" not in manifest["apiVersion"]
        and manifest["kind"] != "MutatingWebhookConfiguration"  # adds a label; trusts that CA
    ]


def _certificate(cluster: Cluster, work: Step) -> list[dict[str, Any]]:
    """Return the Secret that cert-manager would create, or nothing if it exists."""
    name = "catalogd-service-cert-git-version"
    if answer([*cluster.kubectl_command, "-n", CATALOGD_NAMESPACE, "get", "secret", name]):
        return []
    return [kind.secret(name, CATALOGD_NAMESPACE, "catalogd-service", work)]


#: The namespace where OLM runs, and where it looks for global catalogs.
NAMESPACE = "olm"
#: A namespace with an OperatorGroup for all namespaces; OLM's chart creates it.
OPERATORS = "operators"

_OLM = "github.com/operator-framework/operator-lifecycle-manager"
_RELEASE, _RELEASE_NAMESPACE = "olm", "default"
_CRDS = "operators.coreos.com"


def up(name: str = cluster.NAME) -> Cluster:
    """Install OLM and catalogd; takes a few seconds if they are installed."""
    target = cluster.up(name)
    if target.registry is None:
        raise KitError(
            "CLUSTER=existing: OLM is only put into a cluster that is made here. Leave CLUSTER "
            "out for a kind cluster, or install OLM into yours as its documentation says."
        )
    ref = image()
    together(lambda: _install_olm(target, ref), lambda: install(target, ref))
    return target


def down() -> None:
    """Remove OLM and catalogd, after everything that was installed with a Subscription."""
    if cluster.is_existing():
        raise KitError(
            "CLUSTER=existing: OLM was not put into this cluster from here, so it is not removed "
            "from here, nor is anything that was installed by it."
        )
    target = cluster.find()
    if target is None:
        return
    _remove_olm(target)
    remove(target)


def _remove_olm(target: Cluster) -> None:
    with step("OLM, away") as work:
        if answer([*target.kubectl_command, "get", "crd", f"subscriptions.{_CRDS}"]):
            # OLM itself removes its finalizer from a CSV: without OLM, a remaining CSV would
            # keep its namespace in Terminating forever.
            for kind in ("subscriptions", "clusterserviceversions"):
                work.run(
                    [
                        *(*target.kubectl_command, "delete", f"{kind}.{_CRDS}"),
                        *("-A", "--all", "--timeout=120s"),
                    ],
                    timeout=150,
                )
        work.run(
            [
                *(*target.helm_command, "uninstall", _RELEASE, "--namespace", _RELEASE_NAMESPACE),
                *("--ignore-not-found", "--wait", "--timeout=3m"),
            ],
            timeout=240,
        )
        _delete_crds(target, work)
        # Nothing else deletes the roles that OLM creates for an OperatorGroup.
        groups = ("clusterroles", "-l", "olm.owner.kind=OperatorGroup")
        work.run([*target.kubectl_command, "delete", *groups], timeout=60)


def _delete_crds(target: Cluster, work: Step) -> None:
    """Delete OLM's CRDs, because Helm never deletes those in a chart's crds/."""
    crds = output([*target.kubectl_command, "get", "crd", "-o", "name"]).split()
    ours = [name for name in crds if name.endswith(f".{_CRDS}")]
    if ours:
        work.run([*target.kubectl_command, "delete", "--timeout=120s", "--", *ours], timeout=150)


def image() -> str:
    """Return the name of the image with all programs, in the local registry."""
    return tools.builder("no image of OLM's programs can be pulled:").image("olm")


# --- OLM --------------------------------------------------------------------------------------


def _values(ref: str) -> dict[str, Any]:
    """Return the values of OLM's chart: everything from our image, no sample catalog."""
    ours = {"image": {"ref": ref, "pullPolicy": "IfNotPresent"}}
    return {
        "namespace": NAMESPACE,
        "catalog_namespace": NAMESPACE,
        "operator_namespace": OPERATORS,
        "installType": "",  # `upstream` adds a catalog whose image is out of reach
        "olm": ours,
        "catalog": {
            **ours,
            "commandArgs": f"--configmapServerImage={ref}",
            "opmImageArgs": f"--opmImage={ref}",
        },
        "package": {**ours, "replicaCount": 1},
    }


def _install_olm(target: Cluster, ref: str) -> None:
    look = ("get", "deployment,csv", "-n", NAMESPACE, "-o")
    form = "jsonpath={..image} {.items[?(@.metadata.name=='packageserver')].status.phase}"
    installed = answer([*target.kubectl_command, *look, form]) or ""
    if ref in installed and installed.endswith(" Succeeded"):
        return
    if installed:  # upgraded in place, OLM may wait for its own package server forever
        _remove_olm(target)
    builder = tools.builder("OLM's chart is in its Go module:")
    chart = builder.module(_OLM) / "deploy" / "chart"
    with step(f"OLM {versions.OLM}") as work, tempfile.TemporaryDirectory() as folder:
        values = Path(folder) / "values.yaml"
        values.write_text(json.dumps(_values(ref)))
        work.run(
            [
                *(*target.helm_command, "upgrade", "--install", _RELEASE, chart),
                *("--namespace", _RELEASE_NAMESPACE, "--values", values),
            ],
            timeout=120,
        )
        # OLM itself installs the package server with a CSV, so this proves that OLM works. It is
        # there sooner than the probes of OLM's own Pods, of ten seconds each, say.
        work.run(
            [
                *(*target.kubectl_command, "wait", "-n", NAMESPACE, "csv/packageserver"),
                *("--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s"),
                "--request-timeout=0",
            ],
            timeout=330,
        )


def report(target: Cluster) -> None:
    """Print what the user can do next."""
    say(
        f"OLM runs in the namespace {NAMESPACE}; docs/olm.md says how to go on:\n"
        f"  kubectl --kubeconfig {target.kubeconfig} get catalogsources,subscriptions,csv -A"
    )
