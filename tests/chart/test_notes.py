"""What `helm install` prints is true, and its commands can be copied."""

import re
import shutil
from pathlib import Path

import jsonschema
import yaml

from tests.chart.helm import CHART, FULLNAME, NAMESPACE, Values, find, message_schema, render

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
        r"^kubectl -n default apply -f - <<'EOF'\n(.*?)^EOF$", text, re.MULTILINE | re.DOTALL
    )
    assert document
    message = yaml.safe_load(document[1])
    jsonschema.validate(message, message_schema())
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


def test_they_say_what_an_uninstallation_leaves(tmp_path: Path) -> None:
    assert "kubectl delete crd messages.myorg.dev" in notes(tmp_path / "keep", {})
    assert "delete crd" not in notes(tmp_path / "drop", {"crds": {"keep": False}})
