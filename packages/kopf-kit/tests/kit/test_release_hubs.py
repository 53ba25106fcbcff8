"""`make release ARGS=hubs`: what is pushed to the forks of the hubs, and which pull requests."""

import subprocess
from pathlib import Path

import pytest

from kopf_kit.commands import release_bundle, release_hubs
from kopf_kit.pack.release_folder import HUBS
from kopf_kit.rig.run import HackError
from message_operator import __version__

OURS = "operators/message-operator"
TITLE = f"operator message-operator ({__version__})"
BRANCH = f"message-operator-{__version__}"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the hubs' repositories, with another operator in each, and forks of them."""
    home = tmp_path / "github"
    for repository in HUBS.values():
        hub = home / repository
        (hub / "operators" / "other").mkdir(parents=True)
        (hub / "operators" / "other" / "ci.yaml").write_text("{}\n")
        git(hub, "init", "--quiet", "--initial-branch=main")
        git(hub, "config", "uploadpack.allowFilter", "true")
        git(hub, "add", ".")
        git(hub, "commit", "--quiet", "--message=other")
        git(tmp_path, "clone", "--quiet", "--bare", str(hub), str(home / "us" / hub.name))
    monkeypatch.setattr(release_hubs, "GITHUB", home.as_uri())
    monkeypatch.setenv("FORKS", "us")
    return home


@pytest.fixture(autouse=True)
def laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the bundle, which tests/bundle is about, and say who commits."""
    folder = tmp_path / "release"

    def lay_out(version: str) -> None:
        for hub in HUBS:
            file = folder / hub / OURS / version / "bundle.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("kind: ClusterServiceVersion\n")

    monkeypatch.setattr(release_bundle, "FOLDER", folder)
    monkeypatch.setattr(release_bundle, "lay_out_release", lay_out)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "We")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "we@example.com")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for `gh`, which knows the pull requests that it has created."""
    file, program = tmp_path / "told", tmp_path / "bin" / "gh"
    file.touch()
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif [ "$2" = list ]; then grep -q "$4" {file} && echo "[{{}}]" || echo "[]"\n'
        f'else echo "$@" >>{file}; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return file


def test_each_hub_gets_a_pull_request_with_this_operator_s_files_alone(
    github: Path, told: Path
) -> None:
    release_hubs.offer(__version__)

    for hub, repository in HUBS.items():
        fork = github / "us" / hub
        changed = git(fork, "diff", "--name-only", "main", BRANCH).split()
        message = git(fork, "log", "-1", "--format=%B", BRANCH)
        assert changed == [f"{OURS}/{__version__}/bundle.yaml"]
        assert message.split("\n\n")[:2] == [TITLE, "Signed-off-by: We <we@example.com>"]
        assert f"pr create --repo {repository} --head us:{BRANCH} --title {TITLE}" in (
            told.read_text()
        )


def test_it_can_be_repeated_and_opens_no_second_pull_request(github: Path, told: Path) -> None:
    release_hubs.offer(__version__)
    release_hubs.offer(__version__)

    assert len(told.read_text().splitlines()) == len(HUBS)


def test_a_hub_that_has_the_release_is_left_alone(github: Path, told: Path) -> None:
    release_hubs.offer(__version__)
    told.write_text("")
    for hub, repository in HUBS.items():
        git(github / repository, "pull", "--quiet", str(github / "us" / hub), BRANCH)

    release_hubs.offer(__version__)

    assert told.read_text() == ""


@pytest.mark.usefixtures("told")
def test_without_an_account_that_has_the_forks_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FORKS", raising=False)

    with pytest.raises(HackError, match="FORKS is not set; name the account of GitHub that has"):
        release_hubs.offer(__version__)
