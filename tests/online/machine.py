"""A newcomer's machine: a container with a Docker engine of its own, and a user who is not root.

It calls itself Fedora and has neither apt nor a Go, so what would be built of Debian packages or
compiled cannot be. The engine that runs it is the one that the project's tools give; the engine
within shares nothing with it.
"""

import io
import subprocess
import tarfile
import time
from pathlib import Path

from kopf_kit.rig import engine, paths, versions
from kopf_kit.rig.run import output
from kopf_offline.rootfs import RootFs

USER = "ada"
HOME = f"/home/{USER}"
CHECKOUT = f"{HOME}/message-operator"
_TRUST = "/etc/ssl/certs/ca-certificates.crt"

#: Only unpacked, so what the packages' scripts would do is done here.
_SETUP = f"""
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -sf xtables-nft-multi "$1/usr/sbin/$name"
done
ln -sf mawk "$1/usr/bin/awk"
mkdir -p "$1/usr/local/bin"
install -d -o 1000 -g 1000 "$1{HOME}" "$1{CHECKOUT}"
install -d -m 1777 "$1/tmp"
printf 'root:x:0:0:root:/root:/bin/bash\\n{USER}:x:1000:1000::{HOME}:/bin/bash\\n' >"$1/etc/passwd"
printf 'root:x:0:\\n{USER}:x:1000:\\ndocker:x:999:{USER}\\n' >"$1/etc/group"
printf 'hosts: files dns\\n' >"$1/etc/nsswitch.conf"
rm -f "$1/etc/os-release"
printf 'ID=fedora\\nPRETTY_NAME="Fedora Linux 43"\\n' >"$1/etc/os-release"
"""

ROOT = RootFs(
    name="online-machine",
    suite=versions.DEBIAN_IMAGES,
    packages=(
        *("base-files", "bash", "dash", "coreutils", "findutils", "grep", "hostname", "kmod"),
        *("libc-bin", "mawk", "mount", "netbase", "procps", "sed", "tar", "util-linux"),
        *("make", "python3", "python3-venv", "openssl", "ca-certificates"),
        *("docker.io", "docker-cli", "docker-buildx", "iptables", "iproute2"),
    ),
    hooks=(_SETUP,),
)


def image() -> str:
    """Return the image of such a machine; it serves the test's registry as well."""
    return ROOT.image("message-operator/online-machine")


def write(container: str, path: str, content: bytes, mode: int = 0o644) -> None:
    """Write a file into a container, running or not; it belongs to root."""
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode = len(content), mode
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        file.addfile(entry, io.BytesIO(content))
    engine.docker("cp", "-", f"{container}:/", stdin=archive.getvalue())


class Machine:
    """The machine, from its start to its removal."""

    def __init__(self, name: str, network: str) -> None:
        self.name = name
        self._network = network

    def start(self, trusted: bytes) -> None:
        """Start the machine, trusting these certificate authorities, and its engine."""
        engine.remove_container(self.name)
        resolvers = [f"--dns={address}" for address in _resolvers()]
        engine.docker(
            *("create", "--init", "--privileged", "--cgroupns=private", "--name", self.name),
            *("--network", self._network, "--volume=/var/lib/docker"),
            *(image(), "dockerd", *resolvers),
        )
        write(self.name, _TRUST, trusted)
        engine.docker("start", self.name)
        deadline = time.monotonic() + 60
        while self.run("docker", "version").returncode:
            assert time.monotonic() < deadline, self.engine_log()
            time.sleep(0.2)

    def clone(self) -> None:
        """Give the user what is checked out here, but for what git ignores."""
        listed = output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=paths.CHECKOUT,
        )
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as file:
            for name in filter(None, listed.split("\0")):
                if (paths.CHECKOUT / name).exists():
                    file.add(paths.CHECKOUT / name, name)
        engine.docker(
            *("exec", "-i", "-u", USER, "-w", CHECKOUT, self.name),
            *("tar", "x", "--no-same-owner"),
            stdin=archive.getvalue(),
        )

    def install(self, name: str, program: Path | bytes) -> None:
        """Put a program on the PATH, in place of one that may be there."""
        content = program if isinstance(program, bytes) else program.read_bytes()
        write(self.name, f"/usr/local/bin/{name}", content, 0o755)

    def run(
        self,
        *command: str,
        user: str = USER,
        timeout: float = 600,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in the checkout; return how it ended, its output and errors in one."""
        variables = {
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "PIP_CERT": _TRUST,
            "SSL_CERT_FILE": _TRUST,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        options = [f"--env={name}={value}" for name, value in variables.items()]
        in_order = ("sh", "-c", 'exec "$@" 2>&1', "sh")  # docker would mix the two
        where = ("docker", "exec", "-u", user, "-w", CHECKOUT, *options, self.name)
        return subprocess.run(
            [*where, *in_order, *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def engine_log(self) -> str:
        """Return what the engine within has logged."""
        return output(["sh", "-c", f"docker logs --tail 30 {self.name} 2>&1"])

    def remove(self) -> None:
        """Remove the machine with all that is in it."""
        engine.remove_container(self.name)


def _resolvers() -> list[str]:
    """Return the name servers here: the engine within cannot pass on its own container's."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    named = [line.split()[1] for line in lines if line.startswith("nameserver ")]
    return [address for address in named if not address.startswith("127.")]
