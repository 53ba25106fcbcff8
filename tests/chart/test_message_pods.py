"""What message Pods are like when the chart is installed with some values."""

import re

import pytest

from chart.helm import CHART, Manifest, Values, container, refusal, understood
from kopf_kit.project import documents
from message_operator import pods

DIGEST = "sha256:" + "5a" * 32


def expanded(argument: str, environment: dict[str, str]) -> str:
    """Return an argument as the kubelet expands it: `$$` is `$`, an unknown `$(NAME)` stays."""

    def expand(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environment.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", expand, argument)


def message_pod(values: Values) -> Manifest:
    """Return the Pod that the operator makes of a Message if it is installed with these values."""
    environment = {"POD_NAME": "operator-1"}
    arguments = [expanded(argument, environment) for argument in container(values)["args"]]
    return pods.manifest("hello", "안녕하세요", 10, understood(arguments, environment))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"registry": "quay.io"}, "quay.io/library/busybox:1.37"),
        ({"registry": "", "repository": "localhost:5001/sh"}, "localhost:5001/sh:1.37"),
        ({"tag": "latest"}, "docker.io/library/busybox:latest"),
        ({"tag": ""}, "docker.io/library/busybox"),
        ({"digest": DIGEST}, f"docker.io/library/busybox:1.37@{DIGEST}"),
    ],
)
def test_the_message_pods_image(image: Values, expected: str) -> None:
    assert f"--message-image={expected}" in container({"messagePod": {"image": image}})["args"]


def test_the_message_pods_pull_secrets_are_the_parent_s_and_their_own() -> None:
    arguments = container(
        {
            "global": {"imagePullSecrets": [{"name": "shared"}]},
            "imagePullSecrets": [{"name": "the-operators"}],
            "messagePod": {"imagePullSecrets": [{"name": "own"}, {"name": "shared"}]},
        }
    )["args"]

    assert "--message-pull-secrets=shared,own" in arguments
    assert not [a for a in container()["args"] if a.startswith("--message-pull-secrets")]


@pytest.mark.parametrize(
    ("user", "expected"),
    [("auto", 65532), (1000680000, 1000680000), ("none", None), (None, None)],
)
def test_the_message_pods_user_is_set_or_left_to_the_cluster(
    user: int | str | None, expected: int | None
) -> None:
    context = message_pod({"messagePod": {"runAsUser": user}})["spec"]["securityContext"]

    assert context.get("runAsUser") == expected


def test_s6_what_the_cluster_asks_of_message_pods_reaches_them() -> None:
    awkward = {"a.example/$(POD_NAME)": '$(POD_NAME) $$(POD_NAME) $$ $ $(NO) "\\ <&> ${x} 한글'}
    placed = {
        "nodeSelector": {"kubernetes.io/os": "linux", "pool": "small"},
        "tolerations": [{"key": "spot", "effect": "NoExecute", "tolerationSeconds": 300}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "123",  # as YAML reads them, no texts
        "runtimeClassName": "null",
    }

    pod = message_pod(
        {
            "messagePod": {
                **placed,
                "labels": {"team": "1e3"},
                "annotations": awkward,
                "resources": {"requests": {"memory": "10Mi"}},
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                ],
                "podSecurityContext": {"runAsGroup": 1000680000},
                "securityContext": {"readOnlyRootFilesystem": False},
            }
        }
    )

    spec = pod["spec"]
    assert spec.items() >= placed.items()
    assert pod["metadata"]["labels"]["team"] == "1e3"
    assert pod["metadata"]["annotations"].items() >= awkward.items()
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "zone"
    assert spec["securityContext"]["runAsGroup"] == 1000680000
    assert spec["securityContext"]["runAsNonRoot"] is True
    (printing,) = spec["containers"]
    assert printing["resources"]["requests"] == {"cpu": "1m", "memory": "10Mi"}
    assert printing["securityContext"]["readOnlyRootFilesystem"] is False
    assert printing["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_readme_s_message_pods_are_as_it_says() -> None:
    heading = "## What your cluster requires of Pods\n"
    readme = (CHART / "README.md").read_text().partition(heading)[2]
    values = documents.load(readme.partition("```yaml\n")[2].partition("```")[0])

    pod = message_pod(values)

    assert pod["metadata"]["labels"]["cost-center"] == "1234"
    assert pod["spec"]["containers"][0]["resources"] == values["messagePod"]["resources"]
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "small"}


def test_what_is_emptied_stays_empty() -> None:
    emptied = {"resources": None, "nodeSelector": None, "annotations": None, "tolerations": None}

    pod = message_pod({"messagePod": emptied})

    assert pod["spec"]["containers"][0]["resources"] == {}
    assert not {"nodeSelector", "tolerations"} & pod["spec"].keys()
    assert list(pod["metadata"]["annotations"]) == ["kubectl.kubernetes.io/default-container"]


#: Values that are refused, each with its sentence below it.
REFUSED = """
{messagePod: {tolerations: [{key: a, operator: Exists, value: b}]}}
    messagePod.tolerations has the value b beside the operator Exists
{messagePod: {tolerations: [{value: b}]}}
    messagePod.tolerations has no key beside the operator Equal
{messagePod: {tolerations: [{key: a, tolerationSeconds: 0}]}}
    messagePod.tolerations has tolerationSeconds beside another effect than NoExecute
{messagePod: {runAsUser: root}}
    at '/messagePod/runAsUser': 'root' does not match pattern '^(auto|none)$'
{messagePod: {runAsUser: 0}}
    at '/messagePod/runAsUser': minimum: got 0, want 1
{messagePod: {resources: {limits: {cpu: abc}}}}
    at '/messagePod/resources/limits/cpu': 'abc' does not match pattern
{messagePod: {tolerations: [{keys: a}]}}
    at '/messagePod/tolerations/0': additional properties 'keys' not allowed
{messagePod: {podSecurityContext: {runAsUser: 7}}}
    at '/messagePod/podSecurityContext': additional properties 'runAsUser' not allowed
{messagePod: {securityContext: {readOnlyRootFileSystem: true}}}
    additional properties 'readOnlyRootFileSystem' not allowed
{messagePod: {annotations: {a: true}}}
    at '/messagePod/annotations/a': got boolean, want string
{messagePod: {runAsUser: 2147483648}}
    messagePod.runAsUser is 2147483648, but 2147483647 is the highest user
{messagePod: {runAsUser: 1000000000000000000000000000000}}
    but 2147483647 is the highest user that Kubernetes accepts
"""


@pytest.mark.parametrize(("values", "lines"), re.findall(r"(\{.+)\n((?: {4}.+\n)+)", REFUSED))
def test_what_no_message_pod_can_have_is_refused(values: str, lines: str) -> None:
    assert refusal(documents.load(values)).count(" ".join(lines.split())) == 1
