"""An operator is what somebody vouches for who could not be a tenant; all else is ignored."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kopf_kit.kubectl import checks, client, survey
from kopf_kit.kubectl import diagnosis as command
from kopf_kit.kubectl.checks import about
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.findings import FAILS, Finding
from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.survey import RELEASE, RELEASE_NAMESPACE, label
from kubectl_message import why
from kubectl_message.messages import State, state
from tests.unit.plugin import fake_kubectl
from tests.unit.plugin.clusters import TENANT, container, crd, healthy, installed, look_alike
from tests.unit.plugin.fake_kubectl import Objects
from tests.unit.plugin.operators import by_helm, by_olm, lease

OURS = "operators/demo-message-operator"
FAKE = f"{TENANT}/demo-message-operator"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    """The objects that kubectl finds; with labels, if it is asked for some."""
    known = healthy()

    def ask(_: Kubectl, *arguments: str, send: Any = None) -> str:
        chosen = dict(known)
        if f"--selector={label()}" in arguments:
            for kind in ("deployments", "clusterroles", "clusterrolebindings"):
                chosen[kind] = [raw for raw in known.get(kind, []) if labelled(raw)]
        sent = "" if send is None else json.dumps(send)
        return fake_kubectl.answer(chosen, [*arguments], sent)[1]

    monkeypatch.setattr(Kubectl, "ask", ask)
    return known


def labelled(one: Any) -> bool:
    key, _, value = label().partition("=")
    return bool(one["metadata"].get("labels", {}).get(key) == value)


def found() -> tuple[list[str], list[str]]:
    """Return the operators and what is ignored."""
    operators, alike = survey.look(Kubectl())
    return [operator.title for operator in operators], alike


def hello(objects: Objects) -> State:
    return state(objects["messages"][0])


def test_r2_a_tenants_copy_of_all_that_an_operator_has_is_ignored(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = look_alike("--namespace=team", "--namespace=operators")
    held = lease("operator-0")
    held["metadata"] = {"name": "demo-message-operator", "namespace": TENANT}
    objects["deployments"].insert(0, fake)
    objects["leases"].insert(0, held)

    code = command.report(Kubectl())

    told = capsys.readouterr().out
    assert (code, told.endswith("All is well.\n")) == (0, True), told
    assert f"✓ Operator     {OURS}" in told
    assert [line for line in told.splitlines() if TENANT in line] == [
        f"- Operator     ignored: {FAKE}. Whoever may edit a namespace can make what looks like an "
        "operator there"
    ]
    assert why.held_up(Kubectl(), hello(objects)) is None


def test_r2_a_tenants_copy_is_not_blamed_for_the_operators_trouble(objects: Objects) -> None:
    objects["deployments"].insert(0, look_alike())
    objects["deployments"][1]["spec"]["replicas"] = 0

    finding = why.held_up(Kubectl(), hello(objects))

    assert finding is not None
    assert (finding.says.en, finding.about) == ("the operator is scaled to zero", OURS)


def test_r2_a_tenants_copy_does_not_hide_an_operator_without_the_charts_label(
    objects: Objects,
) -> None:
    real = installed(nameOverride="other")
    account = Operator(real, [], None).account
    objects.update(deployments=[real, look_alike()], granted=[[account, ""]])

    operators, alike = found()

    assert operators == [Operator(real, [], None).title]
    assert alike == [FAKE]


def binding(account: str, role: str = "demo-message-operator") -> Any:
    """Return a ClusterRoleBinding of the chart."""
    _, _, namespace, name = account.split(":")
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    labels = {"app.kubernetes.io/name": "message-operator"}
    metadata = {"name": "demo-message-operator", "labels": labels}
    return {"metadata": metadata, "roleRef": {"name": role}, "subjects": [subject]}


def named_by_helm(objects: Objects) -> None:
    objects["customresourcedefinitions"] = [crd("operators", "demo")]


def named_by_a_role(objects: Objects) -> None:
    objects["customresourcedefinitions"] = [crd()]
    role = crd("operators", "demo") | {"rules": []}
    role["metadata"]["name"] = "demo-message-operator"
    objects["clusterroles"] = [role]


def named_by_a_binding(objects: Objects) -> None:
    """Install it without Helm, as install.yaml of a release does."""
    del objects["deployments"][0]["metadata"]["annotations"]
    objects["customresourcedefinitions"] = [crd()]
    account = Operator(objects["deployments"][0], [], None).account
    objects["clusterrolebindings"] = [binding(account)]


def named_by_olm(objects: Objects) -> None:
    objects["deployments"] = [by_olm()]
    known = crd()
    known["metadata"]["labels"] = {"operators.coreos.com/message-operator.operators": ""}
    objects["customresourcedefinitions"] = [known]


@pytest.mark.parametrize(
    "named", [named_by_helm, named_by_a_role, named_by_a_binding, named_by_olm]
)
def test_an_operator_that_lost_its_rights_is_known_by_what_the_cluster_says(
    named: Callable[[Objects], None], objects: Objects
) -> None:
    named(objects)
    objects["granted"] = []
    objects["deployments"].append(look_alike())

    (one,), alike = survey.look(Kubectl())

    assert alike == [FAKE]
    finding = about(one, checks.allowed(Kubectl(), one, one.namespaces))
    assert finding.level == FAILS
    assert finding.about == one.title
    assert "`helm upgrade` brings the roles and bindings back" in str(finding.todo)


@pytest.mark.parametrize("deployment", [by_helm(), by_olm()], ids=["no Helm", "OLM"])
def test_an_operator_that_has_its_rights_needs_nothing_else(
    deployment: Any, objects: Objects
) -> None:
    one = Operator(deployment, [], None)
    objects.update(
        deployments=[deployment], customresourcedefinitions=[crd()], granted=[[one.account, ""]]
    )

    assert found() == ([one.title], [])


def of_another_chart(objects: Objects) -> None:
    known = crd(TENANT, "demo")
    known["metadata"]["labels"]["app.kubernetes.io/name"] = "other-operator"
    objects["customresourcedefinitions"] = [known]


def another_binding(objects: Objects) -> None:
    """Bind an account of the tenant to something else, such as what a scraper may read."""
    account = f"system:serviceaccount:{TENANT}:demo-message-operator"
    objects["clusterrolebindings"] = [binding(account, "system:auth-delegator")]


def of_another_package(objects: Objects) -> None:
    labels = objects["customresourcedefinitions"][0]["metadata"]["labels"]
    labels[f"operators.coreos.com/other.{TENANT}"] = ""


def a_release_elsewhere(objects: Objects) -> None:
    """Claim to be of the release that the CRD names: the tenant's namespace is not its own."""
    objects["deployments"][-1]["metadata"]["annotations"] = {
        RELEASE: "demo",
        RELEASE_NAMESPACE: "operators",
    }


