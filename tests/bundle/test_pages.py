"""What docs/olm.md, docs/monitoring.md and the bundle's description say fits what OLM installs."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chart.helm import Manifest, helm, understood
from kopf_kit.olm import manifests
from kopf_kit.olm.bundle import BUNDLE
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME
from kopf_kit.rig import paths
from message_operator.settings import PodTemplate, Settings

DOCS = paths.CHECKOUT / "docs"
GUIDE, PAGE = (DOCS / "olm.md").read_text(), (DOCS / "monitoring.md").read_text()
CSV = documents.load((BUNDLE / "manifests" / f"{NAME}.clusterserviceversion.yaml").read_text())
(DEPLOYMENT,) = CSV["spec"]["install"]["spec"]["deployments"]
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]

CRD = documents.load((BUNDLE / "manifests" / "myorg.dev_messages.yaml").read_text())
FILE = documents.load_all(manifests.texts()["monitoring.yaml"])


def one(kind: str, manifests: list[Manifest] = FILE) -> Manifest:
    """Return the only object of a kind."""
    (found,) = (manifest for manifest in manifests if manifest["kind"] == kind)
    return found


def section(title: str) -> str:
    """Return one section of the two pages."""
    return f"{GUIDE}\n{PAGE}".partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def by_the_guide(namespace: str, title: str = "Monitor") -> list[Manifest]:
    """Return what the `helm template` of a section makes, for another namespace."""
    text = section(title)
    (command,) = re.findall(r"\$ (helm template .*?) \| kubectl apply -f -", text, re.DOTALL)
    one_line = command.replace("\\\n", " ").replace("my-operators", namespace)
    program, *arguments = shlex.split(one_line)
    assert program == "helm"
    in_place = [
        str(paths.CHECKOUT / word) if word.startswith(("charts/", "olm/")) else word
        for word in arguments
    ]
    return documents.load_all(helm(*in_place))


def test_the_suggested_namespace_is_that_of_the_file() -> None:
    suggested = CSV["metadata"]["annotations"]["operatorframework.io/suggested-namespace"]

    assert f"runs in the namespace `{suggested}`, apply this file" in " ".join(GUIDE.split())
    assert {manifest["metadata"]["namespace"] for manifest in FILE} == {suggested}


def test_the_bundle_s_pods_are_scraped() -> None:
    monitor, service = one("PodMonitor")["spec"], one("Service")["spec"]
    labels = POD["metadata"]["labels"]
    (operator,) = POD["spec"]["containers"]
    ports = {port["name"] for port in operator["ports"]}

    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports
    assert service["selector"].items() <= labels.items()
    assert {port["targetPort"] for port in service["ports"]} <= ports


def test_the_alerts_are_about_the_bundle_s_pods() -> None:
    (group,) = one("PrometheusRule")["spec"]["groups"]
    pods = re.findall(r'pod=~"([^"]+)"', json.dumps(group).replace('\\"', '"'))

    assert len(group["rules"]) > 10
    for pattern in pods:
        assert re.fullmatch(pattern, f"{DEPLOYMENT['name']}-6bc8f7d9c4-x2x4z")
    for rule in group["rules"]:
        assert rule["labels"]["operator"] == DEPLOYMENT["name"]


@pytest.mark.parametrize("kind", ["Service", "PodMonitor", "PrometheusRule", "ConfigMap"])
def test_the_guide_s_command_makes_the_same(kind: str) -> None:
    made, written = one(kind, by_the_guide("message-operator")), one(kind)

    assert made.keys() == written.keys()
    assert {k: v for k, v in made.items() if k != "metadata"} == {
        k: v for k, v in written.items() if k != "metadata"
    }


def test_in_another_namespace_all_is_about_that_one() -> None:
    made = by_the_guide("elsewhere")

    assert {manifest["metadata"]["namespace"] for manifest in made} == {"elsewhere"}
    assert one("PodMonitor", made)["spec"]["namespaceSelector"] == {"matchNames": ["elsewhere"]}
    assert one("PodMonitor", made)["metadata"]["labels"]["release"] == "prometheus"
    expressions = [
        rule["expr"] for rule in one("PrometheusRule", made)["spec"]["groups"][0]["rules"]
    ]
    for expression in expressions:
        assert 'namespace="elsewhere"' in expression


def test_the_guide_s_way_to_protected_metrics_fits_the_bundle() -> None:
    title = "Protect the metrics"
    made = by_the_guide("message-operator", title)
    (block,) = re.findall(r"```yaml\n(.*?)```", section(title), re.DOTALL)
    config = documents.load(block)["spec"]["config"]
    (volume,), (mount,) = config["volumes"], config["volumeMounts"]
    variables = {variable["name"]: variable["value"] for variable in config["env"]}

    assert understood([], variables).metrics_cert_path == mount["mountPath"]
    assert volume["name"] == mount["name"]
    assert volume["secret"]["secretName"] == one("Certificate", made)["spec"]["secretName"]
    assert one("Service", made)["spec"]["selector"].items() <= POD["metadata"]["labels"].items()
    (account,) = one("ClusterRoleBinding", made)["subjects"]
    assert account["name"] == POD["spec"]["serviceAccountName"]
    (endpoint,) = one("ServiceMonitor", made)["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"


def test_the_guide_s_way_on_openshift_is_that_of_the_chart_s_readme(tmp_path: Path) -> None:
    title = "Protect the metrics"
    readme = (paths.CHECKOUT / "charts" / "message-operator" / "README.md").read_text()
    (block,) = (b for b in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "openshift" in b)
    values = tmp_path / "values.yaml"
    values.write_text(block)
    files = set(re.findall(r"templates/[-\w/]+\.yaml", section(title))) - {
        "templates/metrics-certificate.yaml"
    }
    made = documents.load_all(
        helm(
            *("template", NAME, paths.CHECKOUT / "charts" / "message-operator"),
            *("--namespace", NAME, "--values", values),
            *(word for file in sorted(files) for word in ("--show-only", file)),
        )
    )

    (secret,) = re.findall(r"mount the\s+Secret `([-\w]+)`", section(title))
    annotations = one("Service", made)["metadata"]["annotations"]
    assert annotations["service.beta.openshift.io/serving-cert-secret-name"] == secret
    (endpoint,) = one("ServiceMonitor", made)["spec"]["endpoints"]
    token = endpoint["authorization"]["credentials"]
    assert one("Secret", made)["metadata"]["name"] == token["name"]


def test_the_guide_s_way_to_protected_metrics_removes_the_monitor_of_plain_ones() -> None:
    plain = one("PodMonitor")["metadata"]

    command = f"$ kubectl -n {plain['namespace']} delete podmonitor {plain['name']} "
    assert command in section("Protect the metrics")


# --- settings -------------------------------------------------------------------------------------


def environment(subscription: Mapping[str, str]) -> dict[str, str]:
    """Return the operator's environment, with the variables of a Subscription."""
    (container,) = POD["spec"]["containers"]
    given = {"POD_NAME": "message-operator-1", "POD_NAMESPACE": "operators", "POD_UID": "u"}
    given |= {v["name"]: v["value"] for v in container["env"] if "value" in v} | dict(subscription)
    return {
        name: re.sub(r"\$\((\w+)\)", lambda word: given[word[1]], given[name]) for name in given
    }


