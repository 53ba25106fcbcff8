"""The values and the objects in the guides are those that the chart and the tools take."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.helm import CHART, helm
from kopf_kit.project import documents
from kopf_kit.rig.paths import CHECKOUT
from tests.support.console import commands

#: Korean guides have the same commands: tests/unit/test_documents.py compares them.
GUIDES = sorted(
    file for file in (CHECKOUT / "docs").glob("*.md") if not file.name.endswith(".ko.md")
)
#: Flags of `helm upgrade` and `helm install` that `helm template` does not have.
OTHERS = {"--reset-then-reuse-values", "--create-namespace", "--take-ownership", "--wait"}


def typed() -> list[tuple[str, str]]:
    """Return all commands that install or upgrade from the chart's folder, with their pages."""
    return [
        (file.name, command)
        for file in GUIDES
        for command in commands(file.read_text())
        if re.match(r"helm (install|upgrade) \S+ charts/message-operator\s", command)
    ]


def rendered_as(command: str) -> list[str]:
    """Return the arguments with which Helm renders what a command installs."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    _, _, name, _, *rest = (re.sub(r"\b[A-Z]{3,}\b", _in_place_of, word) for word in words)
    return ["template", name, str(CHART), *(word for word in rest if word not in OTHERS)]


def _in_place_of(placeholder: re.Match[str]) -> str:
    """Return what a reader might write for a word such as REGION."""
    return placeholder[0].lower()


@pytest.mark.parametrize(("page", "command"), typed())
def test_the_chart_takes_the_values_of_a_guide(page: str, command: str) -> None:
    assert "kind: Deployment" in helm(*rendered_as(command)), page


def yaml_of(page: Path) -> list[dict[str, Any]]:
    """Return the objects in a page's YAML blocks."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [found for block in blocks for found in documents.load_all(block)]


def test_the_chart_takes_the_values_of_the_gitops_tools(tmp_path: Path) -> None:
    objects = {
        manifest["kind"]: manifest["spec"]
        for manifest in yaml_of(CHECKOUT / "docs" / "install.md")
        if "spec" in manifest
    }
    file = tmp_path / "values.yaml"

    for values in (
        objects["Application"]["source"]["helm"]["valuesObject"],
        objects["HelmRelease"]["values"],
    ):
        file.write_text(yaml.safe_dump(values))
        assert "replicas: 2" in helm("template", "message-operator", CHART, "--values", file)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_both_languages_have_the_same_objects(page: Path) -> None:
    korean = page.with_name(page.name.replace(".md", ".ko.md"))
    if korean.exists():
        assert yaml_of(korean) == yaml_of(page)
