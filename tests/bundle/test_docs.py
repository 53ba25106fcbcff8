"""What the guide and the description say of the Message's bundle holds, and its own values do."""

import json
import re
from collections.abc import Mapping

from chart import helm
from kopf_kit.olm import bundle
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths
from message_operator.settings import PodTemplate, Settings

GUIDE = (paths.CHECKOUT / "docs" / "olm.md").read_text()
(_FILE,) = (bundle.BUNDLE / "manifests").glob("*.clusterserviceversion.yaml")
CSV = documents.load(_FILE.read_text())
CRD = documents.load((bundle.BUNDLE / "manifests" / "myorg.dev_messages.yaml").read_text())


def environment(subscription: Mapping[str, str]) -> dict[str, str]:
    """Return the operator's environment, with the variables of a Subscription."""
    (deployment,) = CSV["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {"POD_NAME": "message-operator-1", "POD_NAMESPACE": "operators", "POD_UID": "u"}
    given |= {v["name"]: v["value"] for v in container["env"] if "value" in v} | dict(subscription)
    return {
        name: re.sub(r"\$\((\w+)\)", lambda word: given[word[1]], given[name]) for name in given
    }


def started(subscription: Mapping[str, str]) -> Settings:
    """Return the settings with which the operator starts."""
    settings: Settings = helm.understood([], environment(subscription))
    return settings


def test_the_guide_names_the_first_openshift_that_has_the_kubernetes_that_is_needed() -> None:
    needed = CSV["spec"]["minKubeVersion"]
    minor = int(needed.split(".")[1])
    # OpenShift 4.3 had Kubernetes 1.16, and each minor of the one has had one of the other since.
    first = f"4.{minor - 13}"

    assert f"Kubernetes 1.{minor} (`minKubeVersion`)" in GUIDE
    assert f"OpenShift {first} is the first version with it" in GUIDE


def test_a_subscription_sets_the_user_of_message_pods() -> None:
    assert started({"MESSAGE_OPERATOR_MESSAGE_USER": "none"}).message_user is None


def test_a_subscription_says_what_the_cluster_asks_of_message_pods() -> None:
    said = json.dumps({"priorityClassName": "low", "nodeSelector": {"pool": "small"}})

    template = started({"MESSAGE_OPERATOR_MESSAGE_POD": said}).message_pod

    assert (template.priority_class_name, template.node_selector) == ("low", {"pool": "small"})
    assert template.resources == PodTemplate().resources, "what is left out keeps its default"


def test_the_guide_s_settings_are_understood() -> None:
    guide = (paths.CHECKOUT / "docs" / "olm.md").read_text().partition("## Configure\n")[2]
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
