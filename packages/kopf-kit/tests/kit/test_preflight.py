"""kopf_kit.rig.preflight and engine: what is missing is told in a sentence, or installed."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from kopf_kit.rig import engine, preflight, tools
from kopf_kit.rig.run import KitError

_Docker = Callable[[str], None]
#: A docker whose engine says something else than a version.
_FAILING = """\
case "$1" in --version) echo Docker version 27.3.1 ;; *) echo '{}' >&2; exit 1 ;; esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Docker:
    """Put a docker command on the PATH that does what a script says, and no other."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "fedora"})
    monkeypatch.setattr(preflight, "_DEBIANS_DOCKER", "/no/such/docker")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    engine.up.cache_clear()

    def write(script: str) -> None:
        program = tmp_path / "docker"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("", r"lacks the command docker\. .*docs\.docker\.com.*CLUSTER=existing"),
        (_FAILING.format("permission denied"), r"(?s)usermod -aG docker.*permission denied"),
        (
            _FAILING.format("Cannot connect at tcp://192.0.2.7:2375."),
            r"(?s)a Docker engine that answers.*systemctl start docker.*192\.0\.2\.7:2375",
        ),
        ('case "$1" in buildx) exit 1 ;; *) echo 27.3.1 ;; esac', r"lacks .*buildx"),
    ],
    ids=["none", "no right", "not started", "no buildx"],
)
def test_a_machine_without_an_engine_that_builds_is_told_how_to_get_it(
    script: str, sentence: str, docker: _Docker
) -> None:
    if script:
        docker(script)

    with pytest.raises(KitError, match=sentence):
        engine.up()


@pytest.mark.parametrize("what", ["root on Debian", "not root", "not Debian", "elsewhere"])
def test_root_on_debian_gets_an_engine_and_nobody_else(
    what: str, docker: _Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = list[str]()
    monkeypatch.setattr(preflight, "is_debian", lambda: what != "not Debian")
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if what == "not root" else 0)
    monkeypatch.setattr(preflight, "install", lambda title, *_, **__: installed.append(title))
    monkeypatch.setattr(engine, "_start", lambda _: None)
    if what == "elsewhere":
        monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2375")

    with pytest.raises(KitError, match="lacks the command docker"):  # the pretence starts none
        engine.up()

    assert installed == ["Docker engine"] * (what == "root on Debian")


@pytest.mark.parametrize(
    ("content", "name", "stays"),
    [
        ("999999999", "", False),
        ("garbage", "", False),
        (str(os.getpid()), "", True),
        (str(os.getpid()), "dockerd", False),
    ],
    ids=["gone", "garbage", "alive", "another program's"],
)
def test_only_the_pid_file_of_a_living_engine_stays(
    content: str, name: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(content)
    here = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    monkeypatch.setattr(engine, "_PID_FILES", {file: name or here})

    engine._remove_stale_pid_files()

    assert file.exists() is stays


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("fedora", r"Debian's packages.*docker pull busybox"),
        ("debian", r"lacks kopf-offline.*uv add --dev kopf-offline.*docker pu"),
    ],
)
def test_images_are_built_on_debian_with_kopf_offline_alone(
    system: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": system})
    monkeypatch.setattr(tools, "is_installed", lambda: False)

    with pytest.raises(KitError, match=sentence):
        preflight.check(preflight.FROM_SOURCE)


def test_a_full_disk_is_told_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_ROOM", 10**18)

    with pytest.raises(KitError, match=r"free disk space.*XDG_CACHE_HOME"):
        preflight.check(preflight.ROOM)
