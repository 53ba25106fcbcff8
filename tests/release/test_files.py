"""The files of a release: all that it promises, of its own version, and what each is made of."""

import hashlib
import json

import pytest

from kopf_kit.project import documents
from message_operator import __version__
from tests.release import releasing
from tests.release.conftest import Released


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
        *("provenance.json", "images.txt", "LICENSE"),
        *("checksums.txt", "checksums.txt.sigstore.json", "cosign.pub", "charts.gpg"),
    }


def test_s7_the_checksums_are_those_of_all_files_but_theirs(files: dict[str, bytes]) -> None:
    lines = files["checksums.txt"].decode().splitlines()

    assert {tuple(line.split("  ")) for line in lines} == {
        (hashlib.sha256(content).hexdigest(), name)
        for name, content in files.items()
        if not name.startswith("checksums.txt")
    }


def test_it_says_where_it_comes_from(released: Released, files: dict[str, bytes]) -> None:
    provenance = json.loads(files["provenance.json"])

    (source,) = (
        each
        for each in provenance["buildDefinition"]["resolvedDependencies"]
        if each.get("uri", "").endswith(f"@refs/tags/v{__version__}")
    )
    changing = ("origin/HEAD", "--", ".", ":!catalog")
    assert source["digest"]["gitCommit"] == released.clone.git(
        "log", "-1", "--format=%H", *changing
    )


def test_what_it_installs_names_images_by_their_digests(files: dict[str, bytes]) -> None:
    images = dict(line.split() for line in files["images.txt"].decode().splitlines())
    objects = documents.load_all(files["install.yaml"])

    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images["message-operator"]
    assert f"--message-image={images['message']}" in container["args"]
    assert all("@sha256:" in ref for ref in images.values())
