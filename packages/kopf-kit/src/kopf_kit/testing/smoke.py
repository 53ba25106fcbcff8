"""What `kopf-kit e2e` tests where there is no folder tests/e2e: an operator serves its samples."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.project import documents, rbac
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.testing.installed import Installed, Kubectl
from kopf_kit.testing.requests import wait_until

_SAMPLES = [(kind, file) for kind in PROJECT.kinds for file in PROJECT.samples[kind.kind]]
_NAMES = [file.stem for _, file in _SAMPLES]


@pytest.fixture(autouse=True)
def log(installed: Installed) -> Iterator[None]:
    """Print the operator's log, which pytest shows if a test failed."""
    yield
    print(installed.log())


@pytest.mark.parametrize(("kind", "sample"), _SAMPLES, ids=_NAMES)
def test_the_operator_serves_a_sample_and_lets_it_go(
    kubectl: Kubectl, kind: Kind, sample: Path
) -> None:
    """Wait until the object says that its handlers have ended; delete it."""
    manifest = documents.load(sample.read_text())
    manifest["metadata"].pop("namespace", None)  # it is in the test's
    named = f"{kind.crd}/{manifest['metadata']['name']}"
    serves = _handled if _ends(kind) else _written
    kubectl("apply", "--filename=-", stdin=json.dumps(manifest))

    def served() -> bool:
        return serves(kubectl.get("--show-managed-fields", named))

    wait_until(f"the {kind.kind} to be served", served, bool)
    kubectl("delete", "--timeout=120s", named)


def _ends(kind: Kind) -> bool:
    """Return whether kopf notes on the objects of a kind that their handlers have ended."""
    if not PROJECT.adopted:
        return False
    handlers = rbac.handlers_of(PROJECT)
    return any(
        watch.ends and f"{watch.plural}.{watch.group}" == kind.crd for watch in handlers.watched
    )


def _handled(raw: Any) -> bool:
    """Return whether its handlers have ended: kopf's note is an annotation, or in the status."""
    return "last-handled-configuration" in json.dumps(raw)


def _written(raw: Any) -> bool:
    """Return whether somebody else than kubectl has written an object."""
    writers = (entry["manager"] for entry in raw["metadata"]["managedFields"])
    return any(writer.partition("-")[0] != "kubectl" for writer in writers)
