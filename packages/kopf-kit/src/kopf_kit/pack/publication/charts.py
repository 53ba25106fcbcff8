"""The chart of a release: packed the same from the same sources, signed, pushed.

Helm 4 packs them, because Helm 3 writes the time of day into the package. The signature (`.prov`)
goes into the registry with the chart, where `helm pull --verify` finds it. Used by
`kopf_kit.commands.release`.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kopf_kit.pack import chart_package
from kopf_kit.pack.publication import signatures, statements
from kopf_kit.pack.publication.signatures import Keys
from kopf_kit.pack.release import Release
from kopf_kit.rig import oci, paths, tools
from kopf_kit.rig.run import Argument, HackError, output

_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"
#: The tag at which Artifact Hub looks for the owners of a chart:
#: https://artifacthub.io/docs/topics/repositories/helm-charts
OWNERS = "artifacthub.io"
_SECONDS = 300


def pack(
    folder: Path, release: Release, collection: str, keys: Keys | None, date: datetime
) -> Path:
    """Write the package of the chart, with its signature beside it; return its path."""
    chart = chart_package.write(folder / "charts", release, collection)
    if keys:
        _name_key(chart, keys, release.version)
    for file in (chart, *chart.rglob("*")):
        os.utime(file, (date.timestamp(), date.timestamp()))
    output(
        [
            *(tools.path("helm4"), "package", chart, "--destination", folder),
            *(_signing(keys) if keys else ()),
        ],
        stdin=os.environ.get(signatures.PASSPHRASE, "").encode() + b"\n",
        timeout=_SECONDS,
    )
    return folder / f"{chart.name}-{release.version}.tgz"


def push(package: Path, collection: str, version: str) -> str:
    """Push a package with its signature, unless it is there; return the chart by its digest.

    Raises HackError where the registry has another chart of that version.
    """
    ref = f"{collection}/{package.name.removesuffix(f'-{version}.tgz')}:{version}"
    is_signed = package.with_name(f"{package.name}.prov").exists()
    existing = oci.pinned(ref)
    layers = _layers(existing) if existing else {}
    content = f"sha256:{hashlib.sha256(package.read_bytes()).hexdigest()}"
    if existing and layers.get(_CONTENT) != content:
        raise HackError(
            f"{ref} is in the registry already with other content; raise the version, or delete "
            "that chart if nobody uses it yet"
        )
    if existing is None or (is_signed and _PROVENANCE not in layers):
        plain = ("--plain-http",) if collection.startswith("localhost:") else ()
        output(
            [tools.path("helm4"), "push", package, f"oci://{collection}", *plain], timeout=_SECONDS
        )
    pushed = oci.pinned(ref)
    assert pushed, f"{ref} was pushed"
    return pushed


def _signing(keys: Keys) -> Sequence[Argument]:
    """Return the options that Helm signs with."""
    return (
        *("--sign", "--key", keys.owner, "--keyring", keys.charts_private),
        *("--passphrase-file", "-"),
    )


def push_owners(chart: str) -> str | None:
    """Push what tells Artifact Hub who owns a chart's repository; return it by its digest.

    Return None if the repository has no artifacthub-repo.yml.
    """
    file = paths.CHECKOUT / "artifacthub-repo.yml"
    if not file.is_file():
        return None
    return oci.push_file(
        file,
        f"{oci.repository(chart)}:{OWNERS}",
        kind="application/vnd.cncf.artifacthub.config.v1+yaml",
        media_type="application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml",
    )


def _layers(ref: str) -> Mapping[str, str]:
    """Return the digests of what a chart in a registry consists of, by what they are."""
    layers: list[dict[str, Any]] = oci.manifest(ref)["layers"]
    return {layer["mediaType"]: layer["digest"] for layer in layers}


def _name_key(chart: Path, keys: Keys, version: str) -> None:
    """Write into a chart which key signs it, for Artifact Hub."""
    metadata = chart / "Chart.yaml"
    key = (
        "annotations:\n  artifacthub.io/signKey: |\n"
        f"    fingerprint: {keys.fingerprint()}\n"
        f"    url: {statements.home()}/releases/download/v{version}/{keys.charts_public.name}\n"
    )
    text = metadata.read_text()
    if "\nannotations:\n" not in text:
        raise HackError(f"{metadata} has no annotations")
    metadata.write_text(text.replace("annotations:\n", key, 1))
