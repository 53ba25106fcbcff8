"""Starts the image of an adopted operator once, as its Pod does, before it is called good.

There, it has no network, no cluster and no capability, a read-only file system with a folder for
temporary files, and the variables of the chart. What it lacks is told in a sentence. An operator on
the runtime needs none of this: `kopf_kit.image.bytecode` imports it in what becomes its image.
"""

import json
import os
import re

from kopf_kit.project import registered
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import engine
from kopf_kit.rig.run import CommandError, KitError
from kopf_kit.rig.steps import step

_SANDBOX = (
    *("--rm", "--network=none", "--read-only", "--tmpfs=/tmp"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
)
_KUBECONFIG = "/tmp/kopf-kit-no-cluster.yaml"  # noqa: S108 (in the container)
#: How Python, or the engine, ends that does not find what it is to run.
_MISSING = re.compile(
    r"(ModuleNotFound|Import|FileNotFound|Key)Error\b|No module named|can't open file"
    r"|no such file or directory|executable file not found",
    re.IGNORECASE,
)


def check(image: str) -> None:
    """Raise KitError unless the chart's command is there, and its Python imports the handlers."""
    if not PROJECT.adopted:
        return
    with step(f"Start {image} once, without a cluster"):
        _help(image)
        _handlers(image, PROJECT.adopted.module)


def _help(image: str) -> None:
    """Run the command with `--help`; one without this option may fail for want of a cluster."""
    try:
        _run(image, *PROJECT.command, "--help")
    except CommandError as error:
        if missing := next(filter(_MISSING.search, reversed(str(error).splitlines())), ""):
            raise KitError(
                f"{image} cannot run `{' '.join(PROJECT.command)}`, as the chart has it: "
                f"{missing.rpartition('exec: ')[2].strip()}; put that into the image, "
                "or change `command` in PROJECT"
            ) from error
    except KitError:  # it has started, and does not end
        return


def _handlers(image: str, module: str) -> None:
    """Import the handlers as the command does; what is said of them is checked."""
    first = PROJECT.command[0]
    python = first if re.fullmatch(r"(.*/)?python[\d.]*", first) else "python3"
    kubeconfig = registered.NO_CLUSTER.read_text()
    code = (
        f"import pathlib; pathlib.Path({_KUBECONFIG!r}).write_text({kubeconfig!r})\n"
        f"{registered.READER.read_text()}"
    )
    try:
        printed = _run(image, python, "-c", code, module)
    except CommandError as error:
        if python != first and _MISSING.search(error.reason) and "exec" in error.reason:
            return  # a program that is not of Python
        raise KitError(
            f"{image} starts, but {module} cannot be imported there: {error.reason}; the image "
            "lacks it, or only a folder such as /tmp can be written to, or it asks the network, "
            "which a function with @kopf.on.startup() may"
        ) from error
    registered.judge(module, image, json.loads(printed.splitlines()[-1]))


def _run(image: str, program: str, *arguments: str) -> str:
    """Return what a program prints in the image; no container stays."""
    assert PROJECT.adopted
    variables = {"POD_NAME": PROJECT.name, "POD_NAMESPACE": PROJECT.name, "KUBECONFIG": _KUBECONFIG}
    options = [
        f"--env={n}={value}" for n, value in (variables | PROJECT.adopted.environment).items()
    ]
    name = f"{PROJECT.name}-start-{os.getpid()}"
    command = ("run", f"--name={name}", *_SANDBOX, *options, f"--entrypoint={program}", image)
    try:
        return engine.docker(*command, *arguments, timeout=120)
    finally:
        engine.remove_container(name)
