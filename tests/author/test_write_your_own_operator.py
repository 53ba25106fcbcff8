"""docs/write-your-own-operator.md, done as it says, with packages built as it says: tier `author`.

The Korean page has the same commands and listings, which tests/unit/test_pages.py compares.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.release import files
from tests.docs.reader import Reader
from tests.support.console import Step, walkthrough

TEXT = (Path(__file__).parents[2] / "docs" / "write-your-own-operator.md").read_text()
PAGE = walkthrough(TEXT)
#: How the packages are had while no release is published, in the page's words.
_BUILD, _FIND = "uv build --all-packages", 'export UV_FIND_LINKS="$PWD/dist"'
#: The first command that needs a cluster.
CLUSTER = next(
    number
    for number, step in enumerate(PAGE)
    if isinstance(step, Step) and step.command == "make deploy"
)
_CHOSEN = ("CLUSTER", "IMG", "KIND_CLUSTER_NAME", "PROJECT", "UV_INDEX", "VIRTUAL_ENV")


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has uv and the built packages, and has followed the page up to the cluster."""
    scratch = tmp_path_factory.mktemp("author")
    for folder in ("bin", "empty"):
        (scratch / folder).mkdir()
    ours = Path(sys.executable).parent
    uv = shutil.which("uv", path=f"{ours}:{os.environ['PATH']}")
    assert uv
    for name in ("uv", "uvx"):
        (scratch / "bin" / name).symlink_to(Path(uv).with_name(name))
    path = [at for at in os.environ["PATH"].split(":") if Path(at) != ours]
    environment = {
        **{name: value for name, value in os.environ.items() if name not in _CHOSEN},
        **{f"GIT_{who}_NAME": "Author" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "author@example.com" for who in ("AUTHOR", "COMMITTER")},
        "PATH": ":".join([str(scratch / "bin"), *path]),
        # What builds, for a machine without an image registry, as if it was installed.
        "PYTHONPATH": str(files.PACKAGES / "kopf-offline" / "src"),
        "UV_CACHE_DIR": str(scratch / "uv"),
        "UV_SYSTEM_CERTS": "1",
    }
    for command in (_BUILD, _FIND):
        assert f"`{command}`" in TEXT
    with Reader(scratch / "empty", environment) as reader:
        out = f"--quiet --out-dir={scratch}/dist"  # not into the checkout itself
        reader.type(f"cd '{files.PACKAGES.parent}' && {_BUILD} {out} && cd -")
        reader.type(_FIND.replace("$PWD", str(scratch)))
        reader.follow(PAGE[:2])
        reader.type("uv add --quiet --dev kopf-offline")  # builds what this machine does not have
        reader.follow(PAGE[2:CLUSTER])
        for tool in ("kubectl", "helm"):
            reader.type(f'export PATH=$(dirname "$(uv run kopf-kit tool {tool})"):$PATH')
        yield reader


@pytest.fixture
def on_a_cluster(author: Reader) -> Iterator[Reader]:
    """The same author, whose clusters go in any case."""
    yield author
    author.type("uv run kopf-kit cluster down")


@pytest.fixture
def untouched(author: Reader, tmp_path: Path) -> Iterator[Reader]:
    """The same author in a further repository, as `kopf-kit new` writes it."""
    with author.elsewhere(tmp_path) as reader:
        reader.type("uvx kopf-kit new cache-operator --kind=Cache --group=cache.example.com")
        reader.type("cd cache-operator && uv add --quiet --dev kopf-offline")
        yield reader
        reader.type("uv run kopf-kit cluster down")


def test_the_author_has_written_what_the_page_lists_and_nothing_else(author: Reader) -> None:
    changed = author.type("git status --short --untracked-files=all").split()

    assert changed[::2] == ["M"] * 6
    assert changed[1::2] == [
        *("PROJECT", "examples/sample.yaml", "operator/memcached_operator/operator.py"),
        *(f"tests/{kind}/test_operator.py" for kind in ("e2e", "faults", "unit")),
    ]


def test_the_operator_runs_heals_and_is_pushed_on_a_cluster(on_a_cluster: Reader) -> None:
    on_a_cluster.follow(PAGE[CLUSTER:])


def test_a_new_repository_is_green_before_its_author_has_written_anything(
    untouched: Reader,
) -> None:
    """`-s` prints the files of the repository, and the seconds that each command takes."""
    print(untouched.type("git ls-files --cached --others --exclude-standard | xargs wc -l"))  # noqa: T201
    for command in ("make check", "uv run kopf-kit faults", "make e2e"):
        began = time.monotonic()
        untouched.type(command)
        print(f"{command}: {time.monotonic() - began:.0f} s")  # noqa: T201
