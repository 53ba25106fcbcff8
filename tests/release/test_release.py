"""`make release`: it goes on where it was interrupted, and refuses what cannot be a release."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kopf_kit.release import charts, signatures
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import registry as oci
from kopf_kit.rig.run import KitError
from kopf_kit.testing.requests import wait_until
from message_operator import __version__
from tests.release import registry, releasing
from tests.release.conftest import Released
from tests.release.releasing import CHECKOUT, Clone


@pytest.fixture
def clone(tmp_path: Path, keys: Keys, address: str) -> Clone:
    """A clone whose releases nobody has begun."""
    prefix = f"{address}/{tmp_path.name}"
    return Clone.of(CHECKOUT, tmp_path / "clone", KEYS=str(keys.folder), REGISTRY=prefix)


def test_a_release_that_is_complete_is_left_as_it_is(released: Released) -> None:
    before, head = registry.content(released.registry), released.clone.git("rev-parse", "HEAD")

    released.clone.release(__version__)

    assert registry.content(released.registry) == before
    assert released.clone.git("rev-parse", "HEAD", f"v{__version__}^{{commit}}").split() == [
        head,
        head,
    ]
    assert released.clone.git("status", "--porcelain") == ""


def test_another_chart_of_a_version_that_is_there_is_refused(
    released: Released, tmp_path: Path
) -> None:
    collection = f"{released.registry}/{tmp_path.name}"
    name = f"message-operator-{__version__}.tgz"
    package = released.clone.folder / "build" / "release" / f"{__version__}-charts" / name
    there = tmp_path / name
    there.write_bytes(_repacked(package))
    before = charts.push(there, collection, __version__)

    with pytest.raises(KitError, match="with other content"):
        charts.push(package, collection, __version__)

    assert charts.push(there, collection, __version__) == before


def _repacked(package: Path) -> bytes:
    """Return another package of the same chart."""
    return gzip.compress(gzip.decompress(package.read_bytes()), 1)


def test_a_release_goes_on_where_it_was_killed(clone: Clone, keys: Keys, tmp_path: Path) -> None:
    prefix, commit = clone.environment["REGISTRY"], clone.git("rev-parse", "HEAD")
    clone.environment |= releasing.push_images(prefix, tmp_path, commit)
    process = clone.start("release", __version__)
    chart = f"{prefix}/charts/message-operator:{__version__}"
    wait_until("the chart to be pushed", lambda: oci.digest(chart), bool)
    releasing.kill(process)
    assert clone.git("tag") == ""

    clone.release(__version__)

    assert clone.git("tag") == f"v{__version__}"
    assert clone.git("log", "--format=%s", f"{commit}..") == f"release: record {__version__}"
    for line in (clone.files(__version__) / "images.txt").read_text().splitlines():
        assert signatures.signed(keys, line.split()[1]), line


def test_the_next_version_is_raised_and_recorded_in_commits_of_their_own(
    released: Released, tmp_path: Path
) -> None:
    clone = Clone.of(released.clone.folder, tmp_path / "clone", **released.clone.environment)
    images = (clone.folder / "catalog" / "channels.yaml", released.clone.files(__version__))
    ours = dict(line.split() for line in (images[1] / "images.txt").read_text().splitlines())

    assert clone.refused("9.8.7").startswith("CHANGELOG.md says nothing of 9.8.7")  # C3
    with (clone.folder / "CHANGELOG.md").open("a") as log:
        log.write("\n## 9.8.7\n\n- Add a value\n")
    clone.git("commit", "--quiet", "--all", "--message", "change")
    clone.release("9.8.7", IMG=ours["message-operator"], MESSAGE_IMG=ours["message"])

    subjects = clone.git("log", "--format=%s", "origin/HEAD..").splitlines()
    raised = ["release: record 9.8.7", "release: raise the version to 9.8.7"]
    assert subjects == [*raised, "change"]
    assert clone.git("tag") == "v9.8.7"
    assert clone.git("status", "--porcelain") == ""
    assert f"replaces: message-operator.v{__version__}" in images[0].read_text()
    assert ours["message-operator"] in (clone.files("9.8.7") / "install.yaml").read_text()


def test_a_release_for_fewer_platforms_than_the_bundle_promises_is_refused(
    clone: Clone, address: str
) -> None:
    sentence = clone.refused(__version__, PLATFORMS="linux/amd64")

    assert sentence == (
        "PLATFORMS=linux/amd64: a release has images for linux/amd64 and linux/arm64, as its "
        "bundle promises; leave PLATFORMS out"
    )
    assert clone.environment["REGISTRY"].partition("/")[2] not in oci.crane("catalog", address)


@pytest.mark.parametrize("variable", ["IMG", "MESSAGE_IMG", "BUNDLE_IMG", "CATALOG_IMG"])
def test_an_image_for_fewer_platforms_than_the_bundle_promises_is_refused(
    clone: Clone, address: str, tmp_path: Path, variable: str
) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(oci.archive({"file": b""}, datetime.fromtimestamp(0, UTC)))
    image = oci.push_for(("linux/arm64",), layer, f"{address}/arm64-only/image:1", {})

    sentence = clone.refused(__version__, **{variable: image})

    assert sentence.startswith(f"{variable}={image} is not for linux/amd64 and linux/arm64")
    assert clone.environment["REGISTRY"].partition("/")[2] not in oci.crane("catalog", address)


def test_a_checkout_with_changes_is_refused(clone: Clone) -> None:
    (clone.folder / "README.md").write_text("changed")

    sentence = clone.refused(__version__)

    assert sentence.startswith("README.md differs from what is committed")


def test_a_version_that_another_commit_is_tagged_with_is_refused(clone: Clone) -> None:
    clone.git("tag", f"v{__version__}")
    clone.git("commit", "--quiet", "--allow-empty", "--message", "more")

    assert f"{__version__} is released: v{__version__} is commit" in clone.refused(__version__)


def test_an_image_that_another_commit_made_is_not_taken(clone: Clone, tmp_path: Path) -> None:
    prefix = clone.environment["REGISTRY"]
    clone.environment |= releasing.push_images(prefix, tmp_path, clone.git("rev-parse", "HEAD~1"))
    (clone.folder / "README.md").write_text("changed")
    clone.git("commit", "--quiet", "--all", "--message", "change")

    assert "built from another commit" in clone.refused(__version__)


def test_a_wrong_passphrase_is_told_before_anything_is_published(
    clone: Clone, address: str
) -> None:
    sentence = clone.refused(__version__, COSIGN_PASSWORD="not this one")

    assert sentence.startswith("the passphrase in COSIGN_PASSWORD does not open")
    assert clone.environment["REGISTRY"].partition("/")[2] not in oci.crane("catalog", address)


def test_missing_keys_are_told_with_what_makes_them(clone: Clone, tmp_path: Path) -> None:
    sentence = clone.refused(__version__, KEYS=str(tmp_path / "none"))

    assert "lacks cosign.key, cosign.pub; `kopf-kit release keys`" in sentence


def test_keys_that_are_there_are_not_overwritten(clone: Clone, keys: Keys) -> None:
    before = keys.private.read_bytes()

    done = clone.kit("release", "keys")

    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert keys.private.read_bytes() == before
