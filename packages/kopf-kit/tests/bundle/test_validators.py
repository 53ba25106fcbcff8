"""OLM's own programs find nothing in the bundle and the catalog: no error, no warning."""

import shutil
from pathlib import Path

import pytest

from bundle.package import CHROOT, SCORECARD, edit, opm, run, scorecard, scorecard_root, write_both
from kopf_kit.olm.bundle import BUNDLE, findings
from kopf_kit.olm.catalog import CATALOG
from kopf_kit.project import releases

NAME = releases.NAME
CSV = f"manifests/{NAME}.clusterserviceversion.yaml"


def test_the_validators_find_nothing() -> None:
    assert findings(BUNDLE) == []


def test_the_validators_find_nothing_in_a_release(tmp_path: Path) -> None:
    bundle, _ = write_both(tmp_path, "0.1.0", "0.2.0-rc.1")

    assert findings(bundle) == []


def test_they_would_find_a_mistake(tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    edit(bundle / CSV, lambda csv: csv["spec"].pop("provider"))

    assert "Provider.Name not specified" in "\n".join(findings(bundle))


def test_opm_finds_nothing_in_the_catalog() -> None:
    assert opm("validate", CATALOG) == ""


def test_opm_finds_nothing_in_a_catalog_of_many_releases(tmp_path: Path) -> None:
    versions = ("0.1.0", "0.2.0-rc.1", "0.2.0", "0.10.0", "1.0.0-rc.1", "1.0.0-rc.2", "1.0.0")
    _, catalog = write_both(tmp_path, *versions)

    assert opm("validate", catalog) == ""


def test_opm_finds_each_channel_s_head_where_a_fix_of_an_older_minor_came_later(
    tmp_path: Path,
) -> None:
    _, catalog = write_both(tmp_path, "0.1.0", "0.2.0", "0.1.1")

    assert opm("validate", catalog) == ""
    rows = [line.split() for line in opm("alpha", "list", "channels", catalog).splitlines()]
    assert {channel: head.partition(".v")[2] for _, channel, head in rows[1:]} == {
        "candidate": "0.2.0",
        "stable": "0.2.0",
        "stable-v0.1": "0.1.1",
        "stable-v0.2": "0.2.0",
    }


def test_opm_would_find_a_mistake(tmp_path: Path) -> None:
    _, catalog = write_both(tmp_path, "0.1.0", "0.2.0")
    edit(catalog / "package.yaml", lambda blob: blob.update(defaultChannel="fast"))

    assert 'channel \\"fast\\"' in opm("validate", catalog)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = scorecard_root(BUNDLE, tmp_path_factory.mktemp("root"))
    tried = run(*CHROOT, found, "/scorecard-test", "none")
    if tried.returncode and CHROOT[0] == "unshare":
        pytest.skip(f"the scorecard needs root or user namespaces: {tried.stderr.strip()}")
    return found


@pytest.mark.parametrize("test", SCORECARD)
def test_the_scorecard_passes(test: str, root: Path) -> None:
    result = scorecard(root, test)

    assert (result["name"], result["state"]) == (test, "pass")
    assert not result.get("errors")
    assert not result.get("suggestions")
