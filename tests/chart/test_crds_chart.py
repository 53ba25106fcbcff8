"""The chart of the kind alone makes what the operator's chart makes of it, and nothing else."""

import itertools
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kopf_kit.pack import chart_docs, documents
from kopf_kit.rig import versions
from message_operator import __version__
from tests.chart.helm import (
    CHART,
    CRDS_CHART,
    NAMESPACE,
    NEWEST_KUBERNETES,
    OLDEST_KUBERNETES,
    PROGRAMS,
    HelmError,
    Manifest,
    Values,
    helm,
    kind_schema,
    names,
    render,
)

KIND = "messages.myorg.dev"
#: What a value can be set to, beside its default.
OTHERS: Values = {
    "keep": False,
    "aggregateRoles": False,
    "labels": {"team": "a"},
    "annotations": {"on": "off"},
}
COMBINATIONS = [
    dict(chosen)
    for number in range(len(OTHERS) + 1)
    for chosen in itertools.combinations(OTHERS.items(), number)
]
COMMON: Values = {"commonLabels": {"team": "b", "x": "y"}, "commonAnnotations": {"on": "1e3"}}


def of_the_kind(manifests: list[Manifest]) -> list[Manifest]:
    """Return what belongs to the kind, without the labels that name the chart that it is of."""
    found = [m for m in manifests if m["metadata"]["name"].startswith(KIND)]
    result: list[Manifest] = json.loads(json.dumps(found))
    for manifest in result:
        for label in ("app.kubernetes.io/name", "helm.sh/chart"):
            assert manifest["metadata"]["labels"].pop(label)
    return result


@pytest.mark.parametrize("values", COMBINATIONS, ids=lambda values: ",".join(values) or "none")
def test_it_makes_what_the_operator_s_chart_makes_of_the_kind(values: Values) -> None:
    ours = render({**COMMON, **values}, chart=CRDS_CHART)

    assert len(ours) == 4
    assert of_the_kind(ours) == of_the_kind(render({**COMMON, "crds": values}))


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_charts_together_make_what_the_operator_s_makes_alone(program: str) -> None:
    kind = render(chart=CRDS_CHART, release="kind", program=program)
    operator = render({"crds": {"install": False}}, program=program)

    assert sorted(names(kind) + names(operator)) == sorted(names(render(program=program)))


def test_every_object_says_which_chart_has_made_it() -> None:
    for manifest in render(chart=CRDS_CHART):
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "message-operator-crds"
        assert labels["helm.sh/chart"] == f"message-operator-crds-{__version__}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_helm_lint_finds_nothing(program: str) -> None:
    lint = ("lint", "--strict", "--kube-version", NEWEST_KUBERNETES)

    assert "0 chart(s) failed" in helm(*lint, CRDS_CHART, program=program)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"crds": {"keep": True}}, "at '': additional properties 'crds' not allowed"),
        ({"install": False}, "at '': additional properties 'install' not allowed"),
        ({"keep": "no"}, "at '/keep': got string, want boolean"),
        ({"keep": None}, "at '': missing property 'keep'"),
        ({"labels": {"x": "y z"}}, "at '/labels/x': 'y z' does not match pattern"),
        ({"annotations": {"a": True}}, "at '/annotations/a': got boolean, want string"),
    ],
    ids=str,
)
def test_bad_values_are_refused_with_one_clear_sentence(
    values: Values, sentence: str, program: str
) -> None:
    with pytest.raises(HelmError) as error:
        render(values, chart=CRDS_CHART, program=program)

    assert str(error.value).count(sentence) == 1


def test_the_kubernetes_that_it_needs_is_the_operator_s() -> None:
    render(chart=CRDS_CHART, kubernetes=f"v{OLDEST_KUBERNETES}.0-gke.1080000")

    with pytest.raises(HelmError, match=rf"requires kubeVersion: >={versions.OLDEST}\.0-0"):
        render(chart=CRDS_CHART, kubernetes="v1.0.0")