def started(subscription: Mapping[str, str]) -> Settings:
    """Return the settings with which the operator starts."""
    settings: Settings = understood([], environment(subscription))
    return settings


def test_the_guide_names_the_first_openshift_that_has_the_kubernetes_that_is_needed() -> None:
    needed = CSV["spec"]["minKubeVersion"]
    minor = int(needed.split(".")[1])
    # OpenShift 4.3 had Kubernetes 1.16, and each minor of the one has had one of the other since.
    first = f"4.{minor - 13}"

    assert f"Kubernetes 1.{minor} (`minKubeVersion`) or OpenShift {first}" in GUIDE


def test_a_subscription_sets_the_user_of_message_pods() -> None:
    assert started({"MESSAGE_OPERATOR_MESSAGE_USER": "none"}).message_user is None


def test_a_subscription_says_what_the_cluster_asks_of_message_pods() -> None:
    said = json.dumps({"priorityClassName": "low", "nodeSelector": {"pool": "small"}})

    template = started({"MESSAGE_OPERATOR_MESSAGE_POD": said}).message_pod

    assert (template.priority_class_name, template.node_selector) == ("low", {"pool": "small"})
    assert template.resources == PodTemplate().resources, "what is left out keeps its default"


def test_the_guide_s_settings_are_understood() -> None:
    guide = section("Configure")
    block = guide.partition("```yaml\n")[2].partition("```")[0]
    subscription = {v["name"]: v["value"] for v in documents.load(block)["spec"]["config"]["env"]}
    text = guide.partition("the fields of the chart's")[2].partition(". If a value")[0]
    field, *left_out = re.findall(r"`(\w+)`", text)
    fields = documents.load((PROJECT.chart / "values.yaml").read_text())[field]

    template = started(subscription).message_pod

    assert subscription.keys() <= environment({}).keys()
    assert template.node_selector["pool"] == "small"
    assert fields.keys() - left_out == set(PodTemplate.__struct_encode_fields__)


def test_the_description_s_example_and_settings_are_real() -> None:
    text = CSV["spec"]["description"]
    blocks = [documents.load(block.partition("```")[0]) for block in text.split("```yaml\n")[1:]]

    message, subscription = blocks
    fields = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    shown = json.loads(CSV["metadata"]["annotations"]["alm-examples"])
    assert message == documents.load(PROJECT.samples["Message"][0].read_text())
    assert set[str]().union(*(example["spec"] for example in shown)) == set(fields["properties"])
    for variable in subscription["spec"]["config"]["env"]:
        assert variable["name"] in environment({})
        started({variable["name"]: variable["value"]})
