"""kopf_kit.rig.public_images: images are pulled or built, and a failure of both is told."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import preflight, public_images
from kopf_kit.rig.run import KitError

_UNREACHABLE = [
    'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
    'Get "https://registry-1.docker.io/v2/": dial tcp 192.0.2.1:443: connect: connection refused',
    'Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout',
    'Get "https://registry-1.docker.io/v2/": tls: failed to verify certificate: x509: '
    "certificate signed by unknown authority",
]
_REFUSING = [
    "toomanyrequests: You have reached your unauthenticated pull rate limit.",
    "pull access denied for busybox, repository does not exist or may require 'docker login'",
]

Engine = Callable[[str], None]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Stand in for a Docker engine that has no image and cannot pull one, for a reason."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IMAGES", raising=False)
    public_images.are_in_reach.cache_clear()

    def write(reason: str) -> None:
        program = tmp_path / "docker"
        program.write_text(
            f"#!/bin/sh\ncat >&2 <<'END'\nError response from daemon: {reason}\nEND\nexit 1\n"
        )
        program.chmod(0o755)

    return write


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    public_images.are_in_reach.cache_clear()


NO, REFUSED = _UNREACHABLE[0], _REFUSING[0]
#: Why nothing can be pulled, IMAGES, whether images can be built; and what is the outcome.
CASES = [
    *(
        (reason, "", True, f"built; no image registry can be reached: {reason}")
        for reason in _UNREACHABLE
    ),
    (
        NO,
        "",
        False,
        f"this machine lacks Debian. Use another; no image registry can be reached: {NO}",
    ),
    *(
        (reason, "", True, f"cannot be pulled: {reason}\nTo build all images")
        for reason in _REFUSING
    ),
    (REFUSED, "build", True, "built"),
    (NO, "pull", True, f"cannot be pulled: {NO}\nTo build all images here instead"),
    (
        NO,
        "bulid",
        True,
        "IMAGES=bulid is not valid. Use IMAGES=pull to pull public images only, or",
    ),
]


@pytest.mark.parametrize(("reason", "choice", "can_build", "outcome"), CASES)
def test_images_are_pulled_or_built_and_why_not_is_said(
    reason: str,
    choice: str,
    can_build: bool,
    outcome: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine(reason)
    monkeypatch.setenv("IMAGES", choice)
    need = preflight.Need("Debian", lambda: can_build, "Use another")
    monkeypatch.setattr(preflight, "FROM_SOURCE", (need,))

    try:
        said = "" if public_images.are_in_reach() else "built"
    except KitError as error:
        said = str(error)

    first, _, printed = outcome.partition("; ")
    assert first in said
    assert printed in capsys.readouterr().err