@pytest.mark.parametrize(
    "claim", [of_another_chart, another_binding, of_another_package, a_release_elsewhere]
)
def test_r2_what_does_not_name_an_operator_vouches_for_none(
    claim: Callable[[Objects], None], objects: Objects
) -> None:
    objects["deployments"].append(look_alike())
    claim(objects)

    assert found() == ([OURS], [FAKE])


def own(objects: Objects, *named: str) -> Operator:
    """Return a tenant's own operator, whose account may write its Messages."""
    fake = look_alike()
    container(fake)["args"] = [
        "--message-image=a",
        *(f"--namespace={namespace}" for namespace in named),
    ]
    objects["deployments"].append(fake)
    objects["granted"].append([Operator(fake, [], None).account, TENANT])
    return next(operator for operator in survey.look(Kubectl()).operators if operator.title == FAKE)


def test_r2_an_operator_of_a_namespaces_administrators_counts_there_alone(
    objects: Objects,
) -> None:
    one = own(objects, TENANT, "team")

    there = {"operators", "team", TENANT}
    assert checks.served(Kubectl(), one, there) == {TENANT}
    assert why.held_up(Kubectl(), hello(objects)) is None


def test_r2_nobody_is_told_to_give_rights_to_what_a_tenant_may_have_made(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    own(objects, TENANT)

    command.report(Kubectl())

    told = capsys.readouterr().out
    assert f"✓ Operator     {FAKE} (0.1.0), for {TENANT} alone" in told
    assert f"Operator  {FAKE}" in told
    advice = [line for line in told.splitlines() if line.strip().startswith("Do ")]
    assert advice
    assert all("helm upgrade" not in line and "grant them" not in line for line in advice)
    assert any("grant it nothing, and run no helm command for it" in line for line in advice)


def test_r2_one_that_serves_all_needs_rights_to_all(objects: Objects) -> None:
    fake = look_alike()
    objects["deployments"].append(fake)
    objects["granted"].append([Operator(fake, [], None).account, TENANT])

    assert found() == ([OURS], [FAKE])


def test_r2_without_an_operator_look_alikes_are_named_and_not_trusted(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    objects.update(deployments=[look_alike()], granted=[])

    assert command.report(Kubectl()) == 1

    told = capsys.readouterr().out
    assert "✗ Operator     no operator is installed" in told
    assert f"- Operator     ignored: {FAKE}" in told
    assert "install it again from your own chart or manifests" in told
    held = why.held_up(Kubectl(), hello(objects))
    assert held is not None
    assert held.detail.startswith(f"ignored: {FAKE}")


def test_r2_a_thousand_copies_are_not_all_asked_about(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    answers = checks.answers

    def counted(kubectl: Kubectl, questions: list[checks.Question]) -> list[bool]:
        asked.extend(questions)
        return answers(kubectl, questions)

    monkeypatch.setattr(checks, "answers", counted)
    for number in range(1000):
        fake = look_alike()
        fake["metadata"]["name"] = f"fake-{number}"
        objects["deployments"].append(fake)

    operators, alike = found()

    assert operators == [OURS]
    assert len(alike) == 1000
    assert len(asked) < 20


def test_who_may_not_see_what_vouches_is_told_so(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with the ClusterRole `view` sees Deployments, but neither the CRD nor roles."""
    ask = Kubectl.ask

    def refused(kubectl: Kubectl, *arguments: str, send: Any = None) -> str:
        if {"create"} & {*arguments} or "clusterrole" in str(arguments):
            raise KubectlError(client.refusal("(Forbidden)"), "you may not")
        if "customresourcedefinitions" in str(arguments):
            raise KubectlError(client.refusal("(Forbidden)"), "you may not")
        return ask(kubectl, *arguments, send=send)

    monkeypatch.setattr(Kubectl, "ask", refused)

    checked = {str(check.title): check.finding for check in command.check(Kubectl())}

    assert checked["Operator"] == Finding("unknown", command.MAY_NOT, detail="you may not")
