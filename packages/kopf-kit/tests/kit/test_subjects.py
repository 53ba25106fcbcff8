"""What the fault suite takes from an operator's own code: how its objects should be."""

import copy
import re
from collections.abc import Iterable
from typing import Any, cast

import pytest

import kopf_runtime as kr
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: str = ""


@kr.custom_resource("example.dev", "v1", "pages")
class Page(kr.Resource):
    """A Page is served by a Deployment, has a Service in front, and a Secret with its text."""

    spec: Spec = Spec()


operator = kr.Manager("page-operator", kr.Settings)
controller = operator.controller_for(Page)
for owned in (kr.kinds.DEPLOYMENT, kr.kinds.SERVICE, kr.kinds.SECRET):
    controller.owns(owned)


@controller.desired
def desired(page: Page, _: kr.Context[kr.Settings]) -> Iterable[Raw]:
    name, text = f"page-{page.metadata.name}", page.spec.text
    container = {
        "name": "web",
        "image": "web:1",
        "env": [{"name": "TEXT", "value": text}],
        "args": ["a"],
        "volumeMounts": [],
        "securityContext": {},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"of": text}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {"text": text},
    }


class Pages(Parent):
    program = ("pages.py",)
    manager = operator

    def spec(self, text: str) -> Raw:
        return {"text": text}


class Services(Pages):
    child = kr.kinds.SERVICE


class Secrets(Pages):
    child = kr.kinds.SECRET


PAGES, SERVICES, SECRETS = EACH = (Pages(), Services(), Secrets())


def page(name: str = "one", uid: str = "u1") -> Raw:
    """Return a Page as the API server has it."""
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": "9"}
    return {
        "metadata": {**metadata, "generation": 3, "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
        "spec": {"text": "하나"},
        "status": {"observedGeneration": 3},
    }


def stored(pages: Pages, name: str = "one", uid: str = "u1", text: str = "하나") -> Raw:
    """Return a child as the API server has it: with defaults, and with the operator's marks."""
    child = copy.deepcopy(pages.planned(page(name, uid), text))
    metadata = child["metadata"]
    owner = {"kind": "Page", "name": name, "uid": uid, "controller": True}
    metadata |= {"namespace": "ns", "uid": f"of-{uid}", "ownerReferences": [owner]}
    metadata["labels"] = {**metadata.get("labels", {}), "example.dev/page-uid": uid}
    metadata["annotations"] = {**metadata.get("annotations", {}), "example.dev/template-hash": uid}
    if pages is PAGES:
        child["spec"]["revisionHistoryLimit"] = 10
        container = containers(child)[0]
        container["imagePullPolicy"] = "IfNotPresent"
        container["securityContext"] = {"runAsNonRoot": True}
        del container["volumeMounts"]
        child["status"] = {"replicas": 2}
    if pages is SERVICES:
        child["spec"] |= {"clusterIP": f"10.0.0.{len(name)}", "type": "ClusterIP"}
    return child


def containers(deployment: Raw) -> list[Raw]:
    found: list[Raw] = deployment["spec"]["template"]["spec"]["containers"]
    return found


def differences(pages: Pages, child: Raw, text: str = "하나", **status: Any) -> dict[str, Any]:
    """Return the facts that are not as expected: their actual values."""
    facts = pages.facts({**page(), **status}, child, text)
    return {name: actual for name, (actual, expected) in facts.items() if actual != expected}


def test_what_an_operator_declares_is_not_said_again() -> None:
    (crd,) = PAGES.install()
    role, binding = PAGES.rights("ns")

    assert (str(PAGES), PAGES.child) == ("Page", kr.kinds.DEPLOYMENT)
    assert crd["metadata"]["name"] == "pages.example.dev"
    assert ["services"] in [rule["resources"] for rule in role["rules"]]
    assert role["metadata"] == binding["metadata"] == {"name": "page-operator", "namespace": "ns"}
    assert PAGES.child_of("one") == "page-one"


@pytest.mark.parametrize("pages", EACH)
def test_a_child_is_right_if_it_is_as_planned_whatever_its_defaults(pages: Pages) -> None:
    assert differences(pages, stored(pages)) == {}


def harmed(path: str, value: Any) -> Raw:
    """Return a child with something else, or nothing, at a path."""
    at: Any = (child := stored(PAGES))
    *above, last = re.findall(r"\w+", path)
    for step in above:
        at = at[int(step) if step.isdigit() else step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return child


CONTAINER = "spec.template.spec.containers[0]"
HARMS = {
    f"{CONTAINER}.image": "other:1",
    f"{CONTAINER}.args": ["a", "b"],
    f"{CONTAINER}.env": None,
    "metadata.labels.app": None,
    "spec.replicas": 0,
}


@pytest.mark.parametrize(("path", "value"), [*HARMS.items(), ("metadata.annotations.of", None)])
def test_what_is_not_as_planned_is_named(path: str, value: Any) -> None:
    assert differences(PAGES, harmed(path, value)) == {path: value}


def test_a_former_text_is_wrong_and_data_that_was_not_planned_too() -> None:
    assert differences(SECRETS, stored(SECRETS), "둘") == {"data": {"text": "7ZWY64KY"}}

    child = stored(SECRETS)
    child["data"]["other"] = ""
    assert [*differences(SECRETS, child)] == ["data"]


def test_a_status_of_a_former_generation_is_wrong() -> None:
    generation = page()["metadata"]["generation"]

    for observed in (generation - 1, None):
        told = PAGES.status_facts({**page(), "status": {"observedGeneration": observed}})
        assert told["observedGeneration"] == (observed, generation)


@pytest.mark.parametrize("pages", EACH)
def test_the_children_of_two_objects_with_one_text_are_equal(pages: Pages) -> None:
    first, second = stored(pages), stored(pages, "another", "u2")

    assert first != second
    assert pages.essence(first) == pages.essence(second)


@pytest.mark.parametrize(("path", "value"), HARMS.items())
def test_children_that_differ_are_not_equal(path: str, value: Any) -> None:
    assert PAGES.essence(harmed(path, value)) != PAGES.essence(stored(PAGES))
    assert PAGES.essence(stored(PAGES, text="둘")) != PAGES.essence(stored(PAGES))


class Holding:
    """A cluster that has one child."""

    def __init__(self, child: Raw) -> None:
        self.child = child

    async def ask(self, method: str, path: str) -> Raw:
        assert (method, path) == ("GET", "path")
        return self.child

    async def items(self, path: str) -> list[Raw]:
        (owner,) = self.child["metadata"]["ownerReferences"]
        return [{"metadata": {"name": owner["name"], "uid": owner["uid"]}}]

    async def patch(self, path: str, body: Raw) -> None:
        assert path == "path"


async def test_a_child_that_is_the_same_for_each_text_is_refused() -> None:
    cluster = Holding(stored(SERVICES))

    with pytest.raises(AssertionError, match="a Service is the same for each text; test another"):
        await SERVICES.breaks["alter"](cast("Cluster", cluster), "path")


def test_an_object_without_such_a_child_is_refused() -> None:
    class Jobs(Pages):
        child = kr.kinds.JOB

    with pytest.raises(AssertionError, match="a Page has 0 children of the kind Job, not one"):
        Jobs().child_of("one")
