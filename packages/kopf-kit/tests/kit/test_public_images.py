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


@pytest.fixture
def can_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "FROM_SOURCE", ())


@pytest.fixture
def cannot_build(monkeypatch: pytest.MonkeyPatch) -> None:
    need = preflight.Need("Debian", lambda: False, "Use another machine.")
    monkeypatch.setattr(preflight, "FROM_SOURCE", (need,))


@pytest.mark.usefixtures("can_build")
@pytest.mark.parametrize("reason", _UNREACHABLE)
def test_where_no_registry_is_in_reach_images_are_built_and_the_reason_is_said(
    reason: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(reason)

    assert not public_images.are_in_reach()

    assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("cannot_build")
def test_where_images_can_neither_be_pulled_nor_built_both_is_said(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(_UNREACHABLE[0])

    with pytest.raises(KitError, match=r"lacks Debian. Use another machine."):
        public_images.are_in_reach()

    assert "no image registry can be reached: Get" in capsys.readouterr().err


@pytest.mark.usefixtures("can_build")
@pytest.mark.parametrize("reason", _REFUSING)
def test_a_registry_that_refuses_is_quoted_and_nothing_is_built(
    reason: str, engine: Engine
) -> None:
    engine(reason)

    with pytest.raises(KitError, match=r"busybox:\S+ cannot be pulled: ") as failure:
        public_images.are_in_reach()

    assert reason in str(failure.value)
    assert "IMAGES=build" in str(failure.value)


@pytest.mark.usefixtures("can_build")
def test_one_may_ask_for_building_whatever_is_in_reach(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(_REFUSING[0])
    monkeypatch.setenv("IMAGES", "build")

    assert not public_images.are_in_reach()


@pytest.mark.usefixtures("can_build")
def test_one_may_ask_for_pulling_only(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(_UNREACHABLE[0])
    monkeypatch.setenv("IMAGES", "pull")

    with pytest.raises(KitError, match=r"cannot be pulled: .*no such host"):
        public_images.are_in_reach()


def test_a_wrong_choice_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES", "bulid")

    with pytest.raises(KitError, match=r"IMAGES=bulid .*IMAGES=pull.*IMAGES=build"):
        public_images.are_in_reach()
