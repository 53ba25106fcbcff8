"""A repository that `make new` wrote makes a release, which its own page verifies."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.pack.publication.signatures import Keys
from hack.scaffold import repository
from hack.scaffold.answers import Answers
from tests.new.repositories import Repository
from tests.release import releasing
from tests.release.releasing import Clone
from tests.release.stranger import Stranger, of_page

NAME, VERSION = "cache-operator", "0.1.0"


@dataclass(frozen=True)
class Cache:
    """The first release of an author's."""

    clone: Clone
    keys: Keys
    prefix: str


@pytest.fixture(scope="module")
def cache(scratch: Path, address: str) -> Cache:
    folder, prefix = scratch / NAME, f"{address}/author"
    repository.write(Answers(NAME, "Cache", "cache.example.com"), folder)
    Repository(folder).commit()
    keys = Keys(scratch / "keys-of-the-author")
    clone = Clone(folder, releasing.secrets(keys.folder) | {"REGISTRY": prefix})
    done = clone.hack("release-keys")
    assert done.returncode == 0, done.stderr
    clone.environment |= releasing.push_stand_ins(
        [f"{prefix}/{NAME}:{VERSION}"],
        f"{prefix}/{NAME}-catalog:v{VERSION}",
        scratch,
        clone.git("rev-parse", "HEAD"),
    )
    clone.release(VERSION)
    return Cache(clone, keys, prefix)


@pytest.mark.parametrize("page", ["verify.md", "verify.ko.md"])
def test_every_command_of_its_page_verifies_it(cache: Cache, page: str, tmp_path: Path) -> None:
    stranger = Stranger(tmp_path, cache.keys, cache.prefix, VERSION)

    done = stranger.types(*of_page(cache.clone.folder / "docs" / page))

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_it_is_recorded_tagged_and_has_its_own_names_alone(cache: Cache) -> None:
    files = releasing.contents(cache.clone.files(VERSION))
    images = dict(line.split() for line in files["images.txt"].decode().splitlines())

    assert cache.clone.git("tag") == f"v{VERSION}"
    assert cache.clone.git("log", "-1", "--format=%s") == f"release: record {VERSION}"
    assert {name.partition(":")[0].removeprefix("charts/") for name in images} == {
        *(NAME, f"{NAME}-bundle", f"{NAME}-catalog", f"{NAME}-crds"),
    }
    assert files.keys() >= {"install.yaml", "cache_v1alpha1.json", "runbooks/README.md"}
    assert [name for name, content in files.items() if b"message-operator" in content] == []
