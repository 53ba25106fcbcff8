"""A repository that does not fit this kit, and two runtimes, are told in a sentence each."""

from importlib import metadata
from pathlib import Path

import pytest

from kopf_kit import compatible
from kopf_kit.cli import clusters

KIT = metadata.version("kopf-kit")


def problems(folder: Path, project: str = "", pyproject: str = "") -> list[str]:
    (folder / "PROJECT").write_text(f"{project}\nprojectName: some\n")
    (folder / "pyproject.toml").write_text(pyproject)
    return list(compatible.problems(folder))


def test_what_fits_is_not_mentioned(tmp_path: Path) -> None:
    pins = (
        f'[dependency-groups]\ndev = ["kopf-kit[testing]>={KIT}", {{include-group = "a"}}]\na = []'
    )

    assert problems(tmp_path, f"cliVersion: {KIT}", pins) == []
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("99.1.0", f"PROJECT is of kopf-kit 99.1.0, and this is {KIT}, which is too old for it"),
        ("0.0.1", f"PROJECT is of kopf-kit 0.0.1, which is too old for this one, {KIT}"),
    ],
)
def test_a_project_of_another_kit(version: str, said: str, tmp_path: Path) -> None:
    (sentence,) = problems(tmp_path, f"cliVersion: {version}")

    assert sentence.startswith(said)
    assert f"`uvx kopf-kit@{version}`" in sentence


@pytest.mark.parametrize("name", ["kopf-kit", "kopf-runtime"])
def test_a_pin_that_is_not_what_runs(name: str, tmp_path: Path) -> None:
    (sentence,) = problems(tmp_path, pyproject=f'[project]\ndependencies = ["{name}>=99", "x"]')

    assert sentence.startswith(f"pyproject.toml asks for {name}>=99, and ")


def test_two_runtimes(tmp_path: Path) -> None:
    about = tmp_path / ".venv/lib/python3.12/site-packages/kopf_runtime-99.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: kopf-runtime\nVersion: 99.0\n")

    (sentence,) = problems(tmp_path)

    assert sentence.startswith("there are two versions of kopf-runtime: ")
    assert f"99.0 in {tmp_path}/.venv/lib/python3.12/site-packages" in sentence


def test_doctor_finds_nothing_wrong_here() -> None:
    assert [found for found in clusters.findings() if not (found.ok or found.optional)] == []
