"""`make demo` as most people first run it: not as root, with Docker, a registry in reach.

The tests tell one story, in order: the demo on a new machine, what one does next, and what is told
where a machine or the registry does not serve.
"""

import re
import time
from collections.abc import Iterator

import pytest

from kopf_kit.image import build
from kopf_kit.rig import tools, versions
from tests.online import front
from tests.online.machine import HOME, Machine
from tests.online.public_registry import PublicRegistry

_PRINTED = "수정된 메시지입니다. 🎉"
_BUSYBOX = f"library/busybox:{versions.BUSYBOX}"


@pytest.fixture
def unkind(machine: Machine, registry: PublicRegistry) -> Iterator[PublicRegistry]:
    """The registry, of which the machine wants an image again, and which serves at the end."""
    forgotten = (f"docker.io/{_BUSYBOX}", f"localhost:5001/busybox:{versions.BUSYBOX}")
    machine.run("docker", "image", "rm", "--force", *forgotten)
    yield registry
    registry.mood("serves")


def test_the_demo_pulls_what_it_needs_and_compiles_nothing(
    machine: Machine, registry: PublicRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    demo = machine.run("make", "demo")
    took = time.monotonic() - began

    assert demo.returncode == 0, demo.stdout
    assert _PRINTED in demo.stdout
    assert not re.search("Go programs|from Debian|Node image", demo.stdout)
    parts = machine.run("ls", f"{HOME}/.cache/kopf-kit").stdout.split()
    assert set(parts) <= {"lock", "log"}
    bases = [base.partition("/")[2].partition(":")[0] for base in build.public_bases()]
    served = registry.log()
    for name in ("kindest/node", "library/busybox", "library/registry", *bases):
        assert re.search(rf"/v2/{name}/blobs/", served), name
    with capsys.disabled():
        print(f"\n{demo.stdout}\nmake demo with images pulled: {took:.0f} s")  # noqa: T201


def test_helm_4_deploys_over_the_crd_of_make_install(machine: Machine) -> None:
    done = machine.run("make", "undeploy", "install", "deploy")

    assert done.returncode == 0, done.stdout


def test_what_was_pulled_is_not_asked_for_again_and_helm_3_serves_too(
    machine: Machine, registry: PublicRegistry
) -> None:
    registry.mood("limits")
    machine.install("helm", tools.path("helm3"))

    demo = machine.run("make", "demo")

    registry.mood("serves")
    assert demo.returncode == 0, demo.stdout
    assert _PRINTED in demo.stdout


def test_a_rate_limit_is_told_as_that(machine: Machine, unkind: PublicRegistry) -> None:
    unkind.mood("limits")

    built = machine.run("make", "docker-build")

    assert built.returncode != 0
    assert "cannot be pulled: toomanyrequests: " in built.stdout
    assert front.LIMIT in built.stdout


def test_a_certificate_that_the_engine_does_not_trust_is_told(
    machine: Machine, unkind: PublicRegistry
) -> None:
    unkind.mood("lies")

    built = machine.run("make", "docker-build")

    assert built.returncode != 0
    assert "no image registry can be reached: " in built.stdout
    assert "x509" in built.stdout
    assert "lacks Debian's packages" in built.stdout  # without which images are not built here
