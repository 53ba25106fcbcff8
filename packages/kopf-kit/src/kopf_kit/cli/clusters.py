"""`kopf-kit cluster`, `olm`, `tool` and `doctor`: the machine, for people, scripts and the tests.

`python -m kopf_kit tool kubectl` prints the path of a program. `doctor` says what the commands
need, and whether this machine and repository have it; it works outside of a project, too.
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

import click

from kopf_kit import compatible
from kopf_kit.rig import paths, preflight, tools, versions
from kopf_kit.rig.run import KitError, answer
from kopf_kit.rig.steps import say


@click.command()
@click.argument("action", type=click.Choice(["up", "down", "tests"]))
def command(action: str) -> None:
    """Create the kind cluster and its registry, or that of the tests, or delete all of them."""
    from kopf_kit.rig import cluster  # it names the cluster after PROJECT

    if action == "down":
        cluster.down()
    elif action == "tests":
        cluster.up(cluster.TEST_NAME)
    else:
        say(f"The cluster answers: export KUBECONFIG={cluster.up().kubeconfig}")


@click.command()
@click.argument("action", type=click.Choice(["up", "down", "image"]))
def olm_command(action: str) -> None:
    """Install OLM and catalogd in the cluster, remove them, or only build their image."""
    from kopf_kit.rig import engine, olm, registry

    if action == "down":
        olm.down()
    elif action == "image":  # only the image with its programs
        engine.up()
        registry.up()
        olm.image()
    else:
        olm.report(olm.up())


@click.command()
@click.argument(
    "programs",
    nargs=-1,
    required=True,
    type=click.Choice(sorted(versions.PROGRAMS)),
    metavar="NAME...",
)
def tool(programs: tuple[str, ...]) -> None:
    """Print the paths of programs, such as kubectl; kopf-offline builds those that are missing."""
    for path in tools.paths_of(*programs):
        print(path)


class Finding(NamedTuple):
    """The result of one check; only some commands need what is optional."""

    name: str
    ok: bool
    text: str
    optional: bool = False


@click.command()
def doctor() -> int:
    """Check Python, uv, the container engine, kind, kubectl, helm and the versions.

    Exit with 1 if something that every command needs is missing.
    """
    all_ok = True
    for finding in findings():
        mark = "ok" if finding.ok else "-" if finding.optional else "WRONG"
        print(f"{mark:<6} {finding.name:<10} {finding.text}")
        all_ok &= finding.ok or finding.optional
    return 0 if all_ok else 1


def findings() -> Iterator[Finding]:
    """Yield the result of each check, in the order in which the commands need it."""
    version = platform.python_version()
    yield Finding("python", sys.version_info >= (3, 11), f"{version} ({sys.executable})")
    for name in (compatible.KIT, compatible.RUNTIME):
        yield Finding(name.removeprefix("kopf-"), True, f"{name} {metadata.version(name)}")
    uv = shutil.which("uv")
    yield Finding(
        "uv",
        bool(uv),
        (answer(["uv", "--version"]) or "") if uv else "not there: https://docs.astral.sh/uv/",
        optional=True,
    )
    try:
        preflight.check(preflight.ENGINE)
        says = answer(["docker", "version", "--format", "{{.Server.Version}}"]) or "answers"
        yield Finding("engine", True, says)
    except KitError as error:
        says = " ".join(str(error).split())
        yield Finding("engine", False, f"{says} Only what needs a cluster needs it.", optional=True)
    missing = tools.missing()
    for name in tools.NAMES:
        says = f"this needs {tools.wanted(name)}: " + (
            "built when it is needed"
            if tools.is_installed()
            else "install it, or kopf-offline, which builds it"
        )
        present = name not in missing
        yield Finding(name, present, str(shutil.which(name)) if present else says, optional=True)
    yield from _of_repository()


def _of_repository() -> Iterator[Finding]:
    if not paths.has_project():
        yield Finding("PROJECT", False, "not in this folder or above it: `kopf-kit new`", True)
        return
    try:
        wrong = list(compatible.problems(paths.CHECKOUT))
        yield Finding("PROJECT", True, f"{paths.prefix()} in {paths.CHECKOUT}")
    except KitError as error:
        wrong = [str(error)]
    for sentence in wrong:
        yield Finding("versions", False, sentence)
