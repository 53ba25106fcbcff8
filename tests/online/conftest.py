"""A newcomer's machine, and a public registry that it reaches."""

import os
from collections.abc import Iterator

import pytest

from kopf_kit.rig import cluster, engine, preflight, tools
from kopf_offline import images
from tests.online.machine import Machine
from tests.online.public_registry import PublicRegistry

_NAME = f"{cluster.NAME}-online"

# The images that are served are built here, whatever this machine's own engine can pull.
os.environ["IMAGES"] = "build"


@pytest.fixture(scope="session")
def registry() -> Iterator[PublicRegistry]:
    """A registry that has what is asked of it, under the public names."""
    engine.up()
    preflight.check(preflight.FROM_SOURCE)
    registry = PublicRegistry(_NAME)
    try:
        registry.start()
        registry.fill()
        yield registry
    finally:
        registry.remove()


@pytest.fixture(scope="session")
def machine(registry: PublicRegistry) -> Iterator[Machine]:
    """A machine with Docker, Python, make, kind, kubectl and Helm 4."""
    machine = Machine(f"{_NAME}-machine", registry.network)
    try:
        machine.start(trusted=(images.certificates() or b"") + registry.certificate())
        machine.clone()
        machine.install("kind", registry.kind)
        machine.install("kubectl", tools.path("kubectl"))
        machine.install("helm", tools.path("helm4"))
        yield machine
    finally:
        machine.remove()
