"""What the runtime's sdist has is enough to test it, in an environment without this repository."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kopf_kit.release import files
from kopf_kit.rig import control_plane, locked, paths
from kopf_offline import golang

UV = Path(sys.executable).with_name("uv")
#: The rest of the fault tests is the tier `runtime-long`'s.
TESTS = ("tests/runtime", "-n", "2"), ("tests/faults", "-k", "process or test_data or test_reads")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the sdist, with an environment of what the lock has and of both built wheels."""
    folder = tmp_path_factory.mktemp("sdists")
    lock = folder / "lock.txt"
    lock.write_text(
        locked.part(paths.LOCK.read_text(), "kopf-runtime", "kopf-kit", "pyproject.toml:dev")
    )
    built = files.build(folder)
    wheels = [file for file in built if file.suffix == ".whl" and "offline" not in file.name]
    subprocess.run([UV, "venv", "--quiet", folder / "venv"], check=True)
    into = (
        UV,
        "pip",
        "install",
        "--quiet",
        "--system-certs",
        "--python",
        folder / "venv/bin/python",
    )
    subprocess.run([*into, "--require-hashes", "--requirement", lock], check=True)
    subprocess.run([*into, "--no-deps", *wheels], check=True)
    (sdist,) = folder.glob("kopf_runtime-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sources", filter="data")
    (root,) = (folder / "sources").iterdir()
    (folder / "assets").mkdir()
    for program in control_plane.PARTS:
        (folder / "assets" / program).symlink_to(golang.program(program))
    return root


@pytest.mark.parametrize("tests", TESTS, ids=lambda tests: tests[0])
def test_the_runtime_passes_its_tests_from_its_sdist(sources: Path, tests: tuple[str, ...]) -> None:
    python = sources.parents[1] / "venv" / "bin" / "python"
    environment = {"PATH": os.environ["PATH"], "HOME": str(sources.parents[1])}
    environment["KUBEBUILDER_ASSETS"] = str(sources.parents[1] / "assets")

    subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=sources, env=environment, check=True)
