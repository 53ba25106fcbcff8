"""docs/write-your-own-operator.md, done as it says, from an empty folder; the tier `author`.

The Korean page has the same commands and listings, which tests/unit/test_walkthrough.py compares.
What `git clone` gets is the last commit of this checkout.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import Step
from tests.support.walkthrough import Reader, steps

CHECKOUT = Path(__file__).parents[2]
PAGE = steps((CHECKOUT / "docs" / "write-your-own-operator.md").read_text())
#: The first command that needs a cluster.
CLUSTER = next(
    number
    for number, step in enumerate(PAGE)
    if isinstance(step, Step) and step.command == "make deploy"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The empty folder."""
    return tmp_path_factory.mktemp("author")


@pytest.fixture(scope="module")
def author(folder: Path) -> Reader:
    """Somebody who has followed the page up to the cluster."""
    chosen = ("CLUSTER", "IMG", "KIND_CLUSTER_NAME", "PROJECT")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    ours = {
        **{f"GIT_{who}_NAME": "Author" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "author@example.com" for who in ("AUTHOR", "COMMITTER")},
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{CHECKOUT}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/myorg/message-operator",
    }
    reader = Reader(folder, {**environment, **ours})
    reader.follow(PAGE[:CLUSTER])
    return reader


@pytest.fixture
def on_a_cluster(author: Reader) -> Iterator[Reader]:
    """The same author, whose clusters go in any case."""
    yield author
    author.type("make cluster-down")


def test_the_operator_passes_all_checks_without_a_cluster(author: Reader) -> None:
    assert author.type("git diff --name-only -- operator").split() == [
        "operator/memcached_operator/operator.py"
    ]


def test_the_operator_runs_heals_and_is_released_on_a_cluster(on_a_cluster: Reader) -> None:
    on_a_cluster.follow(PAGE[CLUSTER:])
