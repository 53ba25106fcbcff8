"""What the Message's documents say of its chart is what the chart does."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.helm import (
    CHART,
    NAMESPACE,
    OLDEST_KUBERNETES,
    PROGRAMS,
    find,
    helm,
    names,
    pod,
    render,
)
from hack import home
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.rig import tools
from kopf_kit.rig.paths import CHECKOUT
from message_operator import __version__
from tests.support.console import commands

README = CHART / "README.md"
KIND = "messages.myorg.dev"
RELEASE = f"{home.declared().page}/releases/download/v{__version__}"


@pytest.mark.parametrize(
    "document",
    [
        *("README.md", "README.ko.md", "docs/install.md", "docs/install.ko.md"),
        f"{CHART}/README.md",
    ],
)
def test_the_documents_name_the_oldest_kubernetes_that_is_proved(document: str) -> None:
    named = re.findall(r"(?:Kubernetes|쿠버네티스) (1\.\d+)", (CHECKOUT / document).read_text())

    assert named
    assert set(named) == {OLDEST_KUBERNETES}


def test_the_readme_s_values_for_cilium_name_the_api_server() -> None:
    text = (CHART / "README.md").read_text()
    (block,) = (b for b in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "cilium" in b)

    manifests = render(documents.load(block))

    assert find(manifests, "NetworkPolicy")["spec"]["egress"] == []
    spec = find(manifests, "CiliumNetworkPolicy")["spec"]
    assert spec["egress"] == [{"toEntities": ["kube-apiserver"]}]
    selected = spec["endpointSelector"]["matchLabels"]
    assert selected.items() <= pod()["metadata"]["labels"].items()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_readme_s_uninstallation_names_what_others_have_made(program: str) -> None:
    metrics = {"secure": {"enabled": True, "certManager": {"enabled": True}}}
    name = "message-operator"
    manifests = render({"metrics": metrics}, release=name, namespace=name, program=program)
    one = {m["kind"]: m for m in manifests}
    (operator,) = one["Deployment"]["spec"]["template"]["spec"]["containers"]
    (lease,) = (a.partition("=")[2] for a in operator["args"] if a.startswith("--lease-name="))
    section = README.read_text().partition("## Uninstall\n")[2].partition("\n## ")[0]

    for left in (
        f"lease/{lease}",
        f"pod/{one['Pod']['metadata']['name']}",
        f"secret/{one['Certificate']['spec']['secretName']}",
    ):
        assert f" {left} " in section
    role = next(m for m in manifests if m["metadata"]["name"].endswith("-metrics-reader"))
    assert f"delete clusterrolebinding {role['metadata']['name']} " in section
    assert f"create clusterrolebinding {role['metadata']['name']} " in README.read_text()


def test_the_readme_s_way_on_openshift_reads_no_file_and_has_a_token_that_is_let_in() -> None:
    """The Prometheus of user workloads refuses `caFile`, `bearerTokenFile` and all such."""
    (block,) = (
        block
        for block in re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
        if "openshift" in block
    )
    manifests = render(documents.load(block), release="message-operator")
    (monitor,) = (m for m in manifests if m["kind"] == "ServiceMonitor")
    (found,) = monitor["spec"]["endpoints"]

    assert "File" not in json.dumps(found)
    host = f"message-operator-metrics.{NAMESPACE}.svc"
    assert found["tlsConfig"] == {
        "ca": {"configMap": {"name": "openshift-service-ca.crt", "key": "service-ca.crt"}},
        "serverName": host,
    }
    # The platform makes the Secret beside the Service that asks for it, with its host.
    service = find(manifests, "Service", host.partition(".")[0])
    asked = service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"]
    (deployment,) = (m for m in manifests if m["kind"] == "Deployment")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"]["secretName"] == asked
    # The token is that of a ServiceAccount that may read the metrics.
    credentials = found["authorization"]["credentials"]
    token = find(manifests, "Secret", credentials["name"])
    assert (token["type"], credentials["key"]) == ("kubernetes.io/service-account-token", "token")
    account = token["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    find(manifests, "ServiceAccount", account)
    (binding,) = (
        m
        for m in manifests
        if m["kind"] == "ClusterRoleBinding" and m["subjects"][0]["name"] == account
    )
    assert binding["subjects"][0]["namespace"] == NAMESPACE
    role = find(manifests, "ClusterRole", binding["roleRef"]["name"])
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


@pytest.mark.parametrize("guide", ["docs/install.md", "docs/install.ko.md"])
def test_p1_the_guide_s_application_prunes_and_keeps_the_kind(guide: str) -> None:
    text = (CHECKOUT / guide).read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: argoproj.io/.*?)```", text, re.DOTALL)
    spec = documents.load(block)["spec"]
    crd = find(render(spec["source"]["helm"]["valuesObject"]), "CustomResourceDefinition", KIND)

    assert spec["syncPolicy"]["automated"]["prune"]
    assert crd["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false"


def overlay(guide: str) -> dict[str, Any]:
    """Return the overlay that a guide shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", (CHECKOUT / guide).read_text(), re.DOTALL)
    (block,) = (block for block in blocks if f"resources: [{RELEASE}/install.yaml]" in block)
    found: dict[str, Any] = documents.load(block)
    return found


