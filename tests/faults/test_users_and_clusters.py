"""What users declare, and what clusters forbid, lose and take away; with the kit's own suite."""

import pytest

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import POD
from tests.faults.messages import SUBJECTS, why

__all__ = ["SUBJECTS"]


REFUSED: list[tuple[Raw, str]] = [
    ({"text": 7}, "must be of type string"),
    ({"text": ["a"]}, "must be of type string"),
    ({"text": "x" * 32769}, "32768"),
    ({"text": "한" * 10923}, "32768 bytes"),
    ({"text": "a\0b"}, "NUL"),
    ({"intervalSeconds": 0}, "spec.intervalSeconds in body should be greater than or equal to 1"),
    ({"intervalSeconds": -1}, "spec.intervalSeconds in body should be greater than or equal to 1"),
    ({"intervalSeconds": 86401}, "should be less than or equal to 86400"),
    ({"intervalSeconds": "10"}, 'must be of type integer: "string"'),
    ({"intervalSeconds": 1.5}, "spec.intervalSeconds in body must be of type int"),
]


@pytest.mark.api
async def test_what_cannot_be_printed_is_refused_in_words(here: World) -> None:
    for spec, complaint in REFUSED:
        await here.refused(spec, complaint)

    kept = await here.create("하나")
    with pytest.raises(RefusedError, match="greater than or equal to 1"):
        await here.cluster.patch(here.object(), {"spec": {"intervalSeconds": 0}})
    unknown = {**here.subject.manifest("둘", "typo"), "spec": {"txt": "둘"}}
    with pytest.raises(RefusedError, match=r'unknown field "spec.txt"'):
        await here.cluster.ask("POST", f"{here.objects}?fieldValidation=Strict", unknown)
    assert await here.cluster.items(here.objects) == [kept]


@pytest.mark.api
async def test_missing_and_unknown_fields_get_defaults_or_are_pruned(here: World) -> None:
    await here.start()
    body = {"apiVersion": "myorg.dev/v1", "kind": "Message", "metadata": {"name": "hello"}}

    made = await here.cluster.ask(
        "POST", here.objects, {**body, "spec": {"text": None, "colour": "red"}}
    )

    assert made["spec"] == {"text": "Hello from Operator!", "intervalSeconds": 10}
    await here.converges({"hello": "Hello from Operator!"})
    for name, spec in {
        "none": {},
        "smallest": {"spec": {"text": "", "intervalSeconds": 1}},
        "largest": {"spec": {"text": "x" * 32768, "intervalSeconds": 86400}},
    }.items():
        kept = await here.cluster.ask(
            "POST", here.objects, {**body, "metadata": {"name": name}, **spec}
        )
        assert kept["spec"] == spec.get("spec", made["spec"])


@pytest.mark.api
async def test_a_right_that_is_taken_away_is_told_and_given_back(here: World) -> None:
    await here.start()
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{here.namespace}/roles"
    role = await here.cluster.ask("GET", f"{roles}/demo-message-operator")
    fewer: list[Raw] = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]}
        if rule["resources"] == ["pods"]
        else rule
        for rule in role["rules"]
    ]
    await here.cluster.patch(f"{roles}/demo-message-operator", {"rules": fewer})
    await here.until_allowed("create", POD, here.namespace, now=False)
    await here.create("하나")
    told = await here.until_reason("Forbidden")
    assert "cannot create resource" in told["message"]
    said = await why(here)
    assert said.first == ("Message hello: the operator has no right to do this in the namespace.")
    assert said.part("More").endswith("runbooks.md#messageoperatorforbidden")

    await here.cluster.patch(f"{roles}/demo-message-operator", {"rules": role["rules"]})
    await here.converges({"hello": "하나"})
