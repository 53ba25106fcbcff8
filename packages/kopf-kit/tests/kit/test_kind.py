"""kopf_kit.rig.kind: which Kubernetes the cluster runs."""

from pathlib import Path
from typing import Any

import pytest

from kopf_kit.rig import cluster, engine, kind, paths, public_images, versions
from kopf_kit.rig.run import KitError

#: How the engine tells of a node that has run without a break.
_STATE = "true 2026-11-21T10:00:00Z 2026-11-21T10:00:00Z {}"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an image registry in reach."""
    monkeypatch.setattr(public_images, "are_in_reach", lambda: True)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.delenv("KUBERNETES", raising=False)


def node() -> Any:
    """Return what kind is told of the node."""
    configuration: dict[str, Any] = kind._configuration()
    return configuration["nodes"][0]


def test_the_newer_of_the_proved_kubernetes_have_a_node_image_by_its_digest() -> None:
    assert [*versions.NODES] == [*versions.PROVED][-len(versions.NODES) :]
    for minor, image in versions.NODES.items():
        name, _, digest = image.partition("@sha256:")
        assert name.startswith(f"docker.io/kindest/node:v{minor}.")
        assert len(digest) == 64


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("minor", versions.NODES)
def test_kubernetes_chooses_the_node_s_image(minor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "image" not in node()

    monkeypatch.setenv("KUBERNETES", minor)

    assert node()["image"] == versions.NODES[minor]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("chosen", "runs"),
    [
        ("1.36", "kindest/node:v1.37.0"),
        ("", versions.NODES["1.35"]),
        ("", f"{paths.prefix()}/node:v1.30.1-0123456789"),
        (versions.OLDEST, f"{paths.prefix()}/node:{versions.KUBERNETES}-0123456789"),
    ],
)
def test_a_cluster_of_another_kubernetes_is_created_again(
    chosen: str,
    runs: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBERNETES", chosen)
    monkeypatch.setattr(engine, "container", lambda *_: _STATE.format(runs))

    assert not kind.is_healthy("here")

    assert f"runs {runs}; it is created again" in "".join(capfd.readouterr())


def test_what_cannot_be_pulled_is_refused_before_the_cluster_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES", versions.OLDEST)
    monkeypatch.delenv("CLUSTER", raising=False)
    monkeypatch.setattr(engine, "up", lambda: None)
    monkeypatch.setattr(public_images, "are_in_reach", lambda: False)
    monkeypatch.setattr(kind, "is_healthy", lambda _: pytest.fail("the cluster is looked at"))

    with pytest.raises(KitError, match=f"^KUBERNETES={versions.OLDEST}: .*leave KUBERNETES out"):
        cluster.up()


@pytest.mark.usefixtures("registry")
def test_a_version_that_kind_has_no_node_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    minor = versions.OLDEST
    assert minor not in versions.NODES
    monkeypatch.setenv("KUBERNETES", minor)

    with pytest.raises(KitError, match=rf"^KUBERNETES={minor}: kind v\S+ has no image .* 1\.37$"):
        kind.check_version()


class Clock:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(kind, "time", clock)
    monkeypatch.setattr(kind, "_kubectl", lambda _: ("kubectl",))
    return clock


def test_a_new_api_server_that_goes_once_more_is_awaited(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_again = 110.0
    monkeypatch.setattr(
        kind, "answer", lambda *_, **__: "ok" if not 101 < clock.now < ready_again else None
    )

    kind._await_steady("here")

    assert clock.now >= ready_again + kind._STEADY


def test_a_new_api_server_that_stays_away_is_told(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "answer", lambda *_, **__: "ok" if int(clock.now) % 4 == 0 else None)

    with pytest.raises(KitError, match=r"cluster here comes and goes; .*here-control-plane"):
        kind._await_steady("here")
