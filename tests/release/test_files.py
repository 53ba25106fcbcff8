"""The files of a release: all that it promises, of its own version, and the same of one commit."""

import hashlib
import os

import pytest

from kopf_kit.project import documents
from kopf_kit.release.signatures import Keys
from message_operator import __version__
from tests.release import releasing
from tests.release.conftest import Released
from tests.release.releasing import CHECKOUT, Clone


@pytest.fixture(scope="module")
def files(released: Released) -> dict[str, bytes]:
    """The files of the release, by their paths."""
    return releasing.contents(released.clone.files(__version__))


def test_it_has_all_that_the_page_of_releases_promises(files: dict[str, bytes]) -> None:
    assert files.keys() >= {
        *("install.yaml", "crds.yaml", "monitoring.yaml", "olmv1.yaml", "message_v1.json"),
        *("runbooks.md", "runbooks.ko.md"),
        *(f"kopf_runtime-{__version__}-py3-none-any.whl", f"kopf_runtime-{__version__}.tar.gz"),
        *(f"kopf_kit-{__version__}-py3-none-any.whl", f"kopf_kit-{__version__}.tar.gz"),
        *(f"kopf_offline-{__version__}-py3-none-any.whl", f"kopf_offline-{__version__}.tar.gz"),
        *("image-linux-amd64.cdx.json", "image-linux-arm64.cdx.json"),
        *("images.txt", "LICENSE", "checksums.txt", "checksums.txt.sigstore.json", "cosign.pub"),
    }


def test_all_but_the_copied_images_is_a_subject_of_the_provenance(
    released: Released, files: dict[str, bytes]
) -> None:
    lines = (released.clone.files(__version__).parent / "subjects.txt").read_text().splitlines()
    subjects = {name: digest for digest, name in (line.split("  ") for line in lines)}

    images = dict(line.split() for line in files["images.txt"].decode().splitlines())
    del images["message"]
    assert "message" not in subjects
    assert images == {
        name: f"{ref.partition('@')[0]}@sha256:{subjects[name]}" for name, ref in images.items()
    }
    for name in ("install.yaml", "checksums.txt"):
        assert subjects[name] == hashlib.sha256(files[name]).hexdigest()
    assert "message-operator-release" in subjects


def test_what_the_page_of_a_release_takes_is_files(released: Released) -> None:
    taken = list(released.clone.folder.glob("build/release/*/*"))  # as the workflow names them

    assert len(taken) > 20
    assert [path for path in taken if not path.is_file()] == []


def test_what_it_installs_names_images_by_their_digests(files: dict[str, bytes]) -> None:
    images = dict(line.split() for line in files["images.txt"].decode().splitlines())
    objects = documents.load_all(files["install.yaml"])

    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images["message-operator"]
    assert f"--message-image={images['message']}" in container["args"]
    assert all("@sha256:" in ref for ref in images.values())


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

    assert {"install.yaml", "crds.yaml", "checksums.txt"} <= first.keys()
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
