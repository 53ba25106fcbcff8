"""`make release-page`: what it tells `gh`, which makes the page of a release on GitHub."""

from pathlib import Path

import pytest

from hack.commands import release_page
from hack.pack import changelog, history
from hack.rig.run import HackError

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
            'printf "%s\\n" "$@" >told\n'
            "cat >notes\n"
            "test ! -f refuses || { echo 'HTTP 403: no' >&2; exit 1; }\n"
        )
        program.chmod(0o755)

    def has_page(self) -> None:
        (self._folder / "page").touch()

    def refuses(self) -> None:
        (self._folder / "refuses").touch()

    @property
    def told(self) -> list[str]:
        """The arguments of the last call that changes something."""
        return (self._folder / "told").read_text().splitlines()

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
            f"{version}/runbooks/README.md",
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
    names = ("checksums.txt", "install.yaml")
    chart = folder / f"{version}-charts" / f"message-operator-{version}.tgz"
    return [*(str(folder / version / name) for name in names), str(chart)]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("1.0.1", "--latest=false"), ("1.1.0", "--latest=true"), ("1.2.0-rc.1", "--prerelease")],
)
def test_a_page_gets_all_files_and_says_whether_it_is_the_latest(
    gh: Gh, released: Path, version: str, kind: str
) -> None:
    release_page.make(version)

    verb, options = gh.told[:3], gh.told[3:9]
    assert verb == ["release", "create", f"v{version}"]
    assert options == ["--verify-tag", "--title", f"v{version}", "--notes-file", "-", kind]
    assert sorted(gh.told[9:]) == sorted(files(released, version))


def test_a_page_says_what_changed_and_how_to_verify_it(gh: Gh) -> None:
    release_page.make("1.0.1")

    assert gh.notes.startswith("### The chart\n\n- Fix something\n\n")
    assert "/blob/v1.0.1/docs/verify.md" in gh.notes
    assert "Do more" not in gh.notes


def test_a_page_that_is_there_gets_its_files_again(gh: Gh, released: Path) -> None:
    gh.has_page()

    release_page.make("1.1.0")

    assert gh.told[:4] == ["release", "upload", "v1.1.0", "--clobber"]
    assert sorted(gh.told[4:]) == sorted(files(released, "1.1.0"))


def test_a_refusal_is_told_in_github_s_words(gh: Gh) -> None:
    gh.refuses()

    with pytest.raises(HackError, match="HTTP 403: no"):
        release_page.make("1.1.0")


@pytest.mark.usefixtures("gh")
@pytest.mark.parametrize("version", ["", "3.0.0"])
def test_files_that_are_missing_are_told(version: str) -> None:
    with pytest.raises(HackError, match=f"^VERSION={version}: .* `make release` writes them"):
        release_page.make(version)


def test_a_missing_gh_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HackError, match=r"^gh, GitHub's program, is not on the PATH"):
        release_page.make("1.1.0")
