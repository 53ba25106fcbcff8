"""What the bundle installs is what the chart installs, in OLM's way."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kopf_runtime as kr
from bundle.package import release, render_with
from chart import helm
from chart.helm import VERSION, understood
from kopf_kit.chart import templates
from kopf_kit.cli import generate
from kopf_kit.crd import declared
from kopf_kit.olm import bundle, service_version
from kopf_kit.olm.bundle import BUNDLE
from kopf_kit.project import definition, documents, rbac, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME
from kopf_kit.rig.run import KitError
from runtime import permits

Manifest = dict[str, Any]

WIDGET = PROJECT.module(PROJECT.manager).Widget
CSV = documents.load((BUNDLE / "manifests" / f"{NAME}.clusterserviceversion.yaml").read_text())
CRD = documents.load((BUNDLE / "manifests" / "acme.example.com_widgets.yaml").read_text())
INSTALL = CSV["spec"]["install"]["spec"]
POD = INSTALL["deployments"][0]["spec"]["template"]
OPERATOR = POD["spec"]["containers"][0]

#: What the kubelet fills in from the Pod.
POD_FIELDS = {"POD_NAME": "widget-operator-1", "POD_NAMESPACE": "operators", "POD_UID": "u"}


def environment(namespaces: str, subscription: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the operator's environment as the kubelet makes it.

    `namespaces` is what OLM writes into the Pod's annotation, `subscription` its `config.env`,
    which OLM puts in the place of variables of the same name and else behind them.
    """
    fields = {**POD_FIELDS, "WATCH_NAMESPACE": namespaces}
    written = {v["name"]: v.get("value", fields.get(v["name"])) for v in OPERATOR["env"]}
    found: dict[str, str] = {}
    for name, value in {**written, **(subscription or {})}.items():
        for known, text in found.items():
            value = value.replace(f"$({known})", text)
        found[name] = value
    return found


def started(namespaces: str, subscription: Mapping[str, str] | None = None) -> Any:
    """Return the settings with which the operator starts in such an environment."""
    return understood(OPERATOR.get("args", []), environment(namespaces, subscription))


def test_the_operator_is_set_as_the_chart_sets_it() -> None:
    chart = understood(
        helm.container({"fullnameOverride": NAME})["args"],
        {**POD_FIELDS, "POD_NAMESPACE": helm.NAMESPACE},
    )

    assert started("") == chart


@pytest.mark.parametrize(
    ("mode", "told", "watched"),
    [
        ("AllNamespaces", "", ()),
        ("OwnNamespace", "operators", ("operators",)),
        ("SingleNamespace", "team-a", ("team-a",)),
        ("MultiNamespace", "team-a,team-b", ("team-a", "team-b")),
    ],
)
def test_what_olm_says_is_watched_is_watched(
    mode: str, told: str, watched: tuple[str, ...]
) -> None:
    assert {"type": mode, "supported": True} in CSV["spec"]["installModes"]
    assert started(told).namespaces == watched


@pytest.mark.parametrize(
    ("variable", "value", "field", "becomes"),
    [
        ("WIDGET_OPERATOR_LOG_LEVEL", "debug", "log_level", "debug"),
        ("RELATED_IMAGE_WIDGET", "mirror/busybox:1", "widget_image", "mirror/busybox:1"),
        ("WIDGET_OPERATOR_WORKERS", "2", "workers", 2),
    ],
)
def test_a_subscription_can_set_it(variable: str, value: str, field: str, becomes: object) -> None:
    assert getattr(started("", {variable: value}), field) == becomes
    assert "args" not in OPERATOR, "a flag would win over the variable that a Subscription sets"


