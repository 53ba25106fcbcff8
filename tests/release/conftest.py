"""What the tests of releases stand on: keys, a registry of their own, and a release in it."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kopf_kit.release import files
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import steps
from message_operator import __version__
from tests.release import registry, releasing
from tests.release.releasing import CHECKOUT, Clone


@dataclass(frozen=True)
class Released:
    """A release of the version that is checked out."""

    registry: str
    clone: Clone
    keys: Keys
    #: The package index, by its address as pip reads it.
    index: str

    @property
    def prefix(self) -> str:
        return f"{self.registry}/you"


SCRUBBED = ("MESSAGE_", "IMG", "KEYS", "COSIGN_", "CATALOG_IMG", "ACTIONS_ID_TOKEN_")


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Have nothing of a user's own releases, and nothing of pip's settings."""
    steps.scrub_for_tests((*SCRUBBED, "PIP_"))


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="session")
def keys(scratch: Path) -> Keys:
    """The keys of the maintainers."""
    return releasing.make_keys(scratch / "keys")


@pytest.fixture(scope="session")
def other_keys(scratch: Path) -> Keys:
    """The keys of somebody else, who has the same passphrase."""
    return releasing.make_keys(scratch / "other-keys")


@pytest.fixture(scope="session")
def address(scratch: Path) -> Iterator[str]:
    """A registry, by its host and port."""
    with registry.serving(scratch / "registry") as address:
        yield address


@pytest.fixture(scope="session")
def released(scratch: Path, keys: Keys, address: str) -> Iterator[Released]:
    """The version that is checked out, released into the registry, and its packages in an index."""
    prefix = f"{address}/you"
    clone = Clone.of(CHECKOUT, scratch / "clone", KEYS=str(keys.folder), REGISTRY=prefix)
    clone.environment |= releasing.push_images(prefix, scratch, clone.git("rev-parse", "HEAD"))
    clone.release(__version__)
    with registry.serving_index(scratch / "index") as index:
        for package in files.files(clone.files(__version__)):
            shutil.copy(package, scratch / "index")
        yield Released(address, clone, keys, index)
