"""What programs of others say of charts and Dockerfiles: of this repository's, and of a new one's.

These take seconds. The tier `judges` asks those that take longer, or cannot be built everywhere
(`kopf_kit.cli.judges`). What is waived is in the configuration of each judge, with its reason.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chart.helm import CHART, helm
from chart.scenarios import SCENARIOS
from kopf_kit.cli import judges
from kopf_kit.image import dockerfile
from kopf_kit.project import documents
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError
from kopf_offline import golang

CHECKOUT = Path(__file__).parents[4]
JUDGES = judges.FOLDER
#: Complete charts, and what people write of the others.
CHARTS = [CHART, *CHECKOUT.glob("charts/*"), *CHECKOUT.glob("examples/*/charts/*")]


def judged(program: str, *arguments: str | Path) -> str:
    """Return what a program of this environment finds; an empty text where that is nothing."""
    found = Path(sys.executable).with_name(program)
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_j1_a_chart_passes_what_ct_lint_checks(chart: Path) -> None:
    names = ("Chart.yaml", "values.yaml", "values.own.yaml", "ci/*.yaml")
    files = [file for name in names for file in sorted(chart.glob(name))]

    assert judged("yamllint", "--strict", "-c", JUDGES / "yamllint.yaml", *files) == ""
    assert judged("yamale", "-s", JUDGES / "chart.yaml", chart / "Chart.yaml") == ""


def test_j1_it_finds_a_heading_without_a_space_and_a_field_that_helm_does_not_know(
    tmp_path: Path,
) -> None:
    (tmp_path / "values.yaml").write_text("##@ All objects\na: 1\n")
    (tmp_path / "Chart.yaml").write_text((CHART / "Chart.yaml").read_text() + "licence: MIT\n")

    found = judged("yamllint", "--strict", "-c", JUDGES / "yamllint.yaml", tmp_path / "values.yaml")
    assert "missing starting space in comment" in found
    assert "licence" in judged("yamale", "-s", JUDGES / "chart.yaml", tmp_path / "Chart.yaml")


def test_the_dockerfiles_have_nothing_odd(tmp_path: Path) -> None:
    generated = tmp_path / "Dockerfile"
    generated.write_text(dockerfile.text())

    for file in (generated, CHECKOUT / "Dockerfile"):
        assert judged("hadolint", "--no-color", "-c", JUDGES / "hadolint.yaml", file) == ""


@pytest.mark.parametrize("chart", CHARTS[:2], ids=lambda chart: chart.name)
def test_hardened_nothing_is_critical(chart: Path, tmp_path: Path) -> None:
    values, rendered = chart / "ci" / "hardened-values.yaml", tmp_path / "rendered.yaml"
    if not values.is_file():
        values = tmp_path / "values.yaml"
        values.write_text(documents.text(SCENARIOS["hardened"]))
    rendered.write_text(helm("template", "m", chart, "--namespace=ops", f"--values={values}"))

    command = [str(golang.program("kube-score")), "score", "--output-format=ci", str(rendered)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    lines = done.stdout.splitlines()
    assert any(line.startswith("[OK]") for line in lines), done.stderr
    assert [line for line in lines if line.startswith("[CRITICAL]")] == []


def test_a_judge_that_cannot_be_had_is_named_and_a_failure_where_all_are_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judges, "render", lambda _: {})
    monkeypatch.setattr(judges, "_MODULES", {"polaris": "github.com/nobody/nothing@v1.0.0"})
    for variable, value in {"GOPROXY": "off", "IMG": "", "PATH": "/bin", "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)

    assert judges.main(["polaris", "hadolint"]) == 0
    said = capsys.readouterr().err
    for name in ("polaris", "hadolint"):
        assert f"{name} was not asked, because it cannot be had here" in said
    assert judges.main(["--all", "polaris"]) == 1


def test_what_a_judge_fails_at_is_said_and_the_next_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("hadolint", "polaris", "preflight"):
        (tmp_path / name).write_text("#!/bin/sh\ncat >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "Own").write_text("FROM its-own\n")
    monkeypatch.setattr(dockerfile, "_OWN", tmp_path / "Own")
    monkeypatch.setattr(judges, "render", lambda _: {})
    monkeypatch.setenv("IMG", "localhost/x")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    assert judges.main(["preflight", "hadolint", "polaris"]) == 1
    said = capsys.readouterr().err
    assert "preflight: not content\nit has no results" in said
    assert "hadolint: not content\nFROM its-own" in said  # what the image is built from
    assert "polaris: nothing to judge" in said
    with pytest.raises(KitError, match="there is no judge -k; choose from ct, hadolint"):
        judges.main(["-k", "create"])