def test_the_images_are_those_that_the_chart_installs() -> None:
    ours = releases.current()

    (container,) = templates.find("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    assert ours.image == container["image"]
    assert ours.pod_images == {p.name: templates.arguments()[p.flag] for p in PROJECT.images}


def test_the_pod_is_the_chart_s() -> None:
    chart = helm.pod({"fullnameOverride": NAME})

    ours = {**POD["spec"], "containers": [{**OPERATOR, "env": [], "args": []}]}
    theirs = {
        **chart["spec"],
        "containers": [{**chart["spec"]["containers"][0], "env": [], "args": []}],
    }
    del ours["affinity"], ours["topologySpreadConstraints"]
    del theirs["topologySpreadConstraints"]
    assert ours == theirs


def test_what_a_kind_uses_has_a_bare_version(monkeypatch: pytest.MonkeyPatch) -> None:
    memcached = definition.load(Path(__file__).parents[4] / "examples" / "memcached")
    monkeypatch.setattr(service_version, "PROJECT", memcached)

    resources = service_version._resources("Memcached")

    assert resources == [{"kind": "Deployment", "name": "", "version": "v1"}]


def test_the_kind_is_the_chart_s() -> None:
    chart = helm.find(helm.render(), "CustomResourceDefinition", "widgets.acme.example.com")

    assert CRD["spec"] == chart["spec"]
    assert "annotations" not in CRD["metadata"]


def test_in_the_watched_namespaces_it_may_do_what_the_chart_lets_it_do() -> None:
    chart = helm.render({"fullnameOverride": NAME, "watchNamespaces": ["team-a"]})

    rules = helm.find(chart, "Role", NAME)["rules"]
    assert INSTALL["permissions"] == [{"serviceAccountName": NAME, "rules": rules}]


def test_in_the_cluster_it_asks_for_its_lease_alone() -> None:
    name = f"{helm.NAMESPACE}.{NAME}"
    manifests = helm.render({"fullnameOverride": NAME})
    chart = helm.find(manifests, "ClusterRole", name)
    elected = helm.find(manifests, "Role", f"{NAME}-leader-election")

    leases = [rule for rule in elected["rules"] if rule["resources"] == ["leases"]]
    assert INSTALL["clusterPermissions"] == [{"serviceAccountName": NAME, "rules": leases}]
    rules = INSTALL["permissions"][0]["rules"]
    assert [rule for rule in chart["rules"] if rule not in rules] == []


def test_rights_of_an_author_s_own_and_for_what_is_read_are_in_the_csv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manager = kr.Manager(NAME, kr.Settings)
    messages = manager.controller_for(WIDGET)
    messages.owns(kr.Kind("monitoring.example.com", "v1", "monitors", "Monitor"), optional=True)
    messages.reads(kr.kinds.SECRET, keys=lambda _: ["a"], transform=str, every=60)
    messages.reads(kr.kinds.CONFIG_MAP, labels=lambda _: {"a": "b"}, transform=str)
    manager.rbac(kr.PolicyRule("storage.k8s.io", ["storageclasses"], ["get"], ["fast"]))
    needed = declared.Operator([], rbac.rules(manager))
    render_with(monkeypatch, tmp_path, "_rules.tpl", declared.chart_rules(needed, NAME))
    (permissions,) = service_version.csv(release("1.2.3"))["spec"]["install"]["spec"]["permissions"]

    rules = [rule for _, rule in rbac.rules(manager)]
    assert permissions["rules"][: len(rules)] == rules
    granted = {(*r["apiGroups"], *r["resources"]): " ".join(r["verbs"]) for r in rules}
    assert granted["monitoring.example.com", "monitors"] == "get list watch create patch delete"
    assert granted["", "secrets"] == "get"
    assert granted["", "configmaps"] == "get list watch"
    assert rules[-1]["resourceNames"] == ["fast"]


def test_a_function_whose_name_olm_would_make_too_long_a_label_of_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function(_: Any, __: kr.ReviewContext[kr.Settings]) -> None: ...

    function.__name__ = "k" * 50
    manager = kr.Manager(NAME, kr.Settings)
    manager.controller_for(WIDGET).validate()(function)
    monkeypatch.setattr(type(PROJECT), "admission", tuple(manager.webhooks))

    with pytest.raises(KitError, match="has 75 characters, and OLM, which makes a label of it, ta"):
        service_version.csv(release("1.2.3"))


def test_a_function_is_asked_under_olm_as_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_: Any, __: kr.ReviewContext[kr.Settings]) -> None: ...
    def kept(_: Any, __: kr.ReviewContext[kr.Settings]) -> None: ...

    manager = kr.Manager(NAME, kr.Settings)
    messages = manager.controller_for(WIDGET)
    messages.default(operations=("create",), failure_policy="ignore", timeout=2)(known)
    messages.validate(operations=("delete",))(kept)
    monkeypatch.setattr(type(PROJECT), "admission", tuple(manager.webhooks))

    defaulting, validating = sorted(
        service_version.csv(release("1.2.3"))["spec"]["webhookdefinitions"],
        key=lambda one: one["type"],
    )
    names = ("type", "webhookPath", "failurePolicy", "timeoutSeconds")
    assert [[webhook[name] for name in names] for webhook in (defaulting, validating)] == [
        ["MutatingAdmissionWebhook", "/mutate/widgets.acme.example.com/known", "Ignore", 7],
        ["ValidatingAdmissionWebhook", "/validate/widgets.acme.example.com/kept", "Fail", 10],
    ]
    assert [webhook["rules"][0]["operations"] for webhook in (defaulting, validating)] == [
        ["CREATE"],
        ["DELETE"],
    ]
    for webhook in (defaulting, validating):
        assert (webhook["sideEffects"], webhook["admissionReviewVersions"]) == ("None", ["v1"])
        # OLM would refuse a definition with a field that it does not know.
        assert not {"matchConditions", "namespaceSelector"} & webhook.keys()


