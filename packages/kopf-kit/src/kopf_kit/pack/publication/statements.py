"""Statements about an image: where it comes from, and which vulnerabilities do no harm in it.

Used by `kopf_kit.pack.publication.files` and `signatures`.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kopf_kit.pack import documents
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import paths

#: What people write of vulnerabilities.
VEX = paths.CHECKOUT / "vex.yaml"


def home() -> str:
    """Return the repository's address, as the chart says it."""
    chart = documents.load((PROJECT.chart / "Chart.yaml").read_text())
    return str(chart["home"])


def provenance(version: str, commit: str, date: datetime, locks: Mapping[str, str]) -> str:
    """Return the predicate of SLSA's provenance: https://slsa.dev/spec/v1.0/provenance.

    It names the commit, and the lock by its hash. It says when the commit was made, not when
    it was built, so that a release that is made again states the same.
    """
    return _json(
        {
            "buildDefinition": {
                "buildType": f"{home()}/blob/v{version}/docs/verify.md",
                "externalParameters": {"version": version},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{home()}@refs/tags/v{version}",
                        "digest": {"gitCommit": commit},
                    },
                    *(
                        {"name": name, "digest": {"sha256": digest}}
                        for name, digest in sorted(locks.items())
                    ),
                ],
            },
            "runDetails": {
                "builder": {"id": f"{home()}/blob/v{version}/kopf_kit/commands/release.py"},
                "metadata": {"startedOn": _time(date)},
            },
        }
    )


def vulnerabilities(image: str, version: str, date: datetime, source: Path = VEX) -> str:
    """Return what is stated of vulnerabilities in an image, given by its digest, as OpenVEX."""
    repository, _, digest = image.partition("@")
    product = {
        "@id": f"pkg:oci/{PROJECT.name}@{digest.replace(':', '%3A')}?repository_url={repository}"
    }
    return _json(
        {
            "@context": "https://openvex.dev/ns/v0.2.0",
            "@id": f"{home()}/vex/v{version}",
            "author": f"The {PROJECT.name} maintainers",
            "timestamp": _time(date),
            "version": 1,
            "statements": [
                {
                    **statement,
                    "vulnerability": {"name": statement["vulnerability"]},
                    "products": [product],
                }
                for statement in documents.load(source.read_text())
            ],
        }
    )


def _time(date: datetime) -> str:
    return f"{date:%Y-%m-%dT%H:%M:%SZ}"


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
