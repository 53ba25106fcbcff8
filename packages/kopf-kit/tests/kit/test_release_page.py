"""`make release ARGS=page`: what it tells `gh`, which makes the page of a release on GitHub."""

from pathlib import Path

import pytest

from kopf_kit.commands import release_page
from kopf_kit.pack import changelog, history
from kopf_kit.rig.run import HackError

_CHANGELOG = """\
# Changelog

## 1.1.0 (2026-11-02)

### The operator

- Do more

## 1.0.1 (2026-11-03)

### The chart

- Fix something
"""


class Gh:
    """A program in the place of `gh`, which notes what it is told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        program = folder / "gh"
        program.write_text(
            "#!/bin/sh\n"
            f"cd {folder}\n"
            'if [ "$2" = view ]; then test -f page; exit; fi\n'
            'printf "%s\\n" "$@" >"told-$2"\n'
            "cat >notes\n"
            "test ! -f refuses || { echo 'HTTP 403: no' >&2; exit 1; }\n"
        )
        program.chmod(0o755)

    def has_page(self) -> None:
        (self._folder / "page").touch()

    def refuses(self) -> None:
        (self._folder / "refuses").touch()

    def told(self, verb: str) -> list[str]:
        """Return the arguments behind `gh release VERB`."""
        return (self._folder / f"told-{verb}").read_text().splitlines()[2:]

    @property
    def notes(self) -> str:
        return (self._folder / "notes").read_text()


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gh:
    gh = Gh(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return gh


@pytest.fixture(autouse=True)
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files of three releases."""
    folder = tmp_path / "release"
    for version in ("1.0.1", "1.1.0", "1.2.0-rc.1"):
        for file in (
            f"{version}/install.yaml",
            f"{version}/checksums.txt",
            f"{version}/runbooks.md",
            f"{version}-charts/message-operator-{version}.tgz",
            f"{version}-charts/charts/message-operator/Chart.yaml",
        ):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
    monkeypatch.setattr(release_page, "FOLDER", folder)
    monkeypatch.setattr(history, "tagged", lambda _: ["1.0.0", "1.0.1", "1.1.0", "1.2.0-rc.1"])
    monkeypatch.setattr(changelog, "current", lambda: _CHANGELOG)
    return folder


def files(folder: Path, version: str) -> list[str]:
    names = ("checksums.txt", "install.yaml", "runbooks.md")
    chart = folder / f"{version}-charts" / f"message-operator-{version}.tgz"
    return [*(str(folder / version / name) for name in names), str(chart)]


def options(version: str, kind: str) -> list[str]:
    return ["--verify-tag", "--title", f"v{version}", "--notes-file", "-", kind]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("1.0.1", "--latest=false"), ("1.1.0", "--latest=true"), ("1.2.0-rc.1", "--prerelease")],
)
def test_a_page_gets_all_files_and_says_whether_it_is_the_latest(
    gh: Gh, released: Path, version: str, kind: str
) -> None:
    release_page.make(version)

    told = gh.told("create")
    assert told[:7] == [f"v{version}", *options(version, kind)]
    assert sorted(told[7:]) == sorted(files(released, version))


def test_a_page_says_what_changed_and_how_to_verify_it(gh: Gh) -> None:
    release_page.make("1.0.1")

    assert gh.notes.startswith("### The chart\n\n- Fix something\n\n")
    assert "/blob/v1.0.1/docs/verify.md" in gh.notes
    assert "Do more" not in gh.notes


def test_a_page_that_is_there_gets_its_files_again_and_is_published(gh: Gh, released: Path) -> None:
    gh.has_page()

    release_page.make("1.1.0")

    uploaded = gh.told("upload")
    assert uploaded[:2] == ["v1.1.0", "--clobber"]
    assert sorted(uploaded[2:]) == sorted(files(released, "1.1.0"))
    # An interrupted command left it as a draft.
    assert gh.told("edit") == ["v1.1.0", "--draft=false", *options("1.1.0", "--latest=true")]
    assert "Do more" in gh.notes


def test_a_refusal_is_told_in_github_s_words(gh: Gh) -> None:
    gh.refuses()

    with pytest.raises(HackError, match="HTTP 403: no"):
        release_page.make("1.1.0")


@pytest.mark.usefixtures("gh")
@pytest.mark.parametrize("version", ["", "3.0.0"])
def test_files_that_are_missing_are_told(version: str) -> None:
    with pytest.raises(
        HackError, match=f" the files of a release '{version}'; `kopf-kit release` writes them"
    ):
        release_page.make(version)


def test_a_missing_gh_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HackError, match=r"^gh, GitHub's program, is not on the PATH"):
        release_page.make("1.1.0")
