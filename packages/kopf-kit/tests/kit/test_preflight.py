"""kopf_kit.rig.preflight: what is missing is told in a sentence that fits the machine."""

import getpass
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kopf_kit.rig import engine, preflight, tools
from kopf_kit.rig.run import KitError

_Docker = Callable[[str], None]
_SYSTEMS = {
    "macos": ("Darwin", "24.1.0", {}),
    "wsl": ("Linux", "5.15.153.1-microsoft-standard-WSL2", {"ID": "ubuntu", "ID_LIKE": "debian"}),
    "debian": ("Linux", "6.1.0", {"ID": "ubuntu", "ID_LIKE": "debian"}),
    "fedora": ("Linux", "6.11.4", {"ID": "fedora"}),
    "other": ("Linux", "6.11.4", {"ID": "arch"}),
}


@pytest.fixture(params=_SYSTEMS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Stand in for each kind of machine."""
    name, kernel, release = _SYSTEMS[request.param]
    _pretend(monkeypatch, name, kernel, release)
    return str(request.param)


@pytest.fixture
def on_fedora(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, *_SYSTEMS["fedora"])


def _pretend(
    monkeypatch: pytest.MonkeyPatch, name: str, kernel: str, release: Mapping[str, str]
) -> None:
    monkeypatch.setattr(platform, "system", lambda: name)
    monkeypatch.setattr(platform, "release", lambda: kernel)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    engine.up.cache_clear()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Docker:
    """Put a docker command on the PATH that does what a script says, and no other."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(script: str) -> None:
        program = tmp_path / "docker"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


def test_the_system_is_told_from_its_kernel_and_release(system: str) -> None:
    assert preflight.system() == system


def test_a_machine_without_docker_is_told_how_to_get_it(system: str, docker: _Docker) -> None:
    install = {
        "macos": "brew install colima",
        "wsl": "WSL integration",
        "debian": "apt-get install docker.io",
        "fedora": "dnf install moby-engine",
        "other": "docs.docker.com",
    }

    with pytest.raises(KitError) as failure:
        engine.up()

    said = str(failure.value)
    assert "lacks the command docker" in said
    assert install[system] in said
    assert "CLUSTER=existing" in said
    assert len(said.splitlines()) == 1


@pytest.mark.usefixtures("on_fedora")
def test_podman_is_not_taken_for_docker(docker: _Docker) -> None:
    docker("echo podman version 5.2.1")

    with pytest.raises(KitError, match=r"`docker` is Podman.*dnf install moby-engine"):
        engine.up()


@pytest.mark.usefixtures("on_fedora")
def test_who_may_not_use_the_engine_is_told_the_group(docker: _Docker) -> None:
    docker(
        'case "$1" in --version) echo Docker version 27.3.1 ;; *)\n'
        "echo 'permission denied while trying to connect to the Docker daemon socket' >&2\n"
        "exit 1 ;; esac"
    )

    with pytest.raises(KitError, match=r"the right to use .*usermod -aG docker"):
        engine.up()


def test_an_engine_that_is_not_started_is_told_with_where_it_was_looked_for(
    system: str, docker: _Docker
) -> None:
    start = {"macos": "colima start", "wsl": "Docker Desktop"}
    docker(
        'case "$1" in --version) echo Docker version 27.3.1 ;; *)\n'
        "echo 'Cannot connect to the Docker daemon at tcp://192.0.2.7:2375.' >&2; exit 1 ;; esac"
    )

    with pytest.raises(KitError, match=r"a Docker engine that answers") as failure:
        engine.up()

    assert start.get(system, "systemctl start docker") in str(failure.value)
    assert "tcp://192.0.2.7:2375" in str(failure.value)


@pytest.mark.usefixtures("on_fedora")
def test_a_docker_that_cannot_build_is_told_the_plugin(
    docker: _Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker('case "$1" in buildx) exit 1 ;; *) echo 27.3.1 ;; esac')
    monkeypatch.setattr(preflight, "_DEBIANS_DOCKER", "/no/such/docker")

    with pytest.raises(KitError, match=r"buildx.*dnf install docker-buildx"):
        engine.up()


@pytest.mark.usefixtures("on_fedora")
def test_an_engine_that_answers_and_builds_is_taken_as_it_is(docker: _Docker) -> None:
    docker("echo 27.3.1")

    engine.up()


@pytest.mark.parametrize(("nodes", "enough"), [(0, True), (3, True), (4, False)])
def test_one_cluster_too_many_is_told_before_its_pods_fail(
    nodes: int, enough: bool, docker: _Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    monkeypatch.setattr(preflight, "_INSTANCES", limit)
    docker("".join(f"echo {node}\n" for node in range(nodes)))

    assert preflight.are_met(preflight.CLUSTER) is enough


def test_only_debian_builds_all_images(system: str) -> None:
    with pytest.raises(KitError, match=r"Debian's packages.*docker pull busybox"):
        preflight.check(preflight.FROM_SOURCE)


def test_debian_builds_images_with_what_builds_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, "Linux", "6.1.0", {"ID": "debian"})
    monkeypatch.setattr(tools, "is_installed", lambda: False)

    with pytest.raises(KitError, match=r"lacks kopf-offline.*pip install kopf-offline.*docker pu"):
        preflight.check(preflight.FROM_SOURCE)


def test_a_full_disk_is_told_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_ROOM", 10**18)

    with pytest.raises(KitError, match=r"free disk space.*XDG_CACHE_HOME"):
        preflight.check(preflight.ROOM)


@pytest.mark.parametrize(
    ("programs", "users", "told"),
    [
        ([], "", r"apt-get install mmdebstrap uidmap"),
        (["mmdebstrap"], "", r"apt-get install mmdebstrap uidmap"),
        (["mmdebstrap", "newuidmap"], "somebody:100000:65536", r"usermod --add-subuids"),
    ],
)
def test_who_builds_images_without_being_root_is_told_what_that_takes(
    programs: list[str],
    users: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _pretend(monkeypatch, "Linux", "6.1.0", {"ID": "debian"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setenv("PATH", str(tmp_path))
    for program in programs:
        (tmp_path / program).touch(0o755)
    subordinate = tmp_path / "subuid"
    subordinate.write_text(users)
    monkeypatch.setattr(preflight, "_SUBORDINATE_IDS", subordinate)

    with pytest.raises(KitError, match=told):
        preflight.check(preflight.FROM_SOURCE)


@pytest.mark.parametrize("lacking", ["prometheus", "promtool", "openssl"])
def test_what_the_tests_need_is_told_on_each_machine(
    system: str, lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for program in {"prometheus", "promtool", "openssl"} - {lacking}:
        (tmp_path / program).touch(0o755)

    with pytest.raises(KitError, match=f"lacks .*{lacking}"):
        preflight.check(preflight.TESTS)
