"""The Docker engine: found, or installed and started.

`up()` is called before anything else that needs the engine, by `kopf_kit.rig.cluster` and
`kopf_kit.image.build`. A running engine is used as it is. If no engine runs, `up()` installs and
starts Debian's, where that is possible; otherwise the error says what to install or start.
"""

import functools
import os
import subprocess
import time
from pathlib import Path

from kopf_kit.rig import paths, preflight, tools
from kopf_kit.rig.run import Argument, KitError, answer, output, tail
from kopf_kit.rig.steps import Step, step

_PID_FILES = {
    Path("/var/run/docker.pid"): "dockerd",
    Path("/var/run/docker/containerd/containerd.pid"): "containerd",
}

#: Deliberately outside the cache: the engine needs it as long as it runs.
_WRAPPER = Path(f"/usr/local/libexec/{paths.prefix()}-runc")

# The engine gives a privileged container every capability there is. Where the machine's own
# bounding set lacks CAP_SYS_RESOURCE, runc then refuses to start it; so leave that one out.
_WRAPPER_TEXT = """\
#!/bin/sh
# An OCI runtime: runc, less a capability that this machine's bounding set lacks.
# Written by kopf_kit/rig/engine.py.
for argument in "$@"; do
  case "$previous" in
    --bundle | -b) bundle=$argument ;;
    --process | -p) process=$argument ;;
  esac
  previous=$argument
done
without() { # FILE, and where the capabilities are in it
  jq -c "($2 // {}) |= map_values(map(select(. != \\"CAP_SYS_RESOURCE\\")))" "$1" >"$1.new" &&
    mv "$1.new" "$1"
}
case " $* " in
  *" create "* | *" run "*) without "${bundle:-.}/config.json" .process.capabilities ;;
  *" exec "*) if [ -n "$process" ]; then without "$process" .capabilities; fi ;;
esac
exec runc "$@"
"""
_CAP_SYS_RESOURCE = 24


@functools.cache
def up() -> None:
    """Make sure that a Docker engine answers and can build; fast if one already does."""
    elsewhere = os.environ.get("DOCKER_HOST")
    if preflight.may_install() and not elsewhere and not preflight.engine_answers():
        _install()
    preflight.check(preflight.ENGINE)


def _install() -> None:
    """Install Debian's Docker engine if it is missing, and start it."""
    with tools.lock("engine"):
        if preflight.engine_answers():  # another run started it while this one waited
            return
        packages = {"docker.io": "dockerd", "iptables": "iptables"}
        if not _may_limit_resources():
            packages["jq"] = "jq"  # for the wrapper above
        preflight.install("Docker engine", tuple(packages), needs=tuple(packages.values()))
        with step("Docker engine: start") as work:
            _start(work)


def docker(*arguments: Argument, timeout: float = 120.0, stdin: Path | bytes | None = None) -> str:
    """Run the docker command and return its output."""
    return output(["docker", *arguments], timeout=timeout, stdin=stdin)


def has_image(reference: str) -> bool:
    """Return whether the engine has an image."""
    return answer(["docker", "image", "inspect", "-f", "{{.Id}}", reference]) is not None


def has_container(name: str) -> bool:
    """Return whether the engine has a container, running or not."""
    return bool(docker("container", "ls", "-aq", "--filter", f"name=^{name}$").strip())


def container(name: str, form: str) -> str | None:
    """Return the output of `docker inspect` for a container, or None if it does not exist.

    Raise KitError if the engine does not answer: on a busy machine, this must not be mistaken for
    a missing container, which would then be created again.
    """
    if not has_container(name):
        return None
    return docker("container", "inspect", "-f", form, name).strip()


def gateway(port: int) -> str:
    """Return this machine's address in the network of the container that publishes a port.

    It is empty if no container does, as for a cluster that is not kind's or k3d's.
    """
    listed = (answer(["docker", "ps", "--quiet", "--filter", f"publish={port}"]) or "").split()
    form = "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}"
    found = answer(["docker", "inspect", "-f", form, *listed]) if listed else ""
    return next(iter((found or "").split()), "")


def remove_container(name: str) -> None:
    """Remove a container with its volumes, running or not; no error if it does not exist."""
    docker("rm", "-f", "-v", name)


def builder() -> str:
    """Return a docker command that can build with BuildKit."""
    up()
    return preflight.builder() or "docker"  # `up` has checked that one can


def _may_limit_resources() -> bool:
    """Return whether this machine may grant CAP_SYS_RESOURCE to a container."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return True


def _start(work: Step) -> None:
    """Start the engine, so that it outlives this command, and wait until it answers."""
    if Path("/run/systemd/system").is_dir():
        work.run(["systemctl", "start", "docker"], timeout=120)
        return
    _remove_stale_pid_files()
    # A remaining pid file belongs to a living engine, which may be slow to start.
    alive = any(file.exists() for file, name in _PID_FILES.items() if name == "dockerd")
    log = paths.log("dockerd")
    process = None if alive else _launch(log)
    deadline = time.monotonic() + 90
    while not preflight.engine_answers():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            end = tail(log.read_text(errors="replace")) if log.exists() else ""
            raise KitError(f"dockerd does not start; its log, {log}, ends:\n{end}")
        time.sleep(0.3)


def _launch(log: Path) -> "subprocess.Popen[bytes]":
    """Start dockerd in a session of its own, so that it survives this process."""
    argv = ["dockerd"]
    if not _may_limit_resources():
        _WRAPPER.parent.mkdir(parents=True, exist_ok=True)
        _WRAPPER.write_text(_WRAPPER_TEXT)
        _WRAPPER.chmod(0o755)
        argv += [f"--add-runtime=limited={_WRAPPER}", "--default-runtime=limited"]
    with log.open("wb") as out:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True
        )


def _remove_stale_pid_files() -> None:
    """Remove the pid files of a killed engine, which would stop the next one from starting.

    /run may survive a boot, and another program may have the same number by now: dockerd would
    take it for a running engine and refuse to start.
    """
    for file, name in _PID_FILES.items():
        try:
            command = Path(f"/proc/{int(file.read_text())}/comm").read_text().strip()
        except (OSError, ValueError):
            command = ""
        if command != name:
            file.unlink(missing_ok=True)
