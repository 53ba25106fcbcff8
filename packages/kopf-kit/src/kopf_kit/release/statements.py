"""The statement where a release comes from."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kopf_kit.chart import templates


def home() -> str:
    """Return the repository's address, as the chart says it."""
    return str(templates.read()["home"])


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
                "builder": {"id": f"{home()}/blob/v{version}/kopf_kit/cli/release.py"},
                "metadata": {"startedOn": _time(date)},
            },
        }
    )


def _time(date: datetime) -> str:
    return f"{date:%Y-%m-%dT%H:%M:%SZ}"


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
