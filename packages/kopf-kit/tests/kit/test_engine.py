"""kopf_kit.rig.engine: what is told where no engine runs, and what a dead one leaves behind."""

import os
from pathlib import Path

import pytest

from kopf_kit.rig import engine, preflight
from kopf_kit.rig.run import KitError


class _InstallationError(Exception):
    """An engine would have been installed."""


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for a Debian machine without an engine, and its root."""

    def install(*_: object, **__: object) -> None:
        raise _InstallationError

    monkeypatch.setattr(preflight, "engine_answers", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "is_debian", lambda: True)
    monkeypatch.setattr(preflight, "install", install)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    engine.up.cache_clear()


def test_root_on_debian_gets_an_engine() -> None:
    with pytest.raises(_InstallationError):
        engine.up()


@pytest.mark.parametrize("what", ["not root", "not on Debian", "an engine elsewhere"])
def test_who_gets_none_is_told_what_to_install(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match what:
        case "not root":
            monkeypatch.setattr(os, "geteuid", lambda: 1000)
        case "not on Debian":
            monkeypatch.setattr(preflight, "is_debian", lambda: False)
        case _:
            monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2375")

    with pytest.raises(KitError, match="lacks the command docker"):
        engine.up()


@pytest.mark.parametrize(
    ("content", "stays"),
    [("999999999", False), ("garbage", False), (str(os.getpid()), True)],
    ids=["gone", "garbage", "alive"],
)
def test_only_the_pid_file_of_a_living_engine_stays(
    content: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(content)
    here = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    monkeypatch.setattr(engine, "_PID_FILES", {file: here})

    engine._remove_stale_pid_files()

    assert file.exists() is stays


def test_a_pid_that_is_another_programs_by_now_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(str(os.getpid()))
    monkeypatch.setattr(engine, "_PID_FILES", {file: "dockerd"})

    engine._remove_stale_pid_files()

    assert not file.exists()
