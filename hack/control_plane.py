"""A Kubernetes control plane of plain processes, for work that wants no node and no noise.

The benchmark measures on it. etcd, the API server and the garbage collector are the real ones,
on 127.0.0.1 with free ports, their data in memory or in a folder that goes with them. There is
neither a kubelet nor a scheduler. It is there in seconds, and several run side by side.
"""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack import golang
from hack.run import HackError, tail

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager")
#: Users that every control plane knows, with their group; their tokens are their names.
USERS = {"admin": "system:masters", "garbage-collector": "system:masters"}
#: Seconds that a part may take to start.
PATIENCE = 90.0
#: What tmpfs saves is the disk's noise, of which a shared machine has plenty.
_MEMORY = Path("/dev/shm")  # noqa: S108


class ControlPlane:
    """One etcd, one API server, one controller manager that only collects garbage.

    ``users`` maps the name of each further user to a group; the name is the user's token, too.
    ``flags`` are further flags of the API server.
    """

    def __init__(self, users: Mapping[str, str], flags: Sequence[str] = ()) -> None:
        memory = _MEMORY if _MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="message-operator-", dir=memory))
        self._flags = tuple(flags)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peer, self._secure = _free_ports(3)
        self.server = f"https://127.0.0.1:{self._secure}"
        everyone = {**USERS, **users}
        lines = [f'{user},{user},{user},"{group}"' for user, group in everyone.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start all parts and wait until the API server is ready."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self.run(
            "etcd", golang.program("etcd"),
            f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}", "--quota-backend-bytes=4294967296",
        )  # fmt: skip
        certificates = self.folder / "certificates"
        self.run(
            "kube-apiserver", golang.program("kube-apiserver"),
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1", f"--secure-port={self._secure}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            # The key of the certificate that it makes for itself.
            f"--service-account-signing-key-file={certificates / 'apiserver.key'}",
            f"--service-account-key-file={certificates / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--disable-admission-plugins=ServiceAccount",  # their controller does not run
            "--service-cluster-ip-range=10.0.0.0/24", "--shutdown-delay-duration=0s",
            *self._flags,
        )  # fmt: skip
        self._wait()

    def collect_garbage(self) -> None:
        """Start the garbage collector: best once all kinds are there that it is to know."""
        self.run(
            "kube-controller-manager", golang.program("kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig('garbage-collector')}", "--leader-elect=false",
            "--secure-port=0", "--controllers=garbage-collector-controller",
            "--kube-api-qps=500", "--kube-api-burst=500",
        )  # fmt: skip

    def kubeconfig(self, user: str) -> Path:
        """Write a user's kubeconfig; JSON is YAML."""
        file = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.server, "insecure-skip-tls-verify": True}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}],
        }  # fmt: skip
        file.write_text(json.dumps(content))
        return file

    def run(self, name: str, program: Path, *flags: str) -> None:
        """Start a part, or what belongs to the control plane and ends with it."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [program, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip

    def check(self) -> None:
        """Raise ``HackError`` if a part has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise HackError(f"{name} has ended; its log says:\n{tail(self.log(name))}")

    def log(self, name: str) -> str:
        """Give what a part has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def remove(self) -> None:
        """End all parts and remove their data."""
        for process in reversed(self._processes.values()):
            process.kill()  # nothing of them is to last
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        trust = ssl._create_unverified_context()  # noqa: S323 (it has made its certificate itself)
        asked = urllib.request.Request(  # noqa: S310 (https, as `server` says)
            f"{self.server}/readyz", headers={"Authorization": "Bearer admin"}
        )
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            self.check()
            try:
                with direct.open(asked, timeout=5):
                    return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise HackError(
                        f"the API server is not ready after {PATIENCE:.0f} s ({error}); "
                        f"its log says:\n{tail(self.log('kube-apiserver'))}"
                    ) from error
                time.sleep(0.1)


def _free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
