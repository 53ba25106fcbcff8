"""`kopf-kit` as people meet it: help, mistakes, completion, and a PROJECT that does not fit."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from kit.forked import kit
from kopf_kit import compatible
from kopf_kit.__main__ import PROGRAM, VARIABLES
from kopf_kit.rig import paths
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers

#: Slow to import, so that `--help` leaves them alone: with them it takes more than 0.3 s.
HEAVY = "{'rich', 'msgspec', 'yaml', 'kopf', 'kopf_kit.rig', 'kopf_kit.project'}"
HELP = f"""
import sys
from kopf_kit import __main__
sys.argv = ["kopf-kit", "--help"]
code = __main__.main()
print(*({HEAVY} & sys.modules.keys()), file=sys.stderr)
sys.exit(code)
"""


def test_help_lists_all_commands_outside_of_a_project_and_imports_none(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HELP],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert run.stderr.strip() == ""
    assert all(
        f"\n  {name} " in run.stdout for name in PROGRAM.list_commands(click.Context(PROGRAM))
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["veryfy"], "there is no command `veryfy`; did you mean `verify`?"),
        (["xyzzy"], "there is no command `xyzzy` (`"),
        (["verify"], "there is no PROJECT in this folder or above it: go to the repository of"),
        (["test", "-k", "some"], "or make one with `kopf-kit new`"),
        (["--nothing"], "No such option '--nothing'"),
    ],
)
def test_a_wrong_use_is_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    run = kit(*words, folder=tmp_path)

    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("version", ["", "9.0.0"])
def test_help_and_a_wrong_option_prepare_nothing(version: str, tmp_path: Path) -> None:
    repository.write(Answers("cache-operator", "Cache", "example.com"), tmp_path, lock=False)
    file = tmp_path / "PROJECT"
    if version:
        file.write_text(re.sub("cliVersion: .*", f"cliVersion: {version}", file.read_text()))

    helped = kit("deploy", "--help", folder=tmp_path)
    mistyped = kit("verify", "--nope", folder=tmp_path)

    assert (helped.returncode, helped.stderr) == (0, "")
    assert "Install the operator by Helm" in helped.stdout
    assert (mistyped.returncode, mistyped.stdout) == (2, "")
    assert "No such option '--nope'" in mistyped.stderr
    assert not (tmp_path / "build").exists()


def test_a_command_refuses_the_project_of_a_newer_kit(tmp_path: Path) -> None:
    text = "cliVersion: 9.0.0\nprojectName: some\nunknown: to this kit\n"
    (tmp_path / "PROJECT").write_text(text)

    for command in ("deploy", "test"):  # one needs the whole of PROJECT, one only its name
        run = kit(command, folder=tmp_path)
        assert (run.returncode, run.stdout) == (1, "")
        assert "error: PROJECT is of kopf-kit 9.0.0, and this is" in run.stderr


@pytest.mark.parametrize(("code", "told"), [("ENOSPC", True), ("ENOENT", False)])
def test_a_full_disk_is_one_sentence_and_our_mistake_a_traceback(code: str, told: bool) -> None:
    program = f"""
import errno
from kopf_kit.rig import steps
def fails():
    raise OSError(errno.{code}, "it is so", "build/chart")
raise SystemExit(steps.execute(fails))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert run.returncode == 1
    assert (run.stderr == "\nerror: build/chart: it is so\n") is told
    assert ("Traceback" in run.stderr) is not told


def test_an_authors_repository_has_the_kits_tiers(tmp_path: Path) -> None:
    (tmp_path / "PROJECT").write_text("projectName: some\n")
    (tmp_path / "tests" / "unit").mkdir(parents=True)

    (told := kit("test", "--list", folder=tmp_path)).check_returncode()

    listed = [line.split()[0] for line in told.stderr.splitlines() if line.startswith("    ")]
    assert listed == ["lint", "types", "verify", "unit", "e2e"]  # it has no tests/faults


#: Those that the kit reads as every program does, or for itself.
OF_OTHERS = {
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "CLOCK", "DOCKER_HOST", "KUBEBUILDER_ASSETS", "KUBECONFIG"),
    *("PATH", "PYTHONPATH", "UV_PUBLISH_URL", "VIRTUAL_ENV", "XDG_CACHE_HOME"),
}


def test_the_help_of_the_program_names_each_variable_that_the_kit_reads() -> None:
    # What operators run is no part of the program.
    files = (file for file in sorted(paths.KIT.rglob("*.py")) if "reference" not in file.parts)
    code = "".join(file.read_text() for file in files)
    read = {*re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', code)}
    named = {*re.findall(r"[A-Z_]{3,}", " ".join(VARIABLES))}

    assert read - OF_OTHERS - named == set()
    assert {name for name in named - {"NODE_IMG"} if f'"{name}"' not in code} == set()


KIT = metadata.version("kopf-kit")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, ""),
        (KIT, ""),
        ("99.1.0", f"PROJECT is of kopf-kit 99.1.0, and this is {KIT}, which is too old for it"),
        ("0.0.1", f"PROJECT is of kopf-kit 0.0.1, which is too old for this one, {KIT}"),
    ],
)
def test_a_project_of_another_kit_is_told_with_what_runs_that(
    version: str | None, said: str, tmp_path: Path
) -> None:
    written = f"cliVersion: {version}\n" if version else ""
    (tmp_path / "PROJECT").write_text(f"{written}projectName: some\n")

    sentences = list(compatible.problems(tmp_path))

    assert len(sentences) == bool(said)
    for sentence in sentences:
        assert sentence.startswith(said)
        assert f"`uvx kopf-kit@{version}`" in sentence


def test_the_line_of_the_help_has_bash_complete(tmp_path: Path) -> None:
    helped = " ".join(kit("--help", folder=tmp_path).stdout.split())
    (line,) = re.findall(r'eval "\$\(\S+ kopf-kit\)"', helped)
    words = "COMP_WORDS=(kopf-kit rel); COMP_CWORD=1; _kopf_kit_completion kopf-kit"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    run = subprocess.run(
        ["bash", "-c", f'{line}; complete -p kopf-kit; {words}; echo "${{COMPREPLY[@]}}"'],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert "-F _kopf_kit_completion kopf-kit\nrelease\n" in run.stdout