def test_a_handler_of_kopfs_is_asked_under_olm_as_kopf_would_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(PROJECT), "admission", tuple(permits.manager.webhooks))
    holder, day = service_version.csv(release("1.2.3"))["spec"]["webhookdefinitions"]

    assert (holder["type"], day["type"]) == (
        "ValidatingAdmissionWebhook",
        "MutatingAdmissionWebhook",
    )
    assert holder["webhookPath"] == "/kopf/validating/known-holder.permits.example.dev"
    assert (day["sideEffects"], day["failurePolicy"]) == ("NoneOnDryRun", "Ignore")
    assert day["objectSelector"]["matchExpressions"][0]["values"] == ["short"]
    assert "objectSelector" not in holder


def test_nothing_of_helm_is_left_in_it() -> None:
    texts = [file.read_text() for file in BUNDLE.rglob("*.yaml")]

    assert [text for text in texts if "helm.sh" in text or "managed-by" in text] == []


def test_a_release_names_the_images_that_it_is_given() -> None:
    given = release("1.2.3")

    csv = service_version.csv(given)

    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert csv["metadata"]["name"] == "widget-operator.v1.2.3"
    assert container["image"] == given.image
    related = {"name": "RELATED_IMAGE_WIDGET", "value": given.pod_images["widget"]}
    assert related in container["env"]
    assert [image["image"] for image in csv["spec"]["relatedImages"]] == [
        given.image,
        given.pod_images["widget"],
    ]


def test_versions_differ_in_what_names_them_only() -> None:
    one, other = (
        json.dumps(service_version.csv(release(version))) for version in ("1.2.3", "1.2.4")
    )

    assert one.replace("1.2.3", "1.2.4") == other


def test_a_candidate_is_not_offered_as_stable() -> None:
    key = "operators.operatorframework.io.bundle.channels.v1"

    assert bundle.annotations(release("1.2.3-rc.1"))[key] == "candidate"
    assert bundle.annotations(release("1.2.3"))[key] == "candidate,stable,stable-v1.2"


def test_the_image_s_labels_are_the_annotations() -> None:
    lines = bundle.DOCKERFILE.read_text().splitlines()
    labels = dict(line.removeprefix("LABEL ").split("=", 1) for line in lines if "LABEL" in line)

    annotations = documents.load((BUNDLE / "metadata" / "annotations.yaml").read_text())
    assert labels == annotations["annotations"]


def test_all_that_nobody_describes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(service_version.WRITTEN, tmp_path, dirs_exist_ok=True)
    written = documents.load((tmp_path / "csv.yaml").read_text())
    written["kinds"]["Widget"] |= {
        "specDescriptors": [{"path": "words"}],
        "statusDescriptors": [{"path": "stage"}],
    }
    (tmp_path / "csv.yaml").write_text(documents.text(written))
    monkeypatch.setattr(service_version, "WRITTEN", tmp_path)

    with pytest.raises(KitError) as error:
        list(generate.problems())

    for section, name in (("spec", "words"), ("status", "stage")):
        named = f"olm/csv.yaml: Widget: {section}Descriptors: remove {name}, which the CRD does not"
        assert named in str(error.value)


def test_a_field_without_a_description_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions = service_version.crds(release("1.2.3"))
    (version,) = definitions[0]["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["text"][
        "description"
    ]
    monkeypatch.setattr(service_version, "crds", lambda _: definitions)

    with pytest.raises(KitError, match=r"csv\.yaml: Widget: spec: describe text in the code"):
        service_version.csv(release("1.2.3"))


def test_the_level_is_the_chart_s_and_the_version_the_operator_s() -> None:
    chart = documents.load((helm.CHART / "Chart.yaml").read_text())

    notes = CSV["metadata"]["annotations"]
    assert notes["capabilities"] == chart["annotations"]["artifacthub.io/operatorCapabilities"]
    assert (CSV["spec"]["version"], notes["containerImage"].rpartition(":")[2]) == (
        VERSION,
        VERSION,
    )
