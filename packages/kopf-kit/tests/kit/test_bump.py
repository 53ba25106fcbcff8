"""`make bump` takes a version that can follow, and says of any other what is wrong with it."""

import re
from pathlib import Path

import pytest

from bundle.package import write_both
from kit.called import commit
from kopf_kit.cli import release
from kopf_kit.olm import catalog
from kopf_kit.project import documents, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import numbered
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the bundles of a catalog without any release, in the place of the one in git."""
    folder = tmp_path / "catalog" / "bundles"
    folder.mkdir(parents=True)
    monkeypatch.setattr(catalog, "CATALOG", folder.parent)
    return folder


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("", "the version is missing; give one, for example 0.2.1"),
        ("1.2", "'1.2' is not a version; use for example 1.2.3 or 1.2.3-rc.1"),
        (
            "v1.2.3",
            "'v1.2.3' is not a version; use for example 1.2.3 or 1.2.3-rc.1; leave out the v",
        ),
        (
            "1.2.3; rm -rf .",
            "'1.2.3; rm -rf .' is not a version; use for example 1.2.3 or 1.2.3-rc.1",
        ),
        (
            "0.1.9",
            "0.1.9 is older than 0.2.0, which is checked out: versions only go up; give for "
            "example 0.2.1",
        ),
        (
            "0.2.0-rc.1",
            "0.2.0-rc.1 is older than 0.2.0, which is checked out: versions only go up; give "
            "for example 0.2.1",
        ),
    ],
)
def test_a_version_that_cannot_follow_is_refused_in_one_sentence(
    version: str, sentence: str
) -> None:
    with pytest.raises(KitError) as error:
        release.check(version, current="0.2.0")

    assert str(error.value) == sentence


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.3.0-rc.1", "1.0.0"])
def test_a_version_that_can_follow_is_taken_and_so_is_that_of_an_interrupted_run(
    version: str,
) -> None:
    release.check(version, current="0.2.0")


def test_the_version_that_is_checked_out_is_only_dated_again_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Path] = []
    monkeypatch.setattr(Path, "write_text", lambda file, _: written.append(file))

    release.bump(PROJECT.version)

    assert release._CSV in written
    assert f"{PROJECT.version} is checked out already: only its date" in capsys.readouterr().err


def test_a_version_that_is_released_is_refused(bundles: Path) -> None:
    (bundles / "v0.3.0.yaml").write_text("image: registry.example/bundle@sha256:0123\n")

    with pytest.raises(KitError, match=r"^0\.3\.0 is released .* 0\.3\.1$"):
        release.check("0.3.0", current="0.2.0")


def test_releases_that_are_tagged_must_be_recorded_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_both(tmp_path, "0.1.0")
    tags = ["0.1.0", "0.2.0", "0.10.0", "0.1.1", "ersion-of-another-kind"]
    monkeypatch.setattr(releases, "tagged", lambda _: tags)

    with pytest.raises(KitError) as error:
        catalog.check_records("0.1.1")

    assert str(error.value) == (
        "catalog/bundles/ has no record of these tagged releases: v0.2.0, v0.10.0. Without "
        "them, 0.1.1 would replace the wrong release. Take the records from the branch that has "
        "them (git checkout main -- catalog/bundles), or create them as docs/olm.md describes"
    )
    write_both(tmp_path, "0.1.0", "0.2.0", "0.10.0")
    catalog.check_records("0.1.1")


def test_the_tags_of_a_repository_are_not_those_of_an_example_in_it(tmp_path: Path) -> None:
    commit(tmp_path, "v1.0.0")
    (tmp_path / "example").mkdir()

    assert releases.tagged(tmp_path) == ["1.0.0"]
    assert releases.tagged(tmp_path / "example") == []


@pytest.mark.parametrize(
    ("line", "follows"),
    [
        ("version: 0.1.0", "version: 1.2.3-rc.1"),
        ("ghcr.io/you/message-operator:0.1.0", "ghcr.io/you/message-operator:1.2.3-rc.1"),
        ("you/message-operator-catalog:v0.1.0", "you/message-operator-catalog:v1.2.3-rc.1"),
        ("/releases/download/v0.1.0/crds.yaml", "/releases/download/v1.2.3-rc.1/crds.yaml"),
        ("channel: stable-v0.1", "channel: stable-v1.2"),
        ('artifacthub.io/prerelease: "false"', 'artifacthub.io/prerelease: "true"'),
        ("startingCSV: message-operator.vX.Y.Z", "startingCSV: message-operator.vX.Y.Z"),
        ("busybox:1.37.0 needs kubeVersion: 1.29.0", "busybox:1.37.0 needs kubeVersion: 1.29.0"),
    ],
)
def test_what_names_the_version_follows_and_nothing_else(line: str, follows: str) -> None:
    assert numbered.named(line, "1.2.3-rc.1") == follows


def test_no_page_is_left_with_the_version_before() -> None:
    pages = [file for file in numbered._DOCUMENTS if not file.name.startswith("benchmarks")]
    raised = {file.name: numbered.named(file.read_text(), "98.7.6") for file in pages}
    version = rf"(?<![\d.]){re.escape(PROJECT.version)}(?![\d.]*\d)"

    assert "98.7.6" in raised["plugin.md"]
    assert [name for name, text in raised.items() if re.search(version, text)] == []


CHART = """\
home: https://example.com/you/it
annotations:
  artifacthub.io/changes: |
    - kind: added
      description: By hand
"""


@pytest.mark.parametrize(
    ("version", "known", "shown"),
    [
        ("0.1.0", ["0.1.0"], "The first release"),
        ("0.2.0", ["0.1.0", "0.2.0-rc.1", "0.3.0"], "All changes since 0.1.0"),
        ("0.2.0-rc.2", ["0.1.0", "0.2.0-rc.1"], "All changes since 0.2.0-rc.1"),
    ],
)
def test_the_changes_that_artifact_hub_shows_are_those_since_the_release_before(
    version: str, known: list[str], shown: str
) -> None:
    chart = documents.load(numbered.with_changes(CHART, version, known))

    (change,) = documents.load(chart["annotations"]["artifacthub.io/changes"])

    assert change["description"] == shown
    if former := shown.partition("since ")[2]:
        (link,) = change["links"]
        assert link["url"] == f"https://example.com/you/it/compare/v{former}...v{version}"
