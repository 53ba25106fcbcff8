"""A release: its checksums, who signs it, and what CHANGELOG.md says of it."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from kopf_kit.cli import release
from kopf_kit.project import documents
from kopf_kit.release import files, numbered
from kopf_kit.release.signatures import Keys, Workflow
from kopf_kit.rig.run import KitError

NAMES = ("crds.yaml", "install.yaml", "kubectl-widget", "docs/a page.md", ".hidden", "0.txt", "z")


def test_s7_the_checksums_have_each_file_of_the_folder(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)

    checksums = files._checksums(tmp_path)

    assert sorted(line.partition("  ")[2] for line in checksums.splitlines()) == sorted(NAMES)
    check = ["sha256sum", "--check", "--strict", "--quiet"]
    subprocess.run(check, cwd=tmp_path, input=checksums, text=True, check=True)


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the variables that GitHub sets for a job that may ask for a token."""
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of this job")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    ref = "example/notes-operator/.github/workflows/release.yaml@refs/tags/v1.2.3"
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", ref)
    monkeypatch.delenv("KEYS", raising=False)


@pytest.mark.usefixtures("workflow")
def test_a_workflow_that_may_ask_for_a_token_signs_in_its_own_name() -> None:
    signer = release.signer()

    assert isinstance(signer, Workflow)
    assert signer.verifying == (
        "--certificate-identity=https://github.com/example/notes-operator/.github/workflows/"
        "release.yaml@refs/tags/v1.2.3",
        "--certificate-oidc-issuer=https://token.actions.githubusercontent.com",
    )
    assert "--key" not in signer.signing


@pytest.mark.usefixtures("workflow")
def test_keys_that_are_named_are_taken_there_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEYS", str(tmp_path))

    signer = release.signer()

    assert isinstance(signer, Keys)
    assert signer.folder == tmp_path


def test_elsewhere_the_keys_of_the_checkout_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEYS", raising=False)
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)

    assert isinstance(release.signer(), Keys)


HEADING = "## 0.1.0 (2026-01-31)\n"


@pytest.mark.parametrize("name", ["kopf-runtime", "kopf-kit", "kopf-offline"])
def test_a_distribution_s_page_leads_to_what_changed_in_it(name: str) -> None:
    content = (files.PACKAGES / name / "pyproject.toml").read_text()
    page, _, anchor = tomllib.loads(content)["project"]["urls"]["Changelog"].partition("#")

    assert page.endswith("/CHANGELOG.md")
    assert f"\n### {anchor}\n" in numbered.changelog()


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

    numbered.check_changelog(log, "0.1.0")
    numbered.check_changelog(log, "0.3.0-rc.1")
    numbered.check_changelog("", "0.3.0")  # not everybody has one
    for version in ("0.2.0", "0.3.0"):  # an empty section, and none
        with pytest.raises(KitError, match=rf"says nothing of {version}, .* `## {version} "):
            numbered.check_changelog(log, version)
