"""GitHub's workflows only call the Makefile: what they do can be run anywhere."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.cli import lanes
from kopf_kit.cli.test import TIERS
from kopf_kit.project import documents
from kopf_kit.rig import paths, versions

CHECKOUT = Path(__file__).parents[2]
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yaml"))


#: The jobs that only hand on what another one made, by uv and GitHub's own program.
_PUBLISHING = ("packages", "page")


def run_steps() -> Iterator[Any]:
    """Yield each `run` step, with its variables, once for each combination of its job's matrix."""
    for file in WORKFLOWS:
        for name, job in documents.load(file.read_text())["jobs"].items():
            matrix = job.get("strategy", {}).get("matrix", {})
            for values in itertools.product(*matrix.values()):
                chosen = {
                    f"${{{{ matrix.{key} }}}}": str(value)
                    for key, value in zip(matrix, values, strict=True)
                }
                for step in job.get("steps", []):
                    if "run" in step and name not in _PUBLISHING:
                        env = {k: chosen.get(v, v) for k, v in step.get("env", {}).items()}
                        label = "-".join((file.stem, name, *map(str, values)))
                        yield pytest.param(step["run"], env, id=label)


@pytest.mark.parametrize(("script", "env"), list(run_steps()))
def test_a_step_is_a_command_of_the_makefile(script: str, env: dict[str, str]) -> None:
    assert script.startswith("make ")
    # MAKEFLAGS=n: make says what it would do, and fails for a target that there is not.
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "MAKEFLAGS": "n", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert ".venv/bin/" in done.stdout


def test_a_tag_releases_the_version_that_it_names() -> None:
    job = documents.load((WORKFLOWS[0].parent / "release.yaml").read_text())["jobs"]["release"]
    (step,) = (step for step in job["steps"] if "run" in step)

    done = subprocess.run(
        ["bash", "-euc", step["run"]],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "MAKEFLAGS": "n", **step["env"], "TAG": "v1.2.3-rc.1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    assert step["env"]["TAG"] == "${{ github.ref_name }}"
    assert 'kopf_kit release "1.2.3-rc.1"' in " ".join(done.stdout.split())


def test_what_builds_a_release_signs_it_and_only_its_page_is_written_to_the_repository() -> None:
    jobs = {
        (file.stem, name): job
        for file in WORKFLOWS
        for name, job in documents.load(file.read_text())["jobs"].items()
    }
    writing = {at for at, job in jobs.items() if job["permissions"].get("contents") == "write"}

    assert jobs["release", "release"]["needs"] == "test-all"  # P13: a tag alone releases nothing
    assert jobs["release", "test-all"]["uses"] == "./.github/workflows/test-all.yaml"
    assert jobs["release", "release"]["permissions"]["id-token"] == "write"
    assert writing == {("release", "page")}
    assert jobs["release", "page"]["permissions"] == {"contents": "write"}
    assert jobs["release", "page"]["needs"] == "release"


def test_the_index_trusts_the_workflow_and_no_secret() -> None:
    job = documents.load((WORKFLOWS[0].parent / "release.yaml").read_text())["jobs"]["packages"]

    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    assert (job["environment"], job["needs"]) == ("package-index", "release")
    assert "secrets." not in str(job)


def tiers(file: str, name: str, key: str) -> set[str]:
    """Return the tiers that a job's matrix names."""
    jobs = documents.load((WORKFLOWS[0].parent / file).read_text())["jobs"]
    return {tier for names in jobs[name]["strategy"]["matrix"][key] for tier in names.split(",")}


def test_the_workflows_run_all_that_must_pass_before_a_change_lands() -> None:
    """The tiers of `make test` run beside each other there."""
    ran = tiers("check.yaml", "test", "tier") | tiers("check.yaml", "clusters", "tier")

    needed = {each.name for each in lanes.of_set(lanes.read(TIERS), "test") if each.set != "check"}
    assert needed - ran == {"cluster", "olm-image"}  # which others need, and make


def test_each_tier_is_in_a_part_of_the_workflow_that_runs_all() -> None:
    parts = tiers("test-all.yaml", "test-all", "part")

    assert parts == {name.removesuffix(lanes.LONG) for name in lanes.read(TIERS)}


def test_each_tier_runs_what_is_there() -> None:
    for name, tier in lanes.read(TIERS).items():
        words = tier.run.split() if tier.run else []
        named = [w for w in words if w.startswith(("tests/", "examples/")) and "*" not in w]
        assert [word for word in named if not (paths.CHECKOUT / word).exists()] == [], name


def test_each_supported_kubernetes_has_a_job_of_its_own() -> None:
    jobs = documents.load((WORKFLOWS[0].parent / "check.yaml").read_text())["jobs"]

    assert jobs["servers"]["strategy"]["matrix"]["kubernetes"] == list(versions.PROVED)
    assert jobs["clusters"]["strategy"]["matrix"]["kubernetes"] == list(versions.NODES)
