"""What Pods are like, and by which settings."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kopf_runtime as kr
from kopf_runtime.declaring import settings
from message_operator import pods
from message_operator.operator import manager
from message_operator.settings import LITTLE, PodTemplate, Settings
from tests.unit.samples import SETTINGS, Raw, build, pod_state


def container(pod: Raw) -> Any:
    return pod["spec"]["containers"][0]


def with_template(**fields: Any) -> Settings:
    return replace(SETTINGS, message_pod=msgspec.convert(fields, PodTemplate))


@pytest.mark.parametrize(
    "text", ["$(HOME)", "$$", "`id`", "; rm -rf /", "-n", "%s", "\\n", "a\r\nb\n", "🙂‮מ", ""]
)
def test_the_text_is_an_environment_value_and_never_a_part_of_the_program(text: str) -> None:
    env = {variable["name"]: variable["value"] for variable in container(build(text))["env"]}

    assert env["MESSAGE_TEXT"].replace("$$", "$") == text  # the kubelet makes $$ a $
    assert "$(" not in env["MESSAGE_TEXT"].replace("$$", "")
    assert container(build(text))["command"] == container(build("plain"))["command"]


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    spec = build()["spec"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = spec["containers"][0]["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_pod_has_no_token_no_service_variables_and_asks_for_little() -> None:
    spec = build()["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "4Mi"}


def test_m7_a_node_with_a_message_pod_can_be_removed_and_windows_gets_none() -> None:
    pod = build()

    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    safe = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    assert pod["metadata"]["annotations"][safe] == "true"


def test_m7_a_label_of_the_cluster_does_not_replace_one_of_the_operator() -> None:
    pod = build(settings=with_template(labels={"app.kubernetes.io/name": "other"}))

    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "message"


def test_pods_are_spread_among_themselves_unless_a_selector_says_otherwise() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    other = {**spread, "labelSelector": {"matchLabels": {"team": "blue"}}}

    pod = build(settings=with_template(topologySpreadConstraints=[spread, other]))

    ours, theirs = pod["spec"]["topologySpreadConstraints"]
    assert ours["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert theirs == other


def test_the_image_is_pulled_when_and_with_what_it_is_told() -> None:
    settings = replace(
        SETTINGS, message_pull_policy="Always", message_pull_secrets=("first", "second")
    )

    assert container(build())["imagePullPolicy"] == "IfNotPresent"
    assert "imagePullSecrets" not in build()["spec"]
    assert container(build(settings=settings))["imagePullPolicy"] == "Always"
    secrets = build(settings=settings)["spec"]["imagePullSecrets"]
    assert secrets == [{"name": "first"}, {"name": "second"}]


@pytest.mark.parametrize("name", ["a" * 63, "a" * 64, "b" * 150, "a.b"])
def test_labels_fit_however_long_the_name(name: str) -> None:
    labels = build(name=name)["metadata"]["labels"]

    assert all(len(value) <= 63 for value in labels.values())


def test_labels_of_long_names_that_begin_alike_differ() -> None:
    assert pods.label_value("a" * 100 + "b") != pods.label_value("a" * 100 + "c")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running"}, ""),
        ({}, ""),
    ],
)
def test_a_pod_that_has_ended_tells_why(status: Raw, why: str) -> None:
    assert pod_state(status).ended == why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["phase", "reason", "conditions", "type", "containerStatuses", "state", "waiting"]
            ),
            part,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_c1_any_pod_is_read_or_refused(spec: Any, status: Any) -> None:
    meta = {"name": "p", "uid": "u", "resourceVersion": "1"}
    raw = msgspec.json.encode({"metadata": meta, "spec": spec, "status": status})
    try:
        pod = msgspec.json.decode(raw, type=kr.Pod)
    except msgspec.ValidationError:
        return

    assert pods.project(pod).ready in (True, False)


def test_m3_what_is_kept_of_a_pod_is_bounded() -> None:
    endless = "x" * 100_000
    waiting = {"waiting": {"reason": "ErrImagePull", "message": endless}}

    kept = pod_state({"containerStatuses": [{"name": "message", "state": waiting}]})

    assert len(kept.note) <= 1024


def test_of_two_variables_of_one_name_the_last_one_counts() -> None:
    """As for the kubelet."""
    container = build()["spec"]["containers"][0]
    container["env"].append({"name": "MESSAGE_TEXT", "value": "forged"})
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "1"},
            "spec": {"containers": [{"name": "injected"}, container]},
        },
        type=kr.Pod,
    )

    assert pods.project(pod).text == hash("forged")


def test_an_empty_text_is_the_same_in_the_form_that_the_api_server_stores() -> None:
    """It leaves out a value that is empty."""
    container = build("")["spec"]["containers"][0]
    for variable in container["env"]:
        if not variable["value"]:
            del variable["value"]
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "1"},
            "spec": {"containers": [container]},
        },
        type=kr.Pod,
    )

    assert pods.project(pod).text == hash(pods.escape_env_value(""))


def parse(argv: list[str]) -> Settings:
    return settings.parse(manager.program, Settings, argv, {})


def test_the_defaults_are_for_production() -> None:
    found = parse([])

    assert found.message_image == "docker.io/library/busybox:1.37"
    assert found.message_user == "auto"
    assert found.message_pod.resources == LITTLE
    assert found.lease_name == "message-operator"


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "localhost/busybox",
        "localhost:5001/a__b/c-d:1.37_x",
        "[fd00::1]:5000/busybox:latest",
        f"Registry.example:443/team/busybox:1.37@sha256:{'0a' * 32}",
    ],
)
def test_every_image_that_a_pod_takes_is_accepted(image: str) -> None:
    assert parse([f"--message-image={image}"]).message_image == image


def test_the_greatest_user_of_kubernetes_is_accepted() -> None:
    assert parse(["--message-user=2147483647"]).message_user == 2147483647


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--message-pull-policy=Often", "'Often' is not one of Always, IfNotPresent, Never"),
        ("--message-pull-secrets=a,B", "'B' is not a valid name"),
        ("--message-user=root", "--message-user: 'root' is not a whole number"),
        ("--message-user=0", "--message-user: '0' is not a whole number of at least 1"),
        ("--message-user=-5", "--message-user: '-5' is not a whole number of at least 1"),
        ("--message-user=2147483648", "of at least 1 and at most 2147483647"),
        ("--message-image=", "--message-image: '' is not a valid image"),
        ("--message-image=Busy Box", "'Busy Box' is not a valid image"),
        ("--message-image=busybox@sha256:abc", "'busybox@sha256:abc' is not a valid image"),
        ("--message-image=büsybox", "'büsybox' is not a valid image"),
        ("--message-pod={", "is not a valid Pod template"),
        ('--message-pod={"image": "x"}', "any of labels, annotations, nodeSelector"),
        ('--message-pod={"securityContext": {"runAsUser": 7}}', "by --message-user instead"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    flag: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse([flag])

    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err
