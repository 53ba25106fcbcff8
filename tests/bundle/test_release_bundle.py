"""What is handed in to community-operators keeps to the rules of its pipeline."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kopf_kit.commands import release_bundle
from kopf_kit.pack import bundle, catalog, references
from kopf_kit.pack.bundle import Release
from kopf_kit.pack.release_folder import lay_out
from kopf_kit.pack.rules import submission
from kopf_kit.rig import engine
from kopf_kit.rig.run import HackError
from message_operator import __version__
from tests.bundle.package import DIGEST, copy_both, edit, opm, release, write_both


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a catalog in the place of the one in git, before the release of this version."""
    _, folder = copy_both(tmp_path / "checkout")
    (folder / catalog.file(__version__)).unlink()
    monkeypatch.setattr(catalog, "CATALOG", folder)
    return folder


@pytest.fixture
def command(git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return `make release ARGS=bundle`, which lays out in a scratch folder."""
    monkeypatch.setattr(release_bundle, "FOLDER", tmp_path / "release")
    monkeypatch.setattr("kopf_kit.rig.paths.CHECKOUT", tmp_path)

    def run(version: str, **images: str) -> Path:
        for variable in ("IMG", "MESSAGE_IMG", "BUNDLE_IMG", "REGISTRY"):
            monkeypatch.setenv(variable, images.get(variable, ""))
        release_bundle.lay_out_release(version)
        return tmp_path / "release" / "operators" / "message-operator"

    return run


IMAGES = {
    "IMG": f"registry.example.com/message-operator@{DIGEST}",
    "MESSAGE_IMG": f"registry.example.com/busybox@{DIGEST}",
}


def test_the_folder_is_as_community_operators_has_it(command: Callable[..., Path]) -> None:
    operator = command(__version__, **IMAGES)

    assert sorted(str(x.relative_to(operator)) for x in operator.rglob("*") if x.is_file()) == [
        f"{__version__}/manifests/message-operator.clusterserviceversion.yaml",
        f"{__version__}/manifests/myorg.dev_messages.yaml",
        f"{__version__}/metadata/annotations.yaml",
        f"{__version__}/release-config.yaml",
        f"{__version__}/tests/scorecard/config.yaml",
        "catalog-templates/basic.yaml",
        "ci.yaml",
    ]


def test_opm_takes_its_catalog_template(command: Callable[..., Path], git: Path) -> None:
    for former in (git / "bundles").iterdir():
        former.unlink()  # opm would pull it

    operator = command(__version__, **IMAGES)

    template = operator / "catalog-templates" / "basic.yaml"
    rendered = opm("alpha", "render-template", template, "--output", "yaml")

    assert yaml.safe_load(rendered)["schema"] == "olm.package"


def test_its_images_are_those_that_are_given(command: Callable[..., Path]) -> None:
    operator = command(__version__, **IMAGES)

    (csv,) = (operator / __version__ / "manifests").glob("*.clusterserviceversion.yaml")
    related = yaml.safe_load(csv.read_text())["spec"]["relatedImages"]
    assert [image["image"] for image in related] == list(IMAGES.values())


def test_the_bundle_s_image_is_built_of_it(command: Callable[..., Path]) -> None:
    operator = command(__version__, **IMAGES)

    folder = operator.parents[1]
    copied = [
        line.split()[1]
        for line in (folder / "bundle.Dockerfile").read_text().splitlines()
        if line.startswith("COPY")
    ]
    assert [(folder / path).is_dir() for path in copied] == [True, True, True]


def test_a_release_is_recorded_in_the_catalog_and_stays(
    command: Callable[..., Path], git: Path
) -> None:
    pushed = {"BUNDLE_IMG": f"registry.example.com/message-operator-bundle@{DIGEST}"}

    command(__version__, **IMAGES, **pushed)

    recorded = yaml.safe_load((git / catalog.file(__version__)).read_text())
    assert recorded["image"] == pushed["BUNDLE_IMG"]
    assert git / catalog.file(__version__) not in catalog.files()
    command(__version__, **IMAGES, **pushed)
    with pytest.raises(HackError, match="is recorded already, as a different release"):
        command(__version__, **{**IMAGES, "IMG": f"elsewhere@{DIGEST}"}, **pushed)


def test_what_was_pushed_to_a_registry_is_recorded_by_the_digests_that_it_has_there(
    command: Callable[..., Path], git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(ref: str, _: str) -> str:
        return f"{ref.rpartition(':')[0]}@{DIGEST}"

    monkeypatch.setattr(references, "looked_up", looked_up)
    monkeypatch.setattr(engine, "up", lambda: None)
    yours = "registry.example.com/you"

    command(__version__, REGISTRY=yours)

    recorded = yaml.safe_load((git / catalog.file(__version__)).read_text())
    assert [image["image"] for image in recorded["relatedImages"]] == [
        f"{yours}/{name}@{DIGEST}"
        for name in ("message-operator", "busybox", "message-operator-bundle")
    ]
    assert catalog.channels([*catalog.known(), "98.0.0"])[0]["entries"][-1] == {
        "name": "message-operator.v98.0.0",
        "replaces": f"message-operator.v{__version__}",
        "skipRange": f">={min(catalog.known(), key=catalog.order)} <98.0.0",
    }


def test_the_next_release_replaces_those_before_it(
    git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = write_both(tmp_path, "0.1.0", "0.2.0")
    monkeypatch.setattr(catalog, "CATALOG", before)

    operator = lay_out(release("0.3.0"), tmp_path / "release")

    config = yaml.safe_load((operator / "0.3.0" / "release-config.yaml").read_text())
    assert config["catalog_templates"] == [
        {
            "template_name": "basic.yaml",
            "channels": [channel],
            "replaces": "message-operator.v0.2.0",
            "skipRange": ">=0.1.0 <0.3.0",
        }
        for channel in ("candidate", "stable", "stable-v0.3")
    ]
    template = yaml.safe_load((operator / "catalog-templates" / "basic.yaml").read_text())
    assert [entry["schema"] for entry in template["entries"]] == [
        *("olm.package", *4 * ["olm.channel"], *2 * ["olm.bundle"])
    ]


def test_a_fix_of_an_older_minor_goes_into_the_channel_of_its_minor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = write_both(tmp_path, "0.1.0", "0.2.0")
    monkeypatch.setattr(catalog, "CATALOG", before)

    operator = lay_out(release("0.1.1"), tmp_path / "release")

    config = yaml.safe_load((operator / "0.1.1" / "release-config.yaml").read_text())
    assert config["catalog_templates"] == [
        {
            "template_name": "basic.yaml",
            "channels": ["stable-v0.1"],
            "replaces": "message-operator.v0.1.0",
            "skipRange": ">=0.1.0 <0.1.1",
        }
    ]


@pytest.mark.parametrize(
    ("version", "images", "sentence"),
    [
        ("", IMAGES, f"there is no version; give the one that is checked out, {__version__}"),
        ("1.2", IMAGES, "'1.2' is no version such as 1.2.3 or 1.2.3-rc.1"),
        (
            "9.9.9",
            IMAGES,
            f"9.9.9 is to be released, but what is checked out is {__version__}: check it "
            "out, or raise the version (`kopf-kit bump 9.9.9`)",
        ),
        (__version__, {}, "IMG is missing: say IMG=registry/name@sha256:…"),
        (
            __version__,
            {**IMAGES, "MESSAGE_IMG": "busybox:1.37"},
            "MESSAGE_IMG=busybox:1.37 has no digest: a release names its images by what they hold; "
            "say MESSAGE_IMG=registry/name@sha256:…, as `docker push` prints it",
        ),
    ],
    ids=["no-version", "half-a-version", "another-version", "no-image", "no-digest"],
)
def test_what_is_wrong_on_the_command_line_is_said(
    version: str, images: dict[str, str], sentence: str, command: Callable[..., Path]
) -> None:
    with pytest.raises(HackError) as error:
        command(version, **images)

    assert str(error.value) == sentence


def test_a_release_that_breaks_a_rule_is_not_handed_in(
    command: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bundle.csv

    def without_support(release: Release) -> dict[str, Any]:
        csv = whole(release)
        del csv["metadata"]["annotations"]["support"]
        return csv

    monkeypatch.setattr(bundle, "csv", without_support)

    with pytest.raises(HackError) as error:
        command(__version__, **IMAGES)

    assert str(error.value).splitlines() == [
        "the bundle cannot be released:",
        f"{__version__}/manifests/message-operator.clusterserviceversion.yaml: "
        "metadata.annotations.support: is missing (csv_annotations)",
    ]


def test_what_the_validators_find_is_told_as_well(
    command: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bundle.csv

    def in_its_own_category(release: Release) -> dict[str, Any]:
        csv = whole(release)
        csv["metadata"]["annotations"]["categories"] = "Messages"
        return csv

    monkeypatch.setattr(bundle, "csv", in_its_own_category)

    with pytest.raises(HackError, match='"Messages" is not in the set of standard categories'):
        command(__version__, **IMAGES)


CI = "ci.yaml"
CONFIG = f"{__version__}/release-config.yaml"
CSV = f"{__version__}/manifests/message-operator.clusterserviceversion.yaml"


@pytest.mark.parametrize(
    ("rule", "file", "change", "sentence"),
    [
        (
            "check_operator_version_directory_name", CSV,
            lambda csv: csv["spec"].update(version="9.9.9"),
            f"spec.version: 9.9.9 is in the folder {__version__}",
        ),
        (
            "check_schema_operator_ci_config", CI,
            lambda ci: ci["fbc"]["catalog_mapping"][0].update(type="olm.template.other"),
            "fbc.catalog_mapping[0].type: olm.template.other is no template's",
        ),
        (
            "check_catalog_usage_ci_config", CI,
            lambda ci: ci["fbc"]["catalog_mapping"].append(dict(ci["fbc"]["catalog_mapping"][0])),
            "fbc.catalog_mapping[1].catalog_names: latest is made of another template already",
        ),
        (
            "check_ci_upgrade_graph", CI, lambda ci: ci.update(updateGraph="any"),
            "updateGraph: any is neither replaces-mode nor semver-mode",
        ),
        (
            "check_schema_bundle_release_config", CONFIG,
            lambda config: config["catalog_templates"][0].update(template_name="semver.yaml"),
            "catalog_templates[0].template_name: semver.yaml is not in ci.yaml",
        ),
    ],
    ids=lambda value: value if str(value).startswith("check_") else "",
)  # fmt: skip
def test_a_mistake_in_what_is_handed_in_is_told(
    rule: str, file: str, change: Callable[[Any], object], sentence: str, git: Path, tmp_path: Path
) -> None:
    operator = lay_out(release(__version__), tmp_path / "release")
    assert list(submission.problems(operator)) == []

    edit(operator / file, change)

    assert list(submission.problems(operator)) == [
        f"operators/message-operator/{file}: {sentence} ({rule})"
    ]
