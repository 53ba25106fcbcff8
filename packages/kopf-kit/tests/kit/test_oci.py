"""An index in a registry lists the images of platforms, and what is attested of them."""

import json

import pytest

from kopf_kit.rig import registry

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
