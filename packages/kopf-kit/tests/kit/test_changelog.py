"""CHANGELOG.md tells users what a release changes for them."""

import tomllib

import pytest

from kopf_kit.project import documents
from kopf_kit.release import changelog, files, numbered
from kopf_kit.rig.run import KitError

HEADING = "## 0.1.0 (2026-01-31)\n"


@pytest.mark.parametrize("name", ["kopf-runtime", "kopf-kit", "kopf-offline"])
def test_a_distribution_s_page_leads_to_what_changed_in_it(name: str) -> None:
    content = (files.PACKAGES / name / "pyproject.toml").read_text()
    page, _, anchor = tomllib.loads(content)["project"]["urls"]["Changelog"].partition("#")

    assert page.endswith("/CHANGELOG.md")
    assert f"\n### {anchor}\n" in changelog.current()


@pytest.mark.parametrize(("releases", "kind"), [(["0.1.0"], "changed"), (["0.2.0"], "added")])
def test_artifact_hub_shows_what_the_changelog_says(releases: list[str], kind: str) -> None:
    log = (
        f"# Changelog\n\n## 0.2.0 (2026-02-01)\n\n### Security\n\n- CVE-2026-1: `a\\1`\n\n"
        f"### The chart\n\n- Add a value\n- Rename: 안녕\n\n{HEADING}\n- Of another\n"
    )
    chart = "home: https://example.com\nannotations:\n  artifacthub.io/changes: |\n    - kind: x\n"

    shown = documents.load(numbered.with_changes(chart, "0.2.0", releases, log))

    assert documents.load(shown["annotations"]["artifacthub.io/changes"]) == [
        {"kind": "security", "description": "CVE-2026-1: `a\\1`"},
        {"kind": "added", "description": "Add a value"},
        {"kind": kind, "description": "Rename: 안녕"},
    ]


@pytest.mark.parametrize("heading", [HEADING, "## 0.1.0\n", "## [0.1.0] - 2026-01-31\n"])
def test_c3_a_version_of_which_the_changelog_says_nothing_is_not_released(heading: str) -> None:
    log = f"# Changelog\n\n## 0.2.0 (2026-02-01)\n\n{heading}\n- Add a value\n"

    changelog.check(log, "0.1.0")
    changelog.check(log, "0.3.0-rc.1")
    changelog.check("", "0.3.0")  # not everybody has one
    for version in ("0.2.0", "0.3.0"):  # an empty section, and none
        with pytest.raises(KitError, match=rf"says nothing of {version}, .* `## {version} "):
            changelog.check(log, version)
