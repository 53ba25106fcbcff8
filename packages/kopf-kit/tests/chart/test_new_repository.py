"""What `kopf-kit new` writes is packed at once, and git has nothing that is generated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chart.helm import PROGRAMS, HelmError, helm
from kopf_kit.rig import tools
from kopf_offline import golang

HAND_WRITTEN = sorted(Path(__file__).parents[4].glob("examples/*/charts/*"))
KIT = (sys.executable, "-m", "kopf_kit")


def test_a_new_repository_is_generated_below_build_and_has_no_mistakes(tmp_path: Path) -> None:
    tools.path("helm3")
    folder = tmp_path / "cache"
    name = ("cache-operator", "--kind=Cache", "--group=cache.example.com", "--no-lock")
    subprocess.run([*KIT, "new", *name, str(folder)], check=True, timeout=60, cwd=tmp_path)
    written = {file for file in folder.rglob("*") if file.is_file() and ".git" not in file.parts}

    for command in ("generate", "verify"):
        done = subprocess.run(
            [*KIT, command], cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr

    there = {file for file in folder.rglob("*") if file.is_file() and ".git" not in file.parts}
    added = {
        file.relative_to(folder)
        for file in there - written
        if not {"__pycache__", "build"} & set(file.relative_to(folder).parts)
    }
    assert added == set()
    assert (folder / "build/generated/charts/cache-operator/values.yaml").is_file()

    _content_are_judges_of_seconds(folder)

    csv = folder / "olm" / "csv.yaml"
    csv.write_text(f"{csv.read_text()}    specDescriptors: [{{path: another}}]\n")
    done = subprocess.run(
        [*KIT, "verify"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr.strip().startswith(
        "error: olm/csv.yaml: Cache: specDescriptors: remove another"
    )


def _content_are_judges_of_seconds(folder: Path) -> None:
    """Programs of others are content with it, as with this repository (test_judged.py)."""
    path = os.pathsep.join(
        [*(str(golang.program(name).parent) for name in ("helm", "kube-score")), os.environ["PATH"]]
    )
    done = subprocess.run(
        [sys.executable, "-m", "kopf_kit.cli.judges", "hadolint", "zizmor", "kube-score"],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{path}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count(": content") == 3


@pytest.mark.parametrize("program", PROGRAMS)
def test_j8_what_people_write_of_a_chart_says_what_it_lacks(tmp_path: Path, program: str) -> None:
    name = ("cache-operator", "--kind=Cache", "--group=cache.example.com", "--no-lock")
    subprocess.run([*KIT, "new", *name, str(tmp_path)], check=True, timeout=60, cwd=tmp_path)

    for chart in (tmp_path / "charts" / "cache-operator", *HAND_WRITTEN):
        with pytest.raises(HelmError, match="run `kopf-kit generate`"):
            helm("template", "x", chart, program=program)
