"""What a registry lists, and what the one beside the cluster answers: here a server of its own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from kopf_kit.image.build import looked_up, pinned
from kopf_kit.rig import dockerfiles, registry
from kopf_kit.rig.run import KitError

DIGEST = f"sha256:{'1' * 64}"


class Handler(BaseHTTPRequestHandler):
    """Knows one image, and is in trouble with another."""

    codes: ClassVar = {"/v2/known/manifests/1.0": 200, "/v2/ill/manifests/1.0": 500}

    def do_GET(self) -> None:
        """Answer with the digest of what is asked for."""
        self.send_response(self.codes.get(self.path, 404))
        self.send_header("Docker-Content-Digest", DIGEST)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(registry, "PORT", server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.usefixtures("answering")
def test_an_image_is_named_by_the_digest_that_the_registry_tells() -> None:
    assert pinned(f"{registry.ADDRESS}/known:1.0") == f"{registry.ADDRESS}/known@{DIGEST}"
    assert pinned(f"{registry.ADDRESS}/unknown:1.0") == f"{registry.ADDRESS}/unknown:1.0"
    with pytest.raises(KitError, match=r"cannot say whether it has ill:1\.0: .*500"):
        pinned(f"{registry.ADDRESS}/ill:1.0")


@pytest.mark.usefixtures("answering")
def test_an_image_that_is_given_and_not_there_is_refused_with_what_puts_it_there() -> None:
    given = f"{registry.ADDRESS}/unknown:1.0"

    with pytest.raises(KitError) as error:
        looked_up(given, "IMG")

    assert str(error.value) == (
        f"IMG={given} is not in the local registry; `kopf-kit image build` and `image push`, "
        f"with IMG={given}, put an image of the operator there, and without IMG the image is "
        "built here"
    )


def test_a_registry_that_does_not_answer_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(registry, "PORT", server.server_port)

    with pytest.raises(KitError, match=r"does not answer \(.*refused.*\); `kopf-kit cluster up`"):
        pinned(f"{registry.ADDRESS}/known:1.0")


def test_operators_on_one_machine_have_registries_of_their_own() -> None:
    names = ("message-operator", "cache-operator", "shop-operator")

    ports = [registry.port(name) for name in names]

    assert registry.PORT == 5001  # as PROJECT says
    assert len(set(ports)) == len(names)
    assert all(1024 < port < 15_000 for port in ports)


REPOSITORY = "registry.example.com:5000/you/operator"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the registry answer with an index as `docker buildx build --push` writes it."""
    listed = [
        {"digest": "sha256:1", "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": "sha256:2", "platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": "sha256:3", "platform": {"os": "unknown", "architecture": "unknown"}},
    ]
    monkeypatch.setattr(registry, "crane", lambda *_: json.dumps({"manifests": listed}))


@pytest.mark.usefixtures("index")
def test_an_attestation_is_listed_and_is_no_platform() -> None:
    assert registry.platforms(f"{REPOSITORY}:1") == {
        "linux/amd64": f"{REPOSITORY}@sha256:1",
        "linux/arm64": f"{REPOSITORY}@sha256:2",
    }
    assert registry.listed(f"{REPOSITORY}:1") == [f"{REPOSITORY}@sha256:{n}" for n in (1, 2, 3)]


def test_platforms_are_listed_with_commas_or_spaces_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLATFORMS", "linux/arm64, linux/amd64 linux/arm64,")

    assert dockerfiles.requested() == ("linux/arm64", "linux/amd64")


@pytest.mark.parametrize("name", ["linux/riscv64", "arm64", "windows/amd64", "linux/arm/v7"])
def test_a_platform_that_nothing_is_built_for_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATFORMS", f"linux/amd64,{name}")

    with pytest.raises(
        KitError, match=f"images cannot be built for {name}; .*linux/amd64,linux/arm64"
    ):
        dockerfiles.requested()


@pytest.mark.parametrize("others", [(), ("theirs-control-plane",)], ids=["none", "another's"])
def test_it_stays_while_a_cluster_of_another_checkout_pulls_from_it(
    others: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    docker = tmp_path / "docker"  # `foreign-control-plane` is a cluster that knows no registry
    docker.write_text(
        f'#!/bin/sh\necho "$@" >>{calls}\n'
        'case "$1 $2" in\n'
        f'  "ps "*) echo foreign-control-plane {" ".join(others)} ;;\n'
        '  "exec theirs-control-plane") echo joined ;;\n'
        "esac\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    registry.down()

    assert (f"rm -f -v {registry.NAME}" in calls.read_text()) == (not others)
