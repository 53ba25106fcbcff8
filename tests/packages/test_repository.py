"""What `kopf-kit new` wrote, later: released, and refused by a kit that is too new for it."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.release import files, signatures
from kopf_offline import golang
from message_operator import __version__
from tests.packages.test_index import Author
from tests.release import registry, releasing
from tests.support import package_index

#: The version of a later kit.
LATER = "0.99.0"
NEW = ("--kind=Cache", "--group=cache.example.com")
_GIT = ("git", "-c", "user.name=An Author", "-c", "user.email=author@example.com")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with these distributions, and with later ones."""
    scratch = tmp_path_factory.mktemp("later")
    later = shutil.copytree(files.PACKAGES, scratch / "later" / "packages")
    for file, text in files.raised(LATER, later).items():
        file.write_text(text)
    with package_index.serving(scratch / "packages") as address:
        for folder in (files.PACKAGES, later):
            files.build(scratch / "packages", folder)
        yield address


@pytest.fixture
def author(tmp_path: Path, served: str) -> Author:
    """Somebody in a new repository, with a first commit."""
    author = Author(tmp_path, served)
    author.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return author


def begin(author: Author, *options: str) -> None:
    author.types("uvx", f"kopf-kit@{__version__}", "new", "cache-operator", *NEW, *options)
    author.home /= "cache-operator"
    commit(author)


def commit(author: Author) -> None:
    author.types(*_GIT, "add", "--all")
    author.types(*_GIT, "commit", "--quiet", "--message=Work")


def refusal(author: Author, *command: str) -> str:
    """Run a command, which must be refused; return the one sentence that says why."""
    done = author.runs(*command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found = re.search(r"^error: (.*)$", done.stderr, re.MULTILINE)
    assert found, done.stderr
    return found[1]


def test_what_does_not_fit_is_refused_and_changes_nothing(author: Author) -> None:
    begin(author, "--no-lock")
    status = ("git", "status", "--porcelain")

    sentence = refusal(author, "uvx", f"kopf-kit@{LATER}", "generate")
    assert "is too old for this one, 0.99.0: take over what this one writes" in sentence
    assert author.types(*status) == ""


# --- a release ------------------------------------------------------------------------------------


@pytest.mark.parametrize("olm", [True, False], ids=["olm", "without olm"])
def test_it_is_released_and_released_again(author: Author, olm: bool, tmp_path: Path) -> None:
    golang.programs(["cosign", "crane", "helm4"])  # an author has them, or builds them
    author.environment["XDG_CACHE_HOME"] = os.environ.get(
        "XDG_CACHE_HOME", str(Path.home() / ".cache")
    )
    begin(author, *([] if olm else ["--without=olm"]))
    author.types("uv", "add", "--quiet", "--dev", f"kopf-offline=={__version__}")
    commit(author)
    keys, kit = tmp_path / "keys", ("uv", "run", "kopf-kit")
    author.environment |= {**releasing.secrets(keys), **releasing.NOBODY}
    author.types(*kit, "release", "keys")
    with registry.serving(tmp_path / "registry") as address:
        prefix = author.environment["REGISTRY"] = f"{address}/you"
        author.environment["IMG"] = image = f"{prefix}/stand-in:v1"
        given = releasing.push_stand_ins([image], f"{prefix}/catalog:v1", tmp_path, "a commit")
        author.environment |= given if olm else {}
        for version in (__version__, "0.2.0"):
            author.types(*kit, "release", version)
            files = author.home / "build" / "release" / version
            lines = (files / "images.txt").read_text().splitlines()
            assert lines
            for line in lines:
                assert signatures.signed(signatures.Keys(keys), line.split()[1]), line
        there = registry.content(address)

    assert author.types("git", "tag").split() == [f"v{__version__}", "v0.2.0"]
    assert author.types("git", "status", "--porcelain") == ""
    recorded = sorted(file.name for file in author.home.glob("catalog/bundles/*"))
    assert recorded == ([f"v{__version__}.yaml", "v0.2.0.yaml"] if olm else [])
    for version in (__version__, "0.2.0"):
        runbooks = author.types("git", "show", f"v{version}:docs/runbooks.md")  # alerts link to it
        assert "\n## CacheOperatorDown\n" in runbooks
        assert f"you/charts/cache-operator:{version}" in there
        assert f"you/cache-operator-release:v{version}" in there
        assert (f"you/cache-operator-bundle:v{version}" in there) == olm
        files = author.home / "build" / "release" / version
        signed = {file.name for file in files.iterdir()}
        assert {"checksums.txt", "checksums.txt.sigstore.json", "install.yaml"} <= signed
