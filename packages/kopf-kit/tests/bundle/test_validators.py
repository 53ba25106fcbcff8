"""OLM's own programs find nothing in the bundle and the catalog: no error, no warning."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from bundle.package import (
    CHROOT,
    SCORECARD,
    edit,
    opm,
    run,
    scorecard,
    scorecard_root,
    write,
    write_both,
)
from kopf_kit.olm import bundle
from kopf_kit.olm.bundle import BUNDLE, findings
from kopf_kit.olm.catalog import CATALOG

NAME = bundle.NAME
CSV = f"manifests/{NAME}.clusterserviceversion.yaml"
DEFINES = {
    "serviceAccountName": NAME,
    "rules": [
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["create"],
        }
    ],
}


def test_the_validators_find_nothing() -> None:
    assert findings(BUNDLE) == []


def test_the_validators_find_nothing_in_a_release(tmp_path: Path) -> None:
    bundle, _ = write_both(tmp_path, "0.1.0", "0.2.0-rc.1")

    assert findings(bundle) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda csv: csv["spec"].pop("minKubeVersion"), "minKubeVersion is not informed"),
        (lambda csv: csv["spec"].pop("icon"), "csv.Spec.Icon not specified"),
        (lambda csv: csv["metadata"]["annotations"].update(capabilities="Best"), "Best"),
        (lambda csv: csv["metadata"]["annotations"].update(categories="Magic"), "Magic"),
        (lambda csv: csv["metadata"].update(name="widget-operator-1"), "naming convention"),
        (lambda csv: csv["spec"].pop("provider"), "Provider.Name not specified"),
        (lambda csv: csv["spec"]["maintainers"][0].pop("email"), "contain both name and email"),
        (lambda csv: csv["spec"]["links"][0].pop("url"), "contain both name and url"),
        (lambda csv: csv["spec"]["icon"].append(csv["spec"]["icon"][0]), "have one element"),
        (lambda csv: csv["spec"]["icon"][0].update(mediatype="image/x"), "a valid mediatype"),
        (lambda csv: csv["spec"].update(minKubeVersion="1.35"), "MinKubeVersion has an invalid"),
        (
            lambda csv: csv["spec"]["install"]["spec"].update(clusterPermissions=[DEFINES]),
            "permissions to create CRD",
        ),
    ],
)
def test_they_would_find_a_mistake(change, found: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    edit(bundle / CSV, change)

    assert found in "\n".join(findings(bundle))


@pytest.mark.parametrize(
    ("file", "found"),
    [("more/account.yaml", "contains directory"), ("account.yaml", "invalid service account")],
)
def test_they_would_find_a_file_that_must_not_be_there(
    file: str, found: str, tmp_path: Path
) -> None:
    made = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}}
    write({f"manifests/{file}": yaml.safe_dump(account)}, made)

    assert found in "\n".join(findings(made))


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


def stable(channels: list[dict[str, Any]]) -> Any:
    """Return the entries of `stable`: 0.1.0, 0.2.0."""
    return next(channel["entries"] for channel in channels if channel["name"] == "stable")


@pytest.mark.parametrize(
    ("file", "change", "found"),
    [
        ("package.yaml", lambda blob: blob.update(defaultChannel="fast"), 'channel \\"fast\\"'),
        ("package.yaml", lambda blob: blob.update(name="other"), "unknown package"),
        ("bundles/v0.2.0.yaml", lambda blob: blob.update(package="other"), "unknown package"),
        (
            "bundles/v0.1.0.yaml",
            lambda blob: blob.update(name=f"{NAME}.v0.0.1"),
            "not found in any channel",
        ),
        ("channels.yaml", lambda found: stable(found).clear(), "at least one bundle"),
        (
            "channels.yaml",
            lambda found: stable(found)[1].update(replaces=None),
            "multiple channel heads",
        ),
        (
            "channels.yaml",
            lambda found: stable(found)[0].update(replaces=f"{NAME}.v0.2.0"),
            "no channel head",
        ),
        (
            "channels.yaml",
            lambda found: stable(found)[0].update(skipRange="odd"),
            "invalid skipRange",
        ),
    ],
)
def test_opm_would_find_a_mistake(file: str, change, found: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    _, catalog = write_both(tmp_path, "0.1.0", "0.2.0")
    edit(catalog / file, change)

    assert found in opm("validate", catalog)


def test_opm_would_find_a_bundle_that_is_missing(tmp_path: Path) -> None:
    _, catalog = write_both(tmp_path, "0.1.0", "0.2.0")
    (catalog / "bundles" / "v0.1.0.yaml").unlink()

    assert f"{NAME}.v0.1.0" in opm("validate", catalog)


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
