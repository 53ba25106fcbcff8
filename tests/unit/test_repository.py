"""What tools and catalogs read of the repository has the form that they expect, and is true."""

import json
import re
from typing import Any

import pytest

from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import versions
from kopf_kit.rig.paths import CHECKOUT
from kopf_offline import golang

# --- llms.txt: https://llmstxt.org ----------------------------------------------------------------

LLMS = (CHECKOUT / "llms.txt").read_text()


def test_llms_txt_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((\S+)\)", LLMS))
    pages = {
        str(page.relative_to(CHECKOUT))
        for page in (CHECKOUT / "docs").glob("*.md")
        if not page.name.endswith(".ko.md")
    }

    assert [link for link in linked if not (CHECKOUT / link).is_file()] == []
    assert pages - linked == set(), "llms.txt lists every page of docs/"


# --- artifacthub-repo.yml -------------------------------------------------------------------------


def test_artifact_hub_learns_who_owns_the_charts() -> None:
    """https://github.com/artifacthub/hub/blob/master/docs/metadata/artifacthub-repo.yml."""
    metadata = documents.load((CHECKOUT / "artifacthub-repo.yml").read_text())
    maintainers = documents.load((PROJECT.olm / "csv.yaml").read_text())["spec"]["maintainers"]

    assert metadata.keys() <= {"repositoryID", "owners", "ignore"}
    assert metadata["owners"] == maintainers


# --- .github/renovate.json, .devcontainer ---------------------------------------------------------

RENOVATE = json.loads((CHECKOUT / ".github" / "renovate.json").read_text())


@pytest.mark.parametrize("rule", RENOVATE["packageRules"], ids=lambda rule: rule["description"])
def test_each_rule_of_renovate_is_about_files_or_packages_that_there_are(rule: Any) -> None:
    modules = "".join(file.read_text() for file in golang.RECIPES.rglob("go.mod"))

    for pattern in rule.get("matchFileNames", []):
        assert list(CHECKOUT.glob(pattern)), pattern
    for pattern in rule.get("matchPackageNames", []):
        assert pattern.removesuffix("**") in modules


def test_the_devcontainer_has_what_the_makefile_needs() -> None:
    text = (CHECKOUT / ".devcontainer" / "devcontainer.json").read_text()
    container = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))

    assert f":{versions.PYTHON}-{versions.DEBIAN_IMAGES}" in container["image"]
    assert container["postCreateCommand"] == "make .venv/.ready"
    (go,) = (at for name, at in container["features"].items() if "/go:" in name)
    assert go["version"] == ".".join(map(str, versions.GO_MINIMUM[:2]))
    assert any("/docker-in-docker:" in name for name in container["features"])
