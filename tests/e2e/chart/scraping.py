"""A Prometheus that scrapes protected metrics as the chart's ServiceMonitor tells it to.

The Prometheus Operator is not there: this does what that does. Prometheus runs on this machine, and
reaches the operator's Pod by `kubectl port-forward`: the API server's own proxy would keep the
scraper's token for itself.
"""

import base64
import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import trustme

from chart import prometheus_server
from kopf_kit.testing.process import free_port
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator

TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def write_certificate(home: Namespace, secret: str, authority: trustme.CA, host: str) -> str:
    """Put a certificate into a Secret, or renew it there; return it as PEM."""
    leaf = authority.issue_cert(host)
    certificate = leaf.cert_chain_pems[0].bytes().decode()
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret},
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": certificate,
            "tls.key": leaf.private_key_pem.bytes().decode(),
            "ca.crt": authority.cert_pem.bytes().decode(),
        },
    }
    home.kubectl.apply(manifest)
    return certificate


class Scraping:
    """Prometheus, and the port of this machine that leads to the operator's metrics."""

    def __init__(self, prometheus: prometheus_server.Prometheus, port: int) -> None:
        self.prometheus = prometheus
        self._port = port

    def errors(self) -> dict[str, str]:
        """Return what went wrong with the last scrape of each job, empty if nothing did."""
        targets = self.prometheus.get("targets")["activeTargets"]
        return {target["labels"]["job"]: target["lastError"] for target in targets}

    def certificate(self) -> str:
        """Return the certificate that the operator serves a new connection with, as PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self._port), timeout=10)


@contextlib.contextmanager
def scraping(
    operator: Operator, home: Namespace, folder: Path, tokens: Mapping[str, str]
) -> Iterator[Scraping]:
    """Have a Prometheus with a job for each of these tokens; an empty one is not sent."""
    port = free_port()
    endpoint = _endpoint(home)
    assert endpoint["bearerTokenFile"] == TOKEN_FILE
    trust = endpoint["tlsConfig"]
    ca = trust["ca"]["secret"]
    data = home.kubectl.get("secret", ca["name"])["data"]
    (folder / "ca.crt").write_bytes(base64.b64decode(data[ca["key"]]))
    jobs = [
        {
            "job_name": job,
            "scheme": endpoint["scheme"],
            "metrics_path": endpoint["path"],
            "tls_config": {"ca_file": str(folder / "ca.crt"), "server_name": trust["serverName"]},
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            **({"authorization": {"credentials": token}} if token else {}),
        }
        for job, token in tokens.items()
    ]
    ports = f"{port}:{endpoint['port']}"
    forward = home.kubectl.command("port-forward", f"deployment/{operator.name}", ports)
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    with (
        prometheus_server.process(folder / "forward.log", *forward),
        prometheus_server.running(folder, config) as prometheus,
    ):
        yield Scraping(prometheus, port)


def _endpoint(home: Namespace) -> dict[str, Any]:
    (monitor,) = home.kubectl.get("servicemonitors")["items"]
    (endpoint,) = monitor["spec"]["endpoints"]
    result: dict[str, Any] = endpoint
    return result
