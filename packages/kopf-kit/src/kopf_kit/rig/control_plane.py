"""A Kubernetes control plane of plain processes, for work that needs no node.

The benchmark and the fault tests run on it. etcd, the API server and the controllers are real; they
use free ports of 127.0.0.1, and keep their data in memory or in a folder that is removed with them.
There is no kubelet and no scheduler. It starts in seconds, and several can run at the same time.
"""

import base64
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kopf_kit.rig import tools, versions
from kopf_kit.rig.run import KitError, tail

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager")
#: Users of every control plane, with their group; their tokens are their names.
ADMIN = "admin"
USERS = {ADMIN: "system:masters", "controllers": "system:masters"}
GARBAGE = "garbage-collector-controller"
#: Timeout in seconds for the start of a component.
PATIENCE = 90.0
#: The variable that names the folder of audit logs for `kopf-kit rights`.
AUDITED = "KOPF_KIT_AUDIT_LOGS"
#: tmpfs avoids the varying speed of a shared machine's disk.
_MEMORY = Path("/dev/shm")  # noqa: S108


class ControlPlane:
    """One etcd, one API server, one controller manager.

    `users` maps the name of each further user to a group; the name is also the user's token.
    `flags` are further flags of the API server. `kubernetes` is one of `versions.PROVED`.
    `variables` are added to the environment of the components. With `installed`, programs of this
    machine are preferred to built ones.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        flags: Sequence[str] = (),
        kubernetes: str = versions.NEWEST,
        variables: Mapping[str, str] | None = None,
        *,
        installed: bool = False,
    ) -> None:
        memory = _MEMORY if _MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="kopf-kit-", dir=memory))
        #: The folder that etcd keeps its data in.
        self.data = self.folder / "etcd"
        self.kubernetes = kubernetes
        self._flags = tuple(flags)
        self._installed = installed
        self._variables = dict(variables or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peer, self._secure = _free_ports(3)
        self.server = f"https://127.0.0.1:{self._secure}"
        everyone = {**USERS, **users}
        lines = [f'{user},{user},{user},"{group}"' for user, group in everyone.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start etcd and the API server; `wait` until they are ready."""
        self.start_etcd()
        self.start_api_server()

    def start_etcd(self) -> None:
        """Start etcd with the existing data."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self.run(
            "etcd",
            self._program("etcd"),
            f"--data-dir={self.data}",
            "--unsafe-no-fsync",
            "--log-level=error",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--quota-backend-bytes=8589934592",
        )

    def start_api_server(self) -> None:
        """Start the API server; `wait` until it is ready."""
        self.run(
            "kube-apiserver",
            self._program("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._secure}",
            f"--cert-dir={self.certificates}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # The key of the certificate that it makes at its first start.
            f"--service-account-signing-key-file={self.certificates / 'apiserver.key'}",
            f"--service-account-key-file={self.certificates / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            # Their controllers do not run.
            "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--shutdown-delay-duration=0s",
            *self._flags,
        )

    def start_controllers(self, *names: str, flags: Sequence[str] = ()) -> None:
        """Start controllers, preferably after all kinds that they need exist.

        The garbage collector looks for new kinds only every 30 s. `flags` are further flags of
        their manager.
        """
        self.run(
            "kube-controller-manager",
            self._program("kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig('controllers')}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--controllers={','.join(names)}",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            *flags,
        )

    def _program(self, name: str) -> Path:
        program = installed_program(name) if self._installed else None
        if program is not None:
            return program
        [built] = tools.built(name) if name == "etcd" else tools.kubernetes(self.kubernetes, name)
        return built

    @property
    def etcd(self) -> str:
        """The address of etcd."""
        return f"http://127.0.0.1:{self._etcd}"

    @property
    def certificates(self) -> Path:
        """The folder with the API server's certificate and key, which it makes at its start."""
        return self.folder / "certificates"

    def kubeconfig(self, user: str) -> Path:
        """Write a user's kubeconfig, once the API server is ready."""
        # Without a colon, which separates files in the variable KUBECONFIG.
        file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        file.write_text(kubeconfig(self.server, user, self.certificates / "apiserver.crt"))
        return file

    def run(self, name: str, program: Path, *flags: str) -> None:
        """Start a component, or another process that ends with the control plane.

        It also ends with the calling thread, which should therefore be the main one.
        """
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [program, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self._variables},
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one component, and wait until it has ended."""
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(30)

    def check(self) -> None:
        """Raise `KitError` if a component has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise KitError(f"{name} has exited; its log ends:\n{tail(self.log(name))}")

    def log(self, name: str) -> str:
        """Return a component's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def remove(self) -> None:
        """End all components and remove their data."""
        for name in reversed(list(self._processes)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait(self) -> None:
        """Wait until the API server is ready."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.check()
            try:
                ask(f"{self.server}/readyz", timeout=5)
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise KitError(
                        f"the API server is not ready after {PATIENCE:.0f} s ({error}); "
                        f"its log ends:\n{tail(self.log('kube-apiserver'))}"
                    ) from error
                time.sleep(0.1)


def ask(url: str, body: bytes | None = None, *, timeout: float) -> None:
    """Ask an API server, as its administrator and past any proxy; raise OSError if it refuses."""
    head = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
    trust = ssl._create_unverified_context()  # noqa: S323 (its certificate is self-signed)
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    request = urllib.request.Request(url, body, head)  # noqa: S310 (https)
    direct.open(request, timeout=timeout).close()


def installed_program(name: str) -> Path | None:
    """Return a program from envtest's folder or the PATH, or None.

    The variable KUBEBUILDER_ASSETS names the folder that `setup-envtest use -p path` prints. It has
    no kube-controller-manager. The variable KUBERNETES asks for a version that is built.
    """
    if os.environ.get("KUBERNETES"):
        return None
    program = shutil.which(name, path=os.environ.get("KUBEBUILDER_ASSETS")) or shutil.which(name)
    return Path(program) if program else None


def chosen() -> str:
    """Return the Kubernetes version in the variable KUBERNETES, by default the newest.

    Raise `KitError` if it is not one of `versions.PROVED`.
    """
    minor = os.environ.get("KUBERNETES") or versions.NEWEST
    if minor not in versions.PROVED:
        *others, last = versions.PROVED
        raise KitError(
            f"KUBERNETES={minor} is not a version that the operator is tested on; "
            f"use {', '.join(others)} or {last}"
        )
    return minor


def audit(folder: Path, users: Iterable[str]) -> tuple[str, ...]:
    """Return the flags with which an API server logs what users ask for to a `.log` in a folder."""
    name = secrets.token_hex(4)
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [*users]}],
    }
    (folder / f"{name}.json").write_text(json.dumps(policy))
    return (
        f"--audit-policy-file={folder / name}.json",
        f"--audit-log-path={folder / name}.log",
        "--audit-log-mode=blocking",
    )


def kubeconfig(server: str, user: str, authority: Path | None = None) -> str:
    """Return a user's kubeconfig for a server, which may be the API server or a proxy, as JSON.

    `authority` is the certificate that the server's must be signed with. If it is missing, the
    server's certificate is not checked.
    """
    cluster: dict[str, object] = {"server": server, "insecure-skip-tls-verify": True}
    if authority is not None:
        trust = base64.b64encode(authority.read_bytes()).decode()
        cluster = {"server": server, "certificate-authority-data": trust}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}],
    }
    return json.dumps(content)


_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Make the kernel kill the starting process when its parent ends in any way."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]
