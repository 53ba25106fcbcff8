"""catalogd in the kind cluster: the component of OLM v1 that serves catalogs.

`kopf_kit.rig.olm` installs it beside OLM and removes it. Its program is in the same image.
"""

from pathlib import Path
from typing import Any

import yaml

from kopf_kit.rig import offline, registry, self_signed, versions
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import answer, output
from kopf_kit.rig.steps import Step, step

#: Where catalogd runs.
NAMESPACE = "olmv1-system"
_CONTROLLER = "github.com/operator-framework/operator-controller"


def extension_kind() -> Path:
    """Return the file with the CRD of OLM v1's ClusterExtension."""
    folder = _module() / "helm/olmv1/base/operator-controller/crd/standard"
    return folder / "olm.operatorframework.io_clusterextensions.yaml"


def _module() -> Path:
    """Return the folder of catalogd's sources, with its chart."""
    return offline.builder("catalogd's chart is in its Go module:").module(_CONTROLLER)


def install(cluster: Cluster, ref: str) -> None:
    """Install catalogd from the image that contains it; wait until it runs."""
    with step(f"catalogd {versions.CATALOGD}") as work:
        work.run(
            [*cluster.kubectl_command, "apply", "--server-side", "--force-conflicts", "-f", "-"],
            timeout=120,
            stdin=yaml.safe_dump_all(
                [*_manifests(cluster, ref), *_certificate(cluster, work)]
            ).encode(),
        )
        work.run(
            [
                *(*cluster.kubectl_command, "-n", NAMESPACE, "rollout", "status"),
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
            stdin=yaml.safe_dump_all(_manifests(cluster, "any")).encode(),
        )


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
    manifests = [manifest for manifest in yaml.safe_load_all(rendered) if manifest]
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
    if answer([*cluster.kubectl_command, "-n", NAMESPACE, "get", "secret", name]):
        return []
    return [self_signed.secret(name, NAMESPACE, "catalogd-service", work)]
