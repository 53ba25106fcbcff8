"""No rule is broken, and who breaks one is told by one sentence, with the file and the field."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bundle.package import copy_both, edit, write_both
from chart.helm import VERSION
from kopf_kit.cli import generate
from kopf_kit.olm import bundle, catalog
from kopf_kit.olm.bundle import BUNDLE
from kopf_kit.olm.catalog import CATALOG
from kopf_kit.olm.rules import RULES, Package, problems
from kopf_kit.project import documents

CSV = "bundle/manifests/widget-operator.clusterserviceversion.yaml"
WRITTEN = documents.load((bundle.WRITTEN / "csv.yaml").read_text())
#: The day of this version.
DAY = WRITTEN["metadata"]["annotations"]["createdAt"]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds(rule: str) -> None:
    assert list(RULES[rule](Package(BUNDLE, CATALOG))) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds_for_a_release_after_others(rule: str, tmp_path: Path) -> None:
    bundle, catalog = write_both(tmp_path, "0.1.0", "0.2.0-rc.1", "0.2.0")

    assert list(RULES[rule](Package(bundle, catalog, released=True))) == []


@pytest.mark.parametrize("last", ["0.1.1", "0.2.0"])
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds_where_a_fix_of_an_older_minor_comes_later(
    rule: str, last: str, tmp_path: Path
) -> None:
    versions = {"0.1.0", "0.1.1", "0.2.0"} - {last}
    bundle, catalog = write_both(tmp_path, *sorted(versions), last)
    edit(
        catalog / "bundles" / "v0.1.1.yaml",
        lambda blob: blob["properties"][2]["value"]["annotations"].update(
            createdAt="2999-01-01T00:00:00Z"
        ),
    )

    assert list(RULES[rule](Package(bundle, catalog, released=True))) == []


# --- Mistakes -----------------------------------------------------------------------------------

Change = Callable[[Any], object]


def annotations(csv: Any) -> Any:
    return csv["metadata"]["annotations"]


def rules_of(csv: Any) -> Any:
    return csv["spec"]["install"]["spec"]["permissions"][0]["rules"]


#: The rule, the file that is changed, how, and the sentence.
MISTAKES: list[tuple[str, str, Change, str]] = [
    (
        "csv_annotations",
        CSV,
        lambda csv: annotations(csv).pop("support"),
        f"{CSV}: metadata.annotations.support: is missing",
    ),
    (
        "csv_annotations",
        CSV,
        lambda csv: (
            annotations(csv).update({"features.operators.openshift.io/cnf": "no"})
            or annotations(csv).update({"features.operators.openshift.io/tls-profiles": "no"})
        ),
        f"{CSV}: metadata.annotations['features.operators.openshift.io/tls-profiles']: 'no' does "
        "not match true|false",
    ),
    (
        "csv_annotations",
        CSV,
        lambda csv: annotations(csv).update(createdAt="today"),
        rf"{CSV}: metadata.annotations.createdAt: 'today' does not match "
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    ),
    (
        "permissions",
        CSV,
        lambda csv: rules_of(csv)[0].update(verbs=["*"]),
        f"{CSV}: spec.install.spec.permissions[0].rules[0]: has a *; name each",
    ),
    (
        "releases_name_images_by_digest",
        "catalog/bundles/v0.1.0.yaml",
        lambda blob: blob["relatedImages"][1].update(image="docker.io/library/busybox:1.37"),
        "catalog/bundles/v0.1.0.yaml: relatedImages[1].image: docker.io/library/busybox:1.37 of "
        "the release widget-operator.v0.1.0 has no digest (@sha256:…)",
    ),
    (
        "this_version_is_the_newest_of_its_minor",
        "catalog/bundles/v0.3.0-rc.1.yaml",
        lambda blob: blob["properties"][2]["value"]["annotations"].update(
            createdAt="2999-01-01T00:00:00Z"
        ),
        f"{CSV}: metadata.annotations.createdAt: {DAY} is before the day of "
        "widget-operator.v0.3.0-rc.1; olm/csv.yaml says it",
    ),
]


@pytest.mark.parametrize(
    ("rule", "file", "change", "sentence"), MISTAKES, ids=[f"{m[0]}-{m[3]}" for m in MISTAKES]
)
def test_a_mistake_is_told_by_one_sentence(
    rule: str, file: str, change: Change, sentence: str, tmp_path: Path
) -> None:
    both = write_both(tmp_path, "0.1.0", "0.2.0", "0.3.0-rc.1", "0.3.0")
    edit(tmp_path / file, change)

    found = problems(*both)

    assert found in ([f"{sentence} ({rule})"], [sentence])


def test_every_rule_is_broken_by_a_test() -> None:
    assert {mistake[0] for mistake in MISTAKES} | {"related_images"} == set(RULES)


def test_an_image_without_digest_is_told_in_a_release(tmp_path: Path) -> None:
    bundle, catalog = copy_both(tmp_path)

    assert problems(bundle, catalog, released=True) == [
        f"{CSV}: spec.relatedImages[{i}].image: {image} has no digest; a release names its images "
        "by @sha256:… (related_images)"
        for i, image in enumerate(
            [f"ghcr.io/example/widget-operator:{VERSION}", "docker.io/library/busybox:1.37"]
        )
    ]


def test_a_missing_csv_is_told(tmp_path: Path) -> None:
    bundle, catalog = copy_both(tmp_path)
    (tmp_path / CSV).unlink()

    assert problems(bundle, catalog) == [
        "bundle/manifests: kind: there is no ClusterServiceVersion"
    ]


def test_make_verify_stops_with_the_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, catalog_folder = copy_both(tmp_path)
    monkeypatch.setattr(bundle, "BUNDLE", folder)
    monkeypatch.setattr(catalog, "CATALOG", catalog_folder)
    edit(tmp_path / CSV, lambda csv: csv["metadata"]["annotations"].pop("repository"))

    assert next(generate.problems()) == (
        f"{CSV}: metadata.annotations.repository: is missing (csv_annotations)"
    )
