"""A certificate for a server in the kind cluster, where no cert-manager makes one."""

import tempfile
from pathlib import Path
from typing import Any

from kopf_kit.rig import debian
from kopf_kit.rig.steps import Step


def secret(name: str, namespace: str, service: str, work: Step) -> dict[str, Any]:
    """Return the Secret that cert-manager would create for a Service in the same namespace."""
    debian.install("Certificates", ["openssl"], needs=("openssl",))
    host = f"{service}.{namespace}.svc"
    with tempfile.TemporaryDirectory() as folder:
        key, crt = Path(folder) / "tls.key", Path(folder) / "tls.crt"
        work.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "3650"),
                *("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"),
                *("-keyout", key, "-out", crt),
            ],
            timeout=60,
        )
        data = {"tls.key": key.read_text(), "tls.crt": crt.read_text(), "ca.crt": crt.read_text()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
