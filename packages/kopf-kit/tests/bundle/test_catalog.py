"""The catalog: every release, and which replaces which."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bundle.package import opm, opm_render, release, write, write_both
from chart.helm import VERSION
from kopf_kit.olm import bundle, catalog
from kopf_kit.olm.catalog import CATALOG
from kopf_kit.project import documents, releases
from kopf_kit.release import artifacts
from kopf_kit.rig.run import KitError

Manifest = dict[str, Any]


def channel(name: str, *versions: str) -> list[Manifest]:
    """Return the entries of a channel of a catalog with these versions."""
    (found,) = (x for x in catalog.channels(versions) if x["name"] == name)
    entries: list[Manifest] = found["entries"]
    return entries


def test_it_offers_this_version() -> None:
    blobs = documents.load_all((CATALOG / "channels.yaml").read_text())
    offered = {blob["name"]: [entry["name"] for entry in blob["entries"]] for blob in blobs}

    for found in releases.channels(VERSION):
        assert f"widget-operator.v{VERSION}" in offered[found]


def test_each_release_replaces_the_one_before_it_and_can_be_jumped_to() -> None:
    assert channel("stable", "0.10.0", "0.1.0", "0.2.0") == [
        {"name": "widget-operator.v0.1.0"},
        {
            "name": "widget-operator.v0.2.0",
            "replaces": "widget-operator.v0.1.0",
            "skipRange": ">=0.1.0 <0.2.0",
        },
        {
            "name": "widget-operator.v0.10.0",
            "replaces": "widget-operator.v0.2.0",
            "skipRange": ">=0.1.0 <0.10.0",
        },
    ]


def test_candidates_are_in_their_own_channel_alone() -> None:
    versions = ("0.1.0", "0.2.0-rc.2", "0.2.0-rc.10", "0.2.0")

    assert [x["name"] for x in channel("candidate", *versions)] == [
        f"widget-operator.v{version}" for version in versions
    ]
    assert [x["name"] for x in channel("stable", *versions)] == [
        "widget-operator.v0.1.0",
        "widget-operator.v0.2.0",
    ]


@pytest.mark.parametrize(
    ("versions", "default"), [(("0.1.0-rc.1",), "candidate"), (("0.1.0", "0.2.0-rc.1"), "stable")]
)
def test_the_default_channel_is_one_that_there_is(versions: tuple[str, ...], default: str) -> None:
    assert catalog.package(versions)["defaultChannel"] == default
    assert channel(default, *versions)


def test_each_minor_has_a_channel_whose_entries_are_those_of_stable() -> None:
    versions = ("0.1.0", "0.1.1", "0.2.0", "0.2.1-rc.1", "0.2.1", "1.0.0")
    stable = channel("stable", *versions)

    assert [found["name"] for found in catalog.channels(versions)] == [
        *("candidate", "stable", "stable-v0.1", "stable-v0.2", "stable-v1.0")
    ]
    minors = [channel(f"stable-v{minor}", *versions) for minor in ("0.1", "0.2", "1.0")]
    assert [entry for entries in minors for entry in entries] == stable


def test_a_fix_of_an_older_minor_heads_its_channel_and_leaves_the_newest_at_the_head() -> None:
    versions = ("0.1.0", "0.2.0", "0.1.1")

    assert channel("stable-v0.1", *versions)[-1] == {
        "name": "widget-operator.v0.1.1",
        "replaces": "widget-operator.v0.1.0",
        "skipRange": ">=0.1.0 <0.1.1",
    }
    # Whoever has the fix gets the newest from `stable`, and from the channel of its minor.
    newest = {
        "name": "widget-operator.v0.2.0",
        "replaces": "widget-operator.v0.1.1",
        "skipRange": ">=0.1.0 <0.2.0",
    }
    assert channel("stable", *versions)[-1] == newest
    assert channel("stable-v0.2", *versions) == [newest]


# The example of https://semver.org/#spec-item-11.
SORTED = (
    *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"),
    *("1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1"),
)


@given(st.permutations(SORTED))
def test_versions_are_in_the_order_of_semver(versions: list[str]) -> None:
    assert tuple(sorted(versions, key=catalog.order)) == SORTED


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3+build", "01.2.3", "1.2.3-", "latest"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(KitError, match=r"is not a version; use for example 1\.2\.3 or"):
        catalog.order(version)


def test_a_number_that_is_too_large_is_refused() -> None:
    assert catalog.order("999999999.0.0") > catalog.order("1.0.0")
    with pytest.raises(KitError, match=r"^'1\.9{10}\.0' has a number of more than 9 digits"):
        catalog.order(f"1.{'9' * 10}.0")


def test_a_bundle_in_it_is_what_opm_makes_of_the_bundle(tmp_path: Path) -> None:
    made = release("0.1.0")
    (rendered,) = opm_render(write(bundle.bundle(made), tmp_path / "bundle"))
    # What is rendered from a folder has no image yet, and opm migrates only what has.
    rendered["image"] = made.bundle_image
    folder = write({"bundle.json": json.dumps(rendered)}, tmp_path / "rendered")
    (theirs,) = opm_render(folder, "--migrate-level=bundle-object-to-csv-metadata")

    ours = catalog.entry(made)
    assert ours["relatedImages"][-1] == {"name": "", "image": made.bundle_image}
    del ours["relatedImages"][-1]  # the bundle's own, which opm adds when it has pulled it
    for blob in (ours, theirs):
        blob["relatedImages"].sort(key=lambda image: image["name"])
    assert ours == theirs


def test_p14_a_release_can_be_deprecated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = write_both(tmp_path, "0.1.0", "0.2.0")
    written = tmp_path / "deprecations.yaml"
    monkeypatch.setattr(catalog, "CATALOG", folder)
    monkeypatch.setattr(catalog, "DEPRECATIONS", written)
    bad = {"schema": "olm.bundle", "name": "widget-operator.v0.1.0"}
    told = {"reference": bad, "message": "It loses Widgets: upgrade to 0.2.0."}
    blob = {"schema": "olm.deprecations", "package": "widget-operator", "entries": [told]}
    written.write_text(yaml.safe_dump(blob))

    pushed = write(artifacts.catalog_with(release("0.3.0")), tmp_path / "pushed")

    assert opm("validate", pushed) == ""
    assert blob in opm_render(pushed)
    # catalog.Dockerfile fills the cache of which a catalog's Pod answers OLM.
    cache = tmp_path / "cache"
    opm("serve", pushed, "--cache-only", f"--cache-dir={cache}", "--pprof-addr=localhost:0")
    served = b"".join(file.read_bytes() for file in cache.rglob("*") if file.is_file())
    assert b"It loses Widgets: upgrade to 0.2.0." in served
    # What it names has to be there.
    bad["name"] = "widget-operator.v9.9.9"
    written.write_text(yaml.safe_dump(blob))
    wrong = write(artifacts.catalog_with(release("0.3.0")), tmp_path / "wrong")
    assert "widget-operator.v9.9.9" in opm("validate", wrong)


def test_releases_stay_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = write_both(tmp_path, "0.0.1", "0.0.2")
    monkeypatch.setattr(catalog, "CATALOG", folder)

    files = catalog.files()

    assert folder / "bundles" / "v0.0.2.yaml" not in files
    assert folder / "bundles" / f"v{VERSION}.yaml" in files
    assert f"skipRange: '>=0.0.1 <{VERSION}'" in files[folder / "channels.yaml"]


def test_a_file_that_is_called_otherwise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = write_both(tmp_path, "0.0.1")
    (folder / "bundles" / "v0.0.1.yaml").rename(folder / "bundles" / "vlatest.yaml")
    monkeypatch.setattr(catalog, "CATALOG", folder)

    with pytest.raises(KitError, match=r"^catalog/bundles/vlatest\.yaml: 'latest' is not a"):
        catalog.files()


def test_its_image_is_filled_when_it_is_built() -> None:
    text = catalog.DOCKERFILE.read_text()

    assert '"--cache-only"' in text
    assert "LABEL operators.operatorframework.io.index.configs.v1=/configs" in text
