"""The same commit makes the same files: on another checkout, at another path, at another time."""

import os

import pytest

from kopf_kit.release.signatures import Keys
from message_operator import __version__
from tests.release import releasing
from tests.release.conftest import Released
from tests.release.releasing import CHECKOUT, Clone


@pytest.fixture(scope="module")
def again(released: Released, keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Released:
    """The same release, made by another checkout, of the same images.

    It is made of a tag, as the workflow `release` does it.
    """
    folder = tmp_path_factory.mktemp("a-longer-path") / "of" / "another-checkout"
    folder.parent.mkdir()
    clone = Clone.of(CHECKOUT, folder, **released.clone.environment)
    for file in folder.rglob("*"):
        if ".git" not in file.parts:
            os.utime(file, (1_000_000_000, 1_000_000_000))
    clone.git("tag", f"v{__version__}")
    clone.release(__version__)
    return Released(released.registry, clone, keys, released.index)


def test_all_files_are_the_same_bit_for_bit(released: Released, again: Released) -> None:
    first, second = (
        releasing.contents(each.clone.files(__version__)) for each in (released, again)
    )
    # A signature has a number by chance in it.
    first.pop("checksums.txt.sigstore.json")
    second.pop("checksums.txt.sigstore.json")

    assert len(first) > 20
    assert {name for name in first | second if first.get(name) != second.get(name)} == set()


def test_the_package_of_the_chart_is_the_same(released: Released, again: Released) -> None:
    name = f"build/release/{__version__}-charts"
    first, second = (releasing.contents(each.clone.folder / name) for each in (released, again))
    packages = {file for file in first if file.endswith(".tgz")}

    assert len(packages) == 1
    assert {file for file in packages if first[file] != second.get(file)} == set()


def test_a_release_of_a_tag_leaves_the_checkout_as_it_is(again: Released) -> None:
    assert again.clone.git("rev-parse", "HEAD", f"v{__version__}") == again.clone.git(
        "rev-parse", "origin/HEAD", "origin/HEAD"
    )
    assert again.clone.git("status", "--porcelain") == ""
