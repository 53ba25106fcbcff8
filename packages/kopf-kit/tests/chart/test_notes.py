"""What `helm install` prints is true, and its commands can be copied."""

import re
import shutil
from pathlib import Path

import jsonschema
import pytest

from chart.helm import CHART, FULLNAME, NAMESPACE, Values, find, kind_schema, render
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


def test_they_offer_an_object_that_can_be_applied(tmp_path: Path) -> None:
    text = notes(tmp_path, {})

    document = re.search(
        r"^kubectl -n default apply -f - <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL
    )
    assert document
    widget = documents.load(document[1])
    jsonschema.validate(widget, kind_schema())
    assert widget["metadata"]["name"] == "sample"


def test_they_say_how_to_watch_it_and_where_to_look_when_it_fails(tmp_path: Path) -> None:
    text = notes(tmp_path, {})

    assert "It serves the Widgets of all namespaces." in text
    for command in (
        f"kubectl -n {NAMESPACE} rollout status deployment/{FULLNAME}",
        "kubectl -n default wait --for=condition=Ready --timeout=2m widget/sample",
        "kubectl -n default get widget -o wide",
        "kubectl -n default describe widget sample",
        f"kubectl -n {NAMESPACE} logs deployment/{FULLNAME}",
    ):
        assert command in text.splitlines()


def test_they_use_a_namespace_that_is_watched(tmp_path: Path) -> None:
    text = notes(tmp_path, {"watchNamespaces": ["team-a", "team-b"]})

    assert "It serves the Widgets of: team-a, team-b." in text
    assert "kubectl -n team-a get widget -o wide" in text
    assert "-n default" not in text


def test_they_say_how_to_find_the_namespaces_that_are_selected(tmp_path: Path) -> None:
    text = notes(tmp_path, {"watchNamespaceSelector": "team in (a, b)"})

    assert "kubectl get namespaces --selector='team in (a, b)'" in text.splitlines()
    assert "kubectl -n TEAM get widget -o wide" in text
    assert "-n default" not in text


def test_they_say_what_an_uninstallation_leaves_and_what_it_takes(tmp_path: Path) -> None:
    # The objects first: an operator may have a finalizer on them, and the garbage collector finds
    # no children of a kind that is gone.
    assert notes(tmp_path / "keep", {}).rstrip().splitlines()[-4:] == [
        "kubectl delete widgets.acme.example.com --all --all-namespaces --cascade=foreground "
        "--timeout=5m",
        f"helm uninstall demo -n {NAMESPACE}",
        "kubectl delete crd widgets.acme.example.com",
        "kubectl delete clusterrole widgets.acme.example.com-view widgets.acme.example.com-edit "
        "widgets.acme.example.com-admin",
    ]
    drop = notes(tmp_path / "drop", {"crds": {"keep": False}})
    assert "delete crd" not in drop
    assert "`helm uninstall` will delete every Widget of the cluster." in drop


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
            {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
            "securityContext has appArmorProfile, which Kubernetes before 1.30",
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
