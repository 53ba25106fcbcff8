"""`make chart-diff` names what an upgrade changes, and no upgrade changes what cannot be."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hack.pack import chart_diff, history
from hack.rig.run import HackError
from message_operator import __version__
from tests.chart.helm import CHART


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A copy of the chart, to be changed."""
    return Path(shutil.copytree(CHART, tmp_path / "newer"))


def replace(file: Path, old: str, new: str) -> None:
    """Replace a text that is there."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def lines(old: Path, new: Path) -> list[str]:
    """Return the report with the scenario `defaults` alone."""
    for scenario in (new / "ci").glob("*-values.yaml"):
        if scenario.name != "defaults-values.yaml":
            scenario.unlink()
    return list(chart_diff.report(old, new, new / "ci"))


def test_nothing_changes_between_a_chart_and_itself(newer: Path) -> None:
    assert lines(CHART, newer) == ["defaults: no changes"]


def test_a_new_version_alone_is_no_change_but_to_the_image(newer: Path) -> None:
    replace(newer / "Chart.yaml", f"ersion: {__version__}", "ersion: 99.0.0")

    image = f"[operator].image: 'ghcr.io/myorg/message-operator:{__version__}' → 'ghcr.io/myorg/"
    report = lines(CHART, newer)

    assert report[0] == "defaults: 2 changes"
    assert len([line for line in report if image in line]) == 1
    assert report[-1] == "  ! the operator's Pods are replaced"


def test_a_changed_default_is_named_with_its_effect(newer: Path) -> None:
    replace(newer / "values.yaml", 'tag: "1.37"', 'tag: "1.38"')

    report = lines(CHART, newer)

    assert "  values.messagePod.image.tag: '1.37' → '1.38'" in report
    assert "  ! the operator's Pods are replaced" in report
    assert "  ! the message Pods are replaced" in report


def test_what_cannot_be_changed_is_called_a_failure(newer: Path) -> None:
    replace(newer / "templates" / "_metadata.tpl", "app.kubernetes.io/name: ", "name: ")

    assert any(
        line.startswith(
            "  ! the upgrade fails: Deployment/operators/demo-message-operator.spec.sel"
        )
        for line in lines(CHART, newer)
    )


def test_objects_that_come_and_go_are_named(newer: Path) -> None:
    (newer / "templates" / "crd.yaml").unlink()

    report = lines(CHART, newer)

    assert "- CustomResourceDefinition/messages.myorg.dev" in report
    assert any("with all its objects" in line for line in report)
    as_it_is = Path(shutil.copytree(CHART, newer.parent / "as-it-is"))
    assert "+ CustomResourceDefinition/messages.myorg.dev" in lines(newer, as_it_is)


@pytest.mark.parametrize("which", ["older", "newer"])
def test_values_that_one_of_the_charts_does_not_know_are_no_error(
    newer: Path, tmp_path: Path, which: str
) -> None:
    older = Path(shutil.copytree(CHART, tmp_path / "older"))
    (newer / "ci" / "defaults-values.yaml").write_text("brandNew: true\n")
    replace(
        newer / "values.schema.json",
        '"additionalProperties": false',
        '"additionalProperties": true',
    )

    charts = (older, newer) if which == "older" else (newer, older)
    scenarios = tmp_path / "scenarios"
    scenarios.mkdir()
    shutil.copy(newer / "ci" / "defaults-values.yaml", scenarios)

    (line,) = chart_diff.report(*charts, scenarios)

    assert line.startswith(f"defaults: refused by the {which} chart:")
    assert "'brandNew' not allowed" in line


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the chart in it, and no release."""
    folder = tmp_path / "repository"
    shutil.copytree(CHART, folder / "charts" / "message-operator")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "All")
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, timeout=300)


def test_the_last_release_is_the_last_tag(repository: Path, tmp_path: Path) -> None:
    assert history.last_release(repository) is None

    git(repository, "tag", "v0.1.0")
    (repository / "charts" / "message-operator" / "values.yaml").unlink()
    git(repository, "commit", "--quiet", "--all", "-m", "Later")

    assert history.last_release(repository) == "v0.1.0"
    old = chart_diff.extract("v0.1.0", tmp_path / "old", repository)
    assert (old / "values.yaml").read_text() == (CHART / "values.yaml").read_text()


def test_a_release_that_is_none_is_an_error(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(HackError, match=r"^there is no tag or commit v9; `git tag"):
        chart_diff.extract("v9", tmp_path / "old", repository)


def test_the_last_release_can_be_upgraded(tmp_path: Path) -> None:
    if tag := history.last_release():
        old = chart_diff.extract(tag, tmp_path)
        report = chart_diff.report(old, CHART)
        assert [line for line in report if "! the upgrade fails" in line] == []


def test_a_failing_upgrade_is_found(newer: Path) -> None:
    replace(
        newer / "templates" / "rbac.yaml", "  kind: ClusterRole\n  name: ", "  kind: Role\n  name: "
    )

    assert any("roleRef.kind cannot be changed" in line for line in lines(CHART, newer))
