"""A control plane for the fault tests: etcd, the API server, the controllers that matter here.

They are the real ones, as plain processes on 127.0.0.1 with free ports, their data in a folder
that goes with them. There is no kubelet and no scheduler: `kubelet` stands in for both. It starts
in seconds, several run side by side, and a test may end and start the parts at will.
"""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack import golang

ADMIN, OPERATOR = "token-of-the-admin", "token-of-the-operator"
OPERATOR_USER = (
    "system:serviceaccount:operators:demo-message-operator"  # whom tests.chart.helm installs
)
PATIENCE = 60.0  # seconds that a part may take to start
CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,pod-garbage-collector-controller,"
    "resourcequota-controller"
)
UNVERIFIED = ssl._create_unverified_context()  # noqa: S323 (it made its certificate itself, just now)


class ControlPlane:
    """One etcd, one API server, one controller manager."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="message-operator-faults-"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peer, self._secure = _free_ports(3)
        self.server = f"https://127.0.0.1:{self._secure}"
        self.kubeconfig = self._folder / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig(self.server, ADMIN))
        (self._folder / "tokens.csv").write_text(
            f'{ADMIN},admin,1,"system:masters"\n'
            f'{OPERATOR},{OPERATOR_USER},2,"system:serviceaccounts"\n'
        )

    def start_controllers(self) -> None:
        """Start the controllers; the garbage collector looks for new kinds but every 30 s."""
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0",
            f"--controllers={CONTROLLERS}", "--kube-api-qps=500", "--kube-api-burst=500",
            "--concurrent-gc-syncs=20", "--terminated-pod-gc-threshold=100000",
        )  # fmt: skip

    def start_etcd(self) -> None:
        """Start etcd on the data that is there."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self._start(
            "etcd", f"--data-dir={self.data}", "--unsafe-no-fsync", "--log-level=error",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )  # fmt: skip

    def start_api_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        certificates = self._folder / "certificates"
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1", f"--secure-port={self._secure}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={self._folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            # The key of the certificate that it makes at its first start.
            f"--service-account-signing-key-file={certificates / 'apiserver.key'}",
            f"--service-account-key-file={certificates / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            # No service accounts: their controller does not run.
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24", "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
            "--shutdown-delay-duration=0s",
        )  # fmt: skip
        self._wait()

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one part, and wait until it has ended."""
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(30)

    def remove(self) -> None:
        """End all parts and remove their data."""
        for name in reversed(list(self._processes)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(name)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def data(self) -> Path:
        """The folder that etcd keeps its data in."""
        return self._folder / "etcd"

    def log(self, name: str) -> str:
        """Give what a part has logged."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, *flags: str) -> None:
        program = golang.program(name)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [program, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self._folder, start_new_session=True,
            )  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended:\n{self.log(name)[-3000:]}")
            try:
                asked = urllib.request.Request(  # noqa: S310
                    f"{self.server}/readyz", headers={"Authorization": f"Bearer {ADMIN}"}
                )
                with urllib.request.urlopen(asked, timeout=5, context=UNVERIFIED):  # noqa: S310
                    return
            except OSError as error:
                if time.monotonic() > deadline:
                    log = self.log("kube-apiserver")[-3000:]
                    raise RuntimeError(f"the API server is not ready: {error}\n{log}") from error
                time.sleep(0.1)


def kubeconfig(server: str, token: str) -> str:
    """Write a kubeconfig; JSON is YAML."""
    return (
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", '
        f'"clusters": [{{"name": "c", "cluster": {{"server": "{server}", '
        f'"insecure-skip-tls-verify": true}}}}], '
        f'"users": [{{"name": "u", "user": {{"token": "{token}"}}}}], '
        '"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}\n'
    )


def _free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextlib.contextmanager
def running() -> Iterator[ControlPlane]:
    """Have a control plane while the block lasts."""
    plane = ControlPlane()
    try:
        plane.start_etcd()
        plane.start_api_server()
        yield plane
    finally:
        plane.remove()


if __name__ == "__main__":  # for a look around: KUBECONFIG=… kubectl get nodes
    os.setpgrp()
    with running() as one:
        print(one.kubeconfig, flush=True)  # noqa: T201
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