PARENT = """
apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - {name: message-operator-crds, version: "*", alias: kind, condition: kind.enabled}
  - {name: message-operator, version: "*", alias: messages}
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_parent_chart_can_have_both(tmp_path: Path, program: str) -> None:
    for chart in (CHART, CRDS_CHART):
        shutil.copytree(chart, tmp_path / "charts" / chart.name)
    (tmp_path / "Chart.yaml").write_text(PARENT)
    operator = {"crds": {"install": False}}
    # A null is lost on its way with Helm 4; what it takes away is empty by default.
    kind = {"labels": None, "keep": False}
    values = {"global": {"imageRegistry": "mirror.example"}, "messages": operator, "kind": kind}
    (tmp_path / "values.yaml").write_text(json.dumps(values))

    manifests = render(chart=tmp_path, release="platform", program=program)
    without = render({"kind": {"enabled": False}}, chart=tmp_path, program=program)

    (crd,) = (m for m in manifests if m["kind"] == "CustomResourceDefinition")
    assert "annotations" not in crd["metadata"]
    assert ("Deployment", NAMESPACE, "platform-messages") in names(manifests)
    assert of_the_kind(without) == []


# --- what it says of itself -----------------------------------------------------------------------


def metadata(chart: Path) -> dict[str, Any]:
    """Return Chart.yaml."""
    found: dict[str, Any] = documents.load((chart / "Chart.yaml").read_text())
    return found


def test_both_charts_have_the_operator_s_version() -> None:
    ours, theirs = metadata(CRDS_CHART), metadata(CHART)

    assert ours["version"] == ours["appVersion"] == __version__
    for field in ("kubeVersion", "home", "icon", "sources", "maintainers"):
        assert ours[field] == theirs[field]


def test_artifact_hub_shows_the_kind_and_no_operator() -> None:
    ours = metadata(CRDS_CHART)["annotations"]

    (shown,) = documents.load(ours["artifacthub.io/crds"])
    assert shown["name"] == KIND
    for example in documents.load(ours["artifacthub.io/crdsExamples"]):
        jsonschema.validate(example, kind_schema())
    assert not {f"artifacthub.io/{it}" for it in ("operator", "operatorCapabilities")} & set(ours)
    assert "artifacthub.io/images" not in ours  # it runs none


def test_its_values_are_said_of_as_in_the_operator_s_chart() -> None:
    theirs = {value.name: value for value in chart_docs.values()}
    ours = chart_docs.values(CRDS_CHART)
    readme = (CRDS_CHART / "README.md").read_text()

    assert {f"crds.{value.name}" for value in ours[:4]} == {
        name for name in theirs if name.startswith("crds.") and name != "crds.install"
    }
    for value in ours:
        same = theirs.get(f"crds.{value.name}") or theirs[value.name]
        assert (value.default, value.section) == (same.default, same.section)
        if value.name != "global":
            assert (value.description, value.schema) == (same.description, same.schema)
        assert readme.count(f"| `{value.name}` |") == 1


def test_the_package_has_what_users_need_and_no_more(tmp_path: Path) -> None:
    helm("package", CRDS_CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        files = {name.removeprefix("message-operator-crds/") for name in archive.getnames()}

    assert files == {
        *("Chart.yaml", "README.md", "values.yaml", "values.schema.json", ".helmignore"),
        *(f"templates/{it}" for it in ("NOTES.txt", "_metadata.tpl", "crd.yaml")),
        "templates/aggregated-roles.yaml",
    }


# --- the notes ------------------------------------------------------------------------------------

#: Helm prints notes only when it installs into a cluster: here they are rendered as an object.
AS_OBJECT = """
kind: Notes
metadata: {name: notes}
text: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}
"""


def notes(folder: Path, **values: bool) -> str:
    """Return the text of the notes, rendered from a copy of the chart in that folder."""
    chart = folder / "chart"
    shutil.copytree(CRDS_CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(AS_OBJECT)
    (found,) = (m for m in render(values, chart=chart) if m["kind"] == "Notes")
    return str(found["text"])


def test_the_notes_say_how_operators_are_installed_and_the_kind_is_upgraded(tmp_path: Path) -> None:
    text = notes(tmp_path)

    for option in re.findall(r"--set (\S+)", text):
        key, _, _ = option.partition("=")
        assert key in {value.name for value in chart_docs.values()}
    assert "--set crds.install=false" in text
    assert f"helm upgrade demo oci://ghcr.io/myorg/charts/{CRDS_CHART.name} -n {NAMESPACE}" in text
    assert "bind the roles" not in text


def test_the_notes_fit_the_values(tmp_path: Path) -> None:
    assert notes(tmp_path / "kept").rstrip().splitlines()[-4:] == [
        f"kubectl delete {KIND} --all --all-namespaces --cascade=foreground --timeout=5m",
        f"helm uninstall demo -n {NAMESPACE}",
        "kubectl delete crd messages.myorg.dev",
        "kubectl delete clusterrole messages.myorg.dev-view messages.myorg.dev-edit "
        "messages.myorg.dev-admin",
    ]
    dropped = notes(tmp_path / "dropped", keep=False, aggregateRoles=False)
    assert "`helm uninstall` will delete every Message of the cluster." in dropped
    assert "delete crd" not in dropped
    for role in ("view", "-edit", "-admin"):
        assert role in dropped.partition("bind the roles")[2]
