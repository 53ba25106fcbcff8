"""Operators in public repositories, each brought as far as its description says that it comes.

OPERATORS names a folder with descriptions, of which none is here. NAME.toml has

    repository, commit  # cloned, or from MIRROR/OWNER+NAME/repo, where MIRROR is a folder
    install             # what its author's Python has, as arguments of pip
    files, prepare      # what its author writes, and types in that Python
    adopt               # options
    reached             # the last of STEPS that succeeds
    stopped             # a pattern of what the next one says; or
    lacks               # what its objects need and is not on the cluster, so that none is created

For each, a row of the README's table is printed (`-s`).
"""

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.rig import cluster, engine, tools

#: What each state of an operator takes. One that handles a sample has been running.
STEPS = {
    "adopted": ("adopt",),
    "generated": ("generate",),
    "verified": ("verify",),
    "built": ("image", "build"),
    "running": ("deploy",),
    "handled": ("e2e",),
}
_FOLDER = os.environ.get("OPERATORS")
DESCRIPTIONS = sorted(Path(_FOLDER).glob("*.toml")) if _FOLDER else []
UV = str(Path(sys.executable).with_name("uv"))


def run(at: Path, *command: str, name: str = cluster.NAME) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=at,
        env={**os.environ, "KIND_CLUSTER_NAME": name},  # not one of each operator's own
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1200,
    )


def sources(described: dict[str, Any], folder: Path) -> Path:
    """Return the operator's repository, prepared; skip the test where it cannot be had."""
    address: str = described["repository"]
    if mirror := os.environ.get("MIRROR"):
        address = str(Path(mirror, "+".join(address.split("/")[-2:]), "repo"))
    root = folder / str(described["repository"]).rpartition("/")[2]
    cloned = run(folder, "git", "clone", "--quiet", address, str(root))
    if cloned.returncode:
        pytest.skip(f"{address} cannot be cloned: {cloned.stdout.strip()}")
    checkout = ("git", "-c", "advice.detachedHead=false", "checkout", "--quiet")
    done = run(root, *checkout, described["commit"])
    assert done.returncode == 0, done.stdout
    for name, text in described.get("files", {}).items():
        (root / name).write_text(text)
    helm = tools.path("helm").parent  # with which `prepare` renders charts
    for command in (
        (UV, "venv", "--quiet", f"--python={sys.executable}", ".venv"),
        (UV, "pip", "install", "--quiet", "--python=.venv", *described["install"]),
        ("bash", "-ec", f". .venv/bin/activate; PATH+=:{helm}\n{described.get('prepare', '')}"),
    ):
        done = run(root, *command)
        assert done.returncode == 0, done.stdout
    return root


def steps(described: dict[str, Any], root: Path) -> tuple[dict[str, float], str]:
    """Take each step up to the first that fails; return their seconds, and what that one says."""
    left_out = "handled" if "lacks" in described else "running"
    took: dict[str, float] = {}
    for name in (each for each in STEPS if each != left_out):
        options = described["adopt"] if name == "adopted" else ()
        # `e2e` has a cluster of its own; the other shall be the same.
        where = cluster.TEST_NAME if name == "running" else cluster.NAME
        began = time.monotonic()
        done = run(root, sys.executable, "-m", "kopf_kit", *STEPS[name], *options, name=where)
        if done.returncode:
            return took, done.stdout
        took[name] = time.monotonic() - began
        if name == "running":
            for words in ("undeploy", "uninstall"):
                run(root, sys.executable, "-m", "kopf_kit", words, name=where)
    return took, ""


@pytest.mark.skipif(not DESCRIPTIONS, reason="OPERATORS names no folder with descriptions")
@pytest.mark.parametrize("file", DESCRIPTIONS, ids=lambda file: file.stem)
def test_an_operator_gets_as_far_as_its_description_says(file: Path, tmp_path: Path) -> None:
    described = tomllib.loads(file.read_text())
    root = sources(described, tmp_path)

    try:
        took, said = steps(described, root)
    finally:
        if (project := root / "PROJECT").is_file():
            name = re.findall(r"^projectName: (.+)$", project.read_text(), re.MULTILINE)[0]
            engine.remove_container(f"{name}-registry")

    lines = sum(text.strip().count("\n") + 1 for text in described.get("files", {}).values())
    seconds = [f"{took[name]:.0f}" if name in took else "–" for name in STEPS]
    print(f"| {file.stem} | {lines} | {' | '.join(seconds)} |\n{said[-3000:]}")  # noqa: T201
    assert run(root, "git", "diff", "--stat").stdout == ""
    assert "".join([*took][-1:]) == described["reached"], said[-3000:]
    assert re.search(described.get("stopped", "^"), said)
