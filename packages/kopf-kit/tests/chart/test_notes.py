"""What `helm install` prints is true, and its commands can be copied."""

import re
import shutil
from pathlib import Path

import jsonschema
import pytest

from chart.helm import (
    CHART,
    FULLNAME,
    NAMESPACE,
    PROGRAMS,
    Values,
    find,
    kind_schema,
    render,
)
from kopf_kit.project import documents

README = CHART / "README.md"

#: Helm prints notes only when it installs into a cluster: here they are rendered as an object.
AS_OBJECT = """
kind: Notes
metadata: {name: notes}
text: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}
"""


def notes(folder: Path, values: Values) -> str:
    """Return the text of the notes, rendered from a copy of the chart in that folder."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(AS_OBJECT)
    text = find(render(values, chart=chart), "Notes", "notes")["text"]
    assert isinstance(text, str)
    return text


def test_they_offer_a_message_that_can_be_applied(tmp_path: Path) -> None:
    text = notes(tmp_path, {})

    document = re.search(
        r"^kubectl -n default apply -f - <<'MESSAGE'\n(.*?)^MESSAGE$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert document
    message = documents.load(document[1])
    jsonschema.validate(message, kind_schema())
    assert message["metadata"]["name"] == "hello-msg"


def test_they_say_how_to_watch_it_and_where_to_look_when_it_fails(tmp_path: Path) -> None:
    text = notes(tmp_path, {})

    assert "It serves the Messages of all namespaces." in text
    for command in (
        f"kubectl -n {NAMESPACE} rollout status deployment/{FULLNAME}",
        "kubectl -n default wait --for=condition=Ready --timeout=2m message/hello-msg",
        "kubectl -n default get messages -o wide",
        "kubectl -n default logs --follow msg-hello-msg",
        "kubectl -n default describe message hello-msg",
        f"kubectl -n {NAMESPACE} logs deployment/{FULLNAME}",
    ):
        assert command in text.splitlines()


def test_they_use_a_namespace_that_is_watched(tmp_path: Path) -> None:
    text = notes(tmp_path, {"watchNamespaces": ["team-a", "team-b"]})

    assert "It serves the Messages of: team-a, team-b." in text
    assert "kubectl -n team-a get messages -o wide" in text
    assert "-n default" not in text


def test_they_say_how_to_find_the_namespaces_that_are_selected(tmp_path: Path) -> None:
    text = notes(tmp_path, {"watchNamespaceSelector": "team in (a, b)"})

    assert "kubectl get namespaces --selector='team in (a, b)'" in text.splitlines()
    assert "kubectl -n TEAM get messages -o wide" in text
    assert "-n default" not in text


def test_they_say_what_an_uninstallation_leaves_and_what_it_takes(tmp_path: Path) -> None:
    # The objects first: an operator may have a finalizer on them, and the garbage collector finds
    # no children of a kind that is gone.
    assert notes(tmp_path / "keep", {}).rstrip().splitlines()[-4:] == [
        "kubectl delete messages.myorg.dev --all --all-namespaces --cascade=foreground "
        "--timeout=5m",
        f"helm uninstall demo -n {NAMESPACE}",
        "kubectl delete crd messages.myorg.dev",
        "kubectl delete clusterrole messages.myorg.dev-view messages.myorg.dev-edit "
        "messages.myorg.dev-admin",
    ]
    drop = notes(tmp_path / "drop", {"crds": {"keep": False}})
    assert "delete crd" not in drop
    assert "`helm uninstall` will delete every Message of the cluster." in drop


def test_they_offer_the_test_where_there_is_one(tmp_path: Path) -> None:
    command = f"helm test demo -n {NAMESPACE} --logs"

    assert command in notes(tmp_path / "with", {}).splitlines()
    assert "helm test" not in notes(tmp_path / "without", {"tests": {"enabled": False}})


def test_they_show_the_test_s_log_where_helm_does_not_find_it(tmp_path: Path) -> None:
    elsewhere: Values = {"namespaceOverride": "else"}
    (test,) = (m for m in render(elsewhere) if m["kind"] == "Pod")
    lines = notes(tmp_path, elsewhere).splitlines()

    # Helm asks for the Pod's log in the release's namespace.
    at = lines.index(f"helm test demo -n {NAMESPACE}")
    assert lines[at + 1] == f"kubectl -n else logs {test['metadata']['name']}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_readme_s_uninstallation_names_what_others_have_made(
    tmp_path: Path, program: str
) -> None:
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
    # The notes and the README have the binding called after its role.
    assert f"delete clusterrolebinding {role['metadata']['name']} " in section
    bound = re.search(r"create clusterrolebinding (\S+)", notes(tmp_path, {"metrics": metrics}))
    assert bound
    assert bound[1] == role["metadata"]["name"].replace(
        "message-operator.message-operator", f"{NAMESPACE}.{FULLNAME}"
    )
    assert f"create clusterrolebinding {role['metadata']['name']} " in README.read_text()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicaCount": 0}, "replicaCount is 0: no operator runs"),
        ({"crds": {"install": False}}, "crds.install is false:"),
        ({"hostUsers": False}, "hostUsers is false: a cluster without user namespaces"),
        (
            {"podSecurityContext": {"seLinuxChangePolicy": "Recursive"}},
            "podSecurityContext has seLinuxChangePolicy, which Kubernetes before 1.33 leaves out",
        ),
        (
            {"messagePod": {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}},
            "messagePod.securityContext has appArmorProfile, which Kubernetes before 1.30",
        ),
        ({"rbac": {"create": False}}, f"the ServiceAccount {NAMESPACE}/{FULLNAME} must have been"),
        ({"namespaceOverride": "else"}, "is installed in the namespace else."),
    ],
    ids=str,
)
def test_they_fit_the_values(tmp_path: Path, values: Values, sentence: str) -> None:
    assert sentence in notes(tmp_path / "fitting", values)
    if "namespaceOverride" not in values:
        assert sentence not in notes(tmp_path / "default", {})


def test_they_say_how_a_prometheus_is_let_to_secure_metrics(tmp_path: Path) -> None:
    secure: Values = {"metrics": {"secure": {"enabled": True, "secretName": "own"}}}
    manifests = render(secure)
    text = notes(tmp_path / "own", secure)

    (role,) = re.findall(r"--clusterrole=(\S+)", text)
    assert find(manifests, "ClusterRole", role)["rules"][0]["nonResourceURLs"] == ["/metrics"]
    assert f"The operator's Pod waits for the Secret {NAMESPACE}/own." in text
    assert "--clusterrole" not in notes(tmp_path / "plain", {})