def test_both_guides_show_an_overlay_that_changes_namespace_and_image(tmp_path: Path) -> None:
    shown = overlay("docs/install.md")
    (tmp_path / "install.yaml").write_text(texts()["install.yaml"])
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump(shown | {"resources": ["install.yaml"]})
    )
    command = (tools.path("kubectl"), "kustomize", tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    changed = documents.load_all(done.stdout)

    (deployment,) = (m for m in changed if m["kind"] == "Deployment")
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    (image,) = shown["images"]
    assert overlay("docs/install.ko.md") == shown
    assert {namespace for _, namespace, _ in names(changed)} == {"", shown["namespace"]}
    assert operator["image"] == f"{image['newName']}:{image['newTag']}"


#: Korean guides have the same commands: tests/unit/test_documents.py compares them.
GUIDES = sorted(
    file for file in (CHECKOUT / "docs").glob("*.md") if not file.name.endswith(".ko.md")
)
#: Flags of `helm upgrade` and `helm install` that `helm template` does not have.
OTHERS = {"--reset-then-reuse-values", "--create-namespace", "--take-ownership", "--wait"}


def typed() -> list[tuple[str, str]]:
    """Return all commands that install or upgrade from the chart's folder, with their pages."""
    return [
        (file.name, command)
        for file in GUIDES
        for command in commands(file.read_text())
        if re.match(r"helm (install|upgrade) \S+ charts/message-operator\s", command)
    ]


def rendered_as(command: str) -> list[str]:
    """Return the arguments with which Helm renders what a command installs."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    _, _, name, _, *rest = (re.sub(r"\b[A-Z]{3,}\b", _in_place_of, word) for word in words)
    return ["template", name, str(CHART), *(word for word in rest if word not in OTHERS)]


def _in_place_of(placeholder: re.Match[str]) -> str:
    """Return what a reader might write for a word such as REGION."""
    return placeholder[0].lower()


@pytest.mark.parametrize(("page", "command"), typed())
def test_the_chart_takes_the_values_of_a_guide(page: str, command: str) -> None:
    assert "kind: Deployment" in helm(*rendered_as(command)), page


def yaml_of(page: Path) -> list[dict[str, Any]]:
    """Return the objects in a page's YAML blocks."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [found for block in blocks for found in documents.load_all(block)]


def test_the_chart_takes_the_values_of_the_gitops_tools(tmp_path: Path) -> None:
    objects = {
        manifest["kind"]: manifest["spec"]
        for manifest in yaml_of(CHECKOUT / "docs" / "install.md")
        if "spec" in manifest
    }
    file = tmp_path / "values.yaml"

    for values in (
        objects["Application"]["source"]["helm"]["valuesObject"],
        objects["HelmRelease"]["values"],
    ):
        file.write_text(yaml.safe_dump(values))
        assert "replicas: 2" in helm("template", "message-operator", CHART, "--values", file)
