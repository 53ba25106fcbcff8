"""CHANGELOG.md tells users what a release changes for them, from the commits of its branch."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from kopf_kit.cli import release
from kopf_kit.project import documents
from kopf_kit.project import releases as project_releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import changelog, files, numbered
from kopf_kit.rig.run import KitError

HEADING = "## 0.1.0 (2026-01-31)\n"


class Repository:
    """A repository of commits without files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", self.folder, *who, *arguments], check=True, timeout=300)

    def commit(self, *paragraphs: str) -> None:
        messages = (f"--message={paragraph}" for paragraph in paragraphs)
        self.git("commit", "--quiet", "--allow-empty", *messages)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.commit("core: begin")
    repository.git("tag", "v0.1.0")
    return repository


def section(repository: Repository, version: str) -> list[str]:
    """Return the lines of a section below its heading and the link, which it must have."""
    home = documents.load((PROJECT.chart / "Chart.yaml").read_text())["home"]
    heading, _, link, *lines = changelog.section(version, repository.folder).splitlines()
    assert heading.startswith(f"## {version} (20")
    assert link.startswith(f"[All commits]({home}/compare/v")
    assert link.endswith(f"...v{version})")
    return [line for line in lines if line]


def test_changes_stand_under_the_area_that_they_concern(repository: Repository) -> None:
    repository.commit("plugin: show trouble first")
    repository.commit("core: serve the namespaces that a label selects", "The body says why.")
    repository.commit("core: say what to do: set a flag")
    repository.commit("Odd, but a change")
    repository.commit("runtime: wait longer")
    repository.commit("testing: add a fixture")
    repository.commit("offline: build the newest etcd")

    assert section(repository, "0.2.0") == [
        "### The operator",
        "- Serve the namespaces that a label selects",
        "- Say what to do: set a flag",
        "### The plugin",
        "- Show trouble first",
        "### kopf-runtime",
        "- Wait longer",
        "### kopf-kit",
        "- Add a fixture",
        "### kopf-offline",
        "- Build the newest etcd",
        "### Other changes",
        "- Odd, but a change",
    ]


@pytest.mark.parametrize("name", ["kopf-runtime", "kopf-kit", "kopf-offline"])
def test_a_distribution_s_page_leads_to_what_changed_in_it(name: str) -> None:
    content = (files.PACKAGES / name / "pyproject.toml").read_text()
    page, _, anchor = tomllib.loads(content)["project"]["urls"]["Changelog"].partition("#")

    assert page.endswith("/CHANGELOG.md")
    assert f"\n### {anchor}\n" in changelog.current()


def test_what_concerns_no_user_is_left_out(repository: Repository) -> None:
    for area in ("tests", "rig", "docs", "ci", "repo", "bench", "make", "release"):
        repository.commit(f"{area}: change something")
    repository.commit("Merge branch 'main' into topic")

    assert section(repository, "0.2.0") == []


def test_what_to_do_before_an_upgrade_comes_first(repository: Repository) -> None:
    repository.commit("chart: add a value")
    repository.commit("core: fix it", "Security: CVE-2026-1: tenants could stop it")
    repository.commit("chart!: rename image", "BREAKING CHANGE: set images in place of image")
    repository.commit("core: take --new", "The body.", "Deprecated: --old; use --new")

    assert section(repository, "0.2.0")[:6] == [
        "### Before you upgrade",
        "- Set images in place of image",
        "### Security",
        "- CVE-2026-1: tenants could stop it",
        "### Deprecated",
        "- --old; use --new",
    ]


def test_a_breaking_change_is_told_whatever_its_area(repository: Repository) -> None:
    repository.commit("make!: remove a target", "BREAKING CHANGE: use another")

    assert "- Use another" in section(repository, "0.2.0")


def test_the_first_release_lists_no_commits(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit("core: begin")

    assert "\n\nThe first release.\n" in changelog.section("0.1.0", repository.folder)


def test_the_first_release_says_what_concerned_the_security_of_those_before(
    tmp_path: Path,
) -> None:
    repository = Repository(tmp_path)
    repository.commit("plugin: validate names", "Security: a tenant could take a token")

    section = changelog.section("0.1.0", repository.folder)

    assert section.partition("\n\n")[2] == (
        "The first release.\n\n### Security\n\n- A tenant could take a token\n"
    )


def test_a_release_follows_the_release_before_it_and_not_its_candidates(
    repository: Repository,
) -> None:
    repository.commit("core: be in the candidate")
    repository.git("tag", "v0.2.0-rc.1")
    repository.commit("core: be in the release")

    assert section(repository, "0.2.0-rc.2")[1:] == ["- Be in the release"]
    assert section(repository, "0.2.0")[1:] == ["- Be in the candidate", "- Be in the release"]


def test_a_fix_of_an_older_minor_follows_the_release_of_its_branch(repository: Repository) -> None:
    repository.git("branch", "fixes")
    repository.commit("core: be new")
    repository.git("tag", "v0.2.0")
    repository.git("checkout", "--quiet", "fixes")
    repository.commit("core: be fixed")

    assert section(repository, "0.1.1")[1:] == ["- Be fixed"]


def test_the_newest_version_comes_first_and_others_stay_as_people_wrote_them() -> None:
    log = ""
    for version in ("0.2.0", "0.10.0", "0.10.0-rc.1", "0.1.1"):
        log = changelog.updated(log, f"## {version} (2026-01-31)\n\nBy hand.\n")

    log = changelog.updated(log, "## 0.2.0 (2026-02-01)\n\nAgain.\n")

    headings = [line for line in log.splitlines() if line.startswith("## ")]
    assert [line.split()[1] for line in headings] == ["0.10.0", "0.10.0-rc.1", "0.2.0", "0.1.1"]
    assert log.count("By hand.") == 3
    assert log.count("\nAgain.\n") == 1
    assert changelog.updated(log, "## 0.2.0 (2026-02-01)\n\nAgain.\n") == log


def test_a_section_that_people_wrote_stays_when_its_version_is_raised_again() -> None:
    log = changelog.updated("", HEADING + "\nBy hand.\n")

    assert changelog.with_version(log, "0.1.0") == log


def test_the_section_of_a_release_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_releases, "tagged", lambda _: [PROJECT.version])

    with pytest.raises(KitError, match="its notes cannot change"):
        release.write_changelog()


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


def test_the_changelog_in_git_is_as_the_command_writes_it() -> None:
    text = changelog.FILE.read_text()
    newest = text.split("\n## ")[1]

    assert changelog.updated(text, f"## {newest}") == text
