"""What tools and catalogs read of the repository has the form that they expect, and is true."""

import json
import re
import shutil
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hack import home
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import versions
from kopf_kit.rig.paths import CHECKOUT

HOME = home.declared().page


# --- The project's home, which PROJECT has --------------------------------------------------------

ELSEWHERE = {
    "page": "https://git.example.eu/team/messages",
    "maintainers": "The new team",
    "email": "team@git.example.eu",
}


def test_every_file_says_what_project_says_of_the_home() -> None:
    """Else `make generate` was forgotten."""
    assert home.former() == home.declared()


def test_a_new_home_is_written_into_every_file(tmp_path: Path) -> None:
    """What remains of the former is the API's group, with which users have objects."""
    for file in home.files():
        copy = tmp_path / file.relative_to(CHECKOUT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True, timeout=60)
    project = tmp_path / "PROJECT"
    words = asdict(home.declared())
    text = project.read_text()
    for key, word in words.items():
        text = text.replace(f" {key}: {word}\n", f" {key}: {ELSEWHERE[key]}\n")
    project.write_text(text)

    home.write(tmp_path)

    assert home.former(tmp_path) == home.Home(**ELSEWHERE)
    gone = re.compile(rf"myorg(?!\.dev)|{words['email']}|{words['maintainers']}")
    left = [file for file in home.files(tmp_path) if gone.search(file.read_text())]
    assert left == [tmp_path / Path(__file__).relative_to(CHECKOUT)]


def test_no_other_home_is_named() -> None:
    owner = home.declared().page.split("/")[3]
    pattern = r"(?:github|githubusercontent|ghcr)\.\w+/([\w.-]+)/(?:charts/)?message-operator\b"

    text = "".join(file.read_text() for file in home.files())

    assert set(re.findall(pattern, text)) == {owner, "you"}  # as in `registry.example.com/you`
    assert set(re.findall(r"[\w.+-]+@myorg\.dev", text)) == {home.declared().email}


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
    for pattern in rule.get("matchFileNames", []):
        assert list(CHECKOUT.glob(pattern)), pattern
    for pattern in rule.get("matchPackageNames", []):
        assert any(name.startswith(pattern.removesuffix("**")) for name in versions.MODULES)


def test_the_devcontainer_has_what_the_makefile_needs() -> None:
    text = (CHECKOUT / ".devcontainer" / "devcontainer.json").read_text()
    container = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))

    assert f":{versions.PYTHON}-{versions.DEBIAN_IMAGES}" in container["image"]
    assert container["postCreateCommand"] == "make .venv/.ready"
    (go,) = (at for name, at in container["features"].items() if "/go:" in name)
    assert go["version"] == ".".join(map(str, versions.GO_MINIMUM[:2]))
    assert any("/docker-in-docker:" in name for name in container["features"])


# --- `make sabotage` ------------------------------------------------------------------------------

PACKAGE = CHECKOUT / "packages" / "kopf-runtime"
DEFECTS = tomllib.loads((CHECKOUT / "tests" / "sabotage.toml").read_text())
MODULES = tomllib.loads((PACKAGE / "tests" / "mutation" / "modules.toml").read_text())


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_can_be_applied_and_its_tests_are_there(name: str) -> None:
    defect = DEFECTS[name]

    assert (CHECKOUT / defect["file"]).read_text().count(defect["find"]) == 1
    assert [test for test in defect["tests"].split() if not (CHECKOUT / test).is_file()] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_and_its_tests_are_there_and_each_explanation_is_of_a_line(name: str) -> None:
    entry, source = MODULES[name], PACKAGE / "src" / "kopf_runtime" / name
    files = [PACKAGE / "tests" / "runtime" / f"{test}.py" for test in entry["tests"]]

    assert [file.name for file in (source, *files) if not file.is_file()] == []
    lines = tuple(f"{line.strip()} -> " for line in source.read_text().splitlines())
    assert [each for each in entry.get("survivors", ()) if not each.startswith(lines)] == []


def test_a_mutant_differs_in_one_line_and_a_statement_is_removed_whole() -> None:
    mutants = pytest.importorskip("hack.mutants", exc_type=ModuleNotFoundError).mutants
    source = "def f(a, b):\n    if a < b:\n        b.append(1)\n"
    changes = [mutant.change for mutant in mutants(source)]

    assert changes == [
        "b.append(1) -> pass",
        "if a < b: -> if a <= b:",
        "if a < b: -> if not a < b:",
        "b.append(1) -> b.append( 2)",
        "b.append(1) -> b.append( 0)",
    ]
