from dataclasses import replace
from typing import Any

import pytest

from message_operator import pods
from tests.unit.samples import SETTINGS, edited, message, raw_pod


def container(pod: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = pod["spec"]["containers"][0]
    return first


def test_the_pod_is_named_after_its_message_and_owned_by_it() -> None:
    pod = pods.build(message(name="hello"), SETTINGS)

    assert pod["metadata"]["name"] == "msg-hello"
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Message", "hello", "uid-of-message")
    assert owner["controller"] is True
    assert "finalizers" not in pod["metadata"]


@pytest.mark.parametrize(
    "text", ["$(HOME)", "$$", "`id`", "; rm -rf /", "-n", "%s", "\\n", "a\r\nb\n", "🙂‮מ", ""]
)
def test_the_text_is_an_environment_value_and_never_a_part_of_the_program(text: str) -> None:
    pod = pods.build(message(text), SETTINGS)

    env = {variable["name"]: variable["value"] for variable in container(pod)["env"]}
    assert env["MESSAGE_TEXT"].replace("$$", "$") == text  # the kubelet makes $$ a $
    assert "$(" not in env["MESSAGE_TEXT"].replace("$$", "")
    plain = container(pods.build(message("plain"), SETTINGS))
    assert container(pod)["command"] == plain["command"]


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    spec = pods.build(message(), SETTINGS)["spec"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = spec["containers"][0]["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_pod_has_no_token_no_service_variables_and_asks_for_little() -> None:
    spec = pods.build(message(), SETTINGS)["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "4Mi"}


def test_the_image_is_pulled_when_and_with_what_it_is_told() -> None:
    plain = pods.build(message(), SETTINGS)
    settings = replace(
        SETTINGS, message_pull_policy="Always", message_pull_secrets=("first", "second")
    )

    told = pods.build(message(), settings)

    assert container(plain)["imagePullPolicy"] == "IfNotPresent"
    assert "imagePullSecrets" not in plain["spec"]
    assert container(told)["imagePullPolicy"] == "Always"
    assert told["spec"]["imagePullSecrets"] == [{"name": "first"}, {"name": "second"}]
    assert (
        told["metadata"]["annotations"][pods.TEMPLATE]
        != (plain["metadata"]["annotations"][pods.TEMPLATE])
    )


def test_the_platform_may_choose_the_user() -> None:
    pod = pods.build(message(), replace(SETTINGS, message_user=None))

    assert "runAsUser" not in pod["spec"]["securityContext"]


@pytest.mark.parametrize("name", ["a" * 63, "a" * 64, "b" * 150, "a.b"])
def test_labels_fit_however_long_the_name(name: str) -> None:
    labels = pods.build(message(name=name), SETTINGS)["metadata"]["labels"]

    assert all(len(value) <= 63 for value in labels.values())


def test_labels_of_long_names_that_begin_alike_differ() -> None:
    assert pods.label_value("a" * 100 + "b") != pods.label_value("a" * 100 + "c")


def test_another_text_interval_or_image_makes_another_template() -> None:
    def template(pod: dict[str, Any]) -> str:
        return str(pod["metadata"]["annotations"][pods.TEMPLATE])

    one = message("one")
    same = {template(pods.build(one, SETTINGS)) for _ in range(2)}
    others = {
        template(pods.build(message("two"), SETTINGS)),
        template(pods.build(replace(one, interval=11), SETTINGS)),
        template(pods.build(one, replace(SETTINGS, message_image="other"))),
    }

    assert len(same) == 1
    assert len(others | same) == 4


def test_a_new_version_of_the_message_alone_makes_no_other_template() -> None:
    one, later = message(version=10), message(version=11, generation=2)

    made, made_later = pods.build(one, SETTINGS), pods.build(later, SETTINGS)

    assert made_later["metadata"]["annotations"].pop(pods.GENERATION) == "2"
    assert made["metadata"]["annotations"].pop(pods.GENERATION) == "1"
    assert made == made_later


def test_a_running_pod_is_recorded_as_ready() -> None:
    pod = pods.record(raw_pod(message()))

    assert (pod.ready, pod.deleting, pod.finished, pod.editors) == (True, False, "", "")
    assert pod.owner == "uid-of-message"
    assert pod.node == "node-1"
    assert pods.message_key(pod.key) == ("ns", "hello")


def test_a_pod_keeps_its_owner_when_only_the_reference_is_taken_away() -> None:
    pod = pods.record(raw_pod(message(), ownerReferences=[]))

    assert pod.owner == "uid-of-message"


def test_a_pod_that_somebody_else_controls_is_not_ours_whatever_its_labels() -> None:
    owner = {"kind": "ReplicaSet", "uid": "other", "controller": True}

    assert pods.record(raw_pod(message(), ownerReferences=[owner])).owner is None


def test_the_api_server_tells_who_changed_a_pod() -> None:
    assert pods.record(edited(raw_pod(message()))).editors == "kubectl-edit"


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running"}, ""),
        ({}, ""),
    ],
)
def test_a_pod_that_has_ended_tells_why(status: dict[str, Any], finished: str) -> None:
    pod = raw_pod(message())
    pod["status"] = status

    assert pods.record(pod).finished == finished


def test_a_pod_that_is_not_ready_tells_why() -> None:
    waiting, unschedulable = raw_pod(message()), raw_pod(message())
    waiting["status"] = {
        "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]
    }
    unschedulable["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    }

    assert (pods.record(waiting).reason, pods.record(waiting).note) == ("ErrImagePull", "no")
    assert pods.record(unschedulable).reason == "Unschedulable"
    assert pods.record(unschedulable).ready is False


@pytest.mark.parametrize("name", ["msg-a", "other", "msg-"])
def test_only_names_with_the_prefix_belong_to_messages(name: str) -> None:
    expected = {"msg-a": ("ns", "a"), "other": None, "msg-": ("ns", "")}[name]

    assert pods.message_key(("ns", name)) == expected
