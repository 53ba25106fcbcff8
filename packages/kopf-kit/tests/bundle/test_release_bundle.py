"""What is handed in to the two hubs of operators keeps to the rules of their pipelines."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bundle.package import DIGEST, copy_both, release, write_both
from chart.helm import VERSION
from kopf_kit.cli import release as cli_release
from kopf_kit.image import build
from kopf_kit.olm import bundle, catalog, service_version
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import Release
from kopf_kit.release.submission import HUBS, lay_out
from kopf_kit.rig import engine, paths, versions
from kopf_kit.rig.run import KitError


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a folder of the repository, as what the commands name is in it."""
    with tempfile.TemporaryDirectory(dir=paths.BUILD) as name:
        yield Path(name)


@pytest.fixture
def git(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a catalog in the place of the one in git, before the release of this version."""
    _, folder = copy_both(scratch / "checkout")
    (folder / catalog.file(VERSION)).unlink()
    monkeypatch.setattr(catalog, "CATALOG", folder)
    # As in a repository whose generated files are in git.
    monkeypatch.setattr(catalog, "PROJECT", structs.replace(PROJECT, generated="."))
    return folder


@pytest.fixture
def command(git: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return `make release ARGS=bundle`, which lays out in a scratch folder."""
    monkeypatch.setattr(cli_release, "FOLDER", scratch / "release")

    def run(version: str, **images: str) -> Path:
        for variable in ("IMG", "WIDGET_IMG", "BUNDLE_IMG", "REGISTRY"):
            monkeypatch.setenv(variable, images.get(variable, ""))
        cli_release.lay_out_release(version)
        return scratch / "release"

    return run


IMAGES = {
    "IMG": f"registry.example.com/widget-operator@{DIGEST}",
    "WIDGET_IMG": f"registry.example.com/busybox@{DIGEST}",
}


#: The operator's folder in the repository of each hub.
PLAIN, PROD = (f"{hub}/operators/widget-operator" for hub in HUBS)


def test_p2_each_hub_gets_what_it_takes(command: Callable[..., Path]) -> None:
    folder = command(VERSION, **IMAGES)

    common = [
        f"{VERSION}/manifests/widget-operator.clusterserviceversion.yaml",
        f"{VERSION}/manifests/acme.example.com_widgets.yaml",
        f"{VERSION}/metadata/annotations.yaml",
        f"{VERSION}/tests/scorecard/config.yaml",
        "ci.yaml",
    ]
    for hub, expected in (
        (PLAIN, common),
        # The pipeline itself creates catalog-templates/ with the first bundle.
        (PROD, [*common, f"{VERSION}/release-config.yaml"]),
    ):
        found = (x.relative_to(folder / hub) for x in (folder / hub).rglob("*") if x.is_file())
        assert sorted(map(str, found)) == sorted(expected)


def test_p15_pull_requests_of_the_reviewers_are_merged_by_the_pipelines(
    command: Callable[..., Path],
) -> None:
    folder = command(VERSION, **IMAGES)

    plain, prod = (documents.load((folder / hub / "ci.yaml").read_text()) for hub in (PLAIN, PROD))
    assert plain == {"updateGraph": "replaces-mode", "reviewers": ["example"]}
    (mapping,) = prod.pop("fbc")["catalog_mapping"]
    assert prod == {"reviewers": ["example"]}
    # One catalog for each OpenShift that has the oldest Kubernetes or a newer one.
    oldest = int(versions.OLDEST.split(".")[1]) - 13
    assert mapping["catalog_names"][0] == f"v4.{oldest}"


def test_its_images_are_those_that_are_given(command: Callable[..., Path]) -> None:
    folder = command(VERSION, **IMAGES)

    for hub in (PLAIN, PROD):
        (csv,) = (folder / hub).glob("*/manifests/*.clusterserviceversion.yaml")
        related = documents.load(csv.read_text())["spec"]["relatedImages"]
        assert [image["image"] for image in related] == list(IMAGES.values())


def test_the_bundle_s_image_is_built_of_it(command: Callable[..., Path]) -> None:
    folder = command(VERSION, **IMAGES)

    copied = [
        line.split()[1]
        for line in (folder / "bundle.Dockerfile").read_text().splitlines()
        if line.startswith("COPY")
    ]
    assert [(folder / path).is_dir() for path in copied] == [True, True, True]


def test_a_release_is_recorded_in_the_catalog_and_stays(
    command: Callable[..., Path], git: Path
) -> None:
    pushed = {"BUNDLE_IMG": f"registry.example.com/widget-operator-bundle@{DIGEST}"}

    command(VERSION, **IMAGES, **pushed)

    recorded = documents.load((git / catalog.file(VERSION)).read_text())
    assert recorded["image"] == pushed["BUNDLE_IMG"]
    assert git / catalog.file(VERSION) not in catalog.files()
    command(VERSION, **IMAGES, **pushed)
    with pytest.raises(KitError, match="is recorded already, as a different release"):
        command(VERSION, **{**IMAGES, "IMG": f"elsewhere@{DIGEST}"}, **pushed)


def test_what_was_pushed_to_a_registry_is_recorded_by_the_digests_that_it_has_there(
    command: Callable[..., Path], git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(ref: str, _: str) -> str:
        return f"{ref.rpartition(':')[0]}@{DIGEST}"

    monkeypatch.setattr(build, "looked_up", looked_up)
    monkeypatch.setattr(engine, "up", lambda: None)
    yours = "registry.example.com/you"

    command(VERSION, REGISTRY=yours)

    recorded = documents.load((git / catalog.file(VERSION)).read_text())
    assert [image["image"] for image in recorded["relatedImages"]] == [
        f"{yours}/{name}@{DIGEST}"
        for name in ("widget-operator", "busybox", "widget-operator-bundle")
    ]
    assert catalog.channels([*catalog.known(), "98.0.0"])[0]["entries"][-1] == {
        "name": "widget-operator.v98.0.0",
        "replaces": f"widget-operator.v{VERSION}",
        "skipRange": f">={min(catalog.known(), key=catalog.order)} <98.0.0",
    }


def graph(folders: list[Path], channel: str) -> dict[str, set[str]]:
    """Return the releases of a channel of bundles, and what each replaces or skips.

    https://olm.operatorframework.io/docs/concepts/olm-architecture/operator-catalog/creating-an-update-graph/
    """
    found = {}
    for folder in folders:
        (file,) = folder.glob("manifests/*.clusterserviceversion.yaml")
        csv = documents.load(file.read_text())
        notes = documents.load((folder / "metadata" / "annotations.yaml").read_text())
        key = "operators.operatorframework.io.bundle.channels.v1"
        if channel in notes["annotations"][key].split(","):
            spec = csv["spec"]
            before = {spec["replaces"]} if "replaces" in spec else set()
            found[csv["metadata"]["name"]] = before | {*spec.get("skips", [])}
    return found


def test_p2_releases_in_a_row_are_an_upgrade_path_where_there_are_bundles_alone(
    git: Path, tmp_path: Path
) -> None:
    folders = []
    for file in (git / "bundles").iterdir():
        file.unlink()
    for version in ("1.0.0", "1.1.0-rc.1", "1.1.0", "1.0.1", "1.2.0"):
        given = release(version)
        plain, _ = lay_out(given, tmp_path / version)
        folders.append(plain / version)
        (git / catalog.file(version)).write_text(catalog.with_release(given)[catalog.file(version)])

    name = "widget-operator.v"
    stable, candidate = (graph(folders, channel) for channel in ("stable", "candidate"))
    assert stable == {
        f"{name}1.0.0": set(),
        f"{name}1.1.0": {f"{name}1.0.0", f"{name}1.1.0-rc.1"},
        f"{name}1.2.0": {f"{name}1.1.0"},
    }
    assert candidate == stable | {f"{name}1.1.0-rc.1": {f"{name}1.0.0"}}
    assert graph(folders, "stable-v1.0") == {
        f"{name}1.0.0": set(),
        f"{name}1.0.1": {f"{name}1.0.0"},
    }
    for found in (stable, candidate):  # the pipelines refuse a channel with two heads
        assert found.keys() - set().union(*found.values()) == {f"{name}1.2.0"}
    csv = next(folders[-1].glob("manifests/*.clusterserviceversion.yaml")).read_text()
    assert documents.load(csv)["metadata"]["annotations"]["olm.skipRange"] == ">=1.0.0 <1.2.0"


@pytest.mark.parametrize(
    ("version", "replaced", "channels"),
    [
        ("0.3.0", "0.2.0", ("candidate", "stable", "stable-v0.3")),
        ("0.1.1", "0.1.0", ("stable-v0.1",)),  # a fix of an older minor: in its channel alone
    ],
)
@pytest.mark.usefixtures("git")
def test_the_next_release_replaces_those_before_it(
    version: str,
    replaced: str,
    channels: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, before = write_both(tmp_path, "0.1.0", "0.2.0")
    monkeypatch.setattr(catalog, "CATALOG", before)

    _, prod = lay_out(release(version), tmp_path / "release")

    config = documents.load((prod / version / "release-config.yaml").read_text())
    assert config["catalog_templates"] == [
        {
            "template_name": "basic.yaml",
            "channels": [channel],
            "defaultChannel": "stable",
            "replaces": f"widget-operator.v{replaced}",
            "skipRange": f">=0.1.0 <{version}",
        }
        for channel in channels
    ]


@pytest.mark.parametrize(
    ("version", "images", "sentence"),
    [
        ("", IMAGES, f"the version is missing; give the one that is checked out, {VERSION}"),
        ("1.2", IMAGES, "'1.2' is not a version; use for example 1.2.3 or 1.2.3-rc.1"),
        (
            "9.9.9",
            IMAGES,
            f"9.9.9 is to be released, but what is checked out is {VERSION}: check it "
            "out, or raise the version (`kopf-kit bump 9.9.9`)",
        ),
        (VERSION, {}, "IMG is missing; set IMG=registry/name@sha256:…"),
        (
            VERSION,
            {**IMAGES, "WIDGET_IMG": "busybox:1.37"},
            "WIDGET_IMG=busybox:1.37 has no digest; set WIDGET_IMG=registry/name@sha256:…, as "
            "`docker push` prints it",
        ),
    ],
    ids=["no-version", "half-a-version", "another-version", "no-image", "no-digest"],
)
def test_what_is_wrong_on_the_command_line_is_said(
    version: str, images: dict[str, str], sentence: str, command: Callable[..., Path]
) -> None:
    with pytest.raises(KitError) as error:
        command(version, **images)

    assert str(error.value) == sentence


def test_what_the_validators_find_is_told_as_well(
    command: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = service_version.csv

    def in_its_own_category(release: Release) -> dict[str, Any]:
        csv = whole(release)
        csv["metadata"]["annotations"]["categories"] = "Widgets"
        return csv

    monkeypatch.setattr(bundle, "csv", in_its_own_category)

    with pytest.raises(KitError, match='"Widgets" is not in the set of standard categories'):
        command(VERSION, **IMAGES)
