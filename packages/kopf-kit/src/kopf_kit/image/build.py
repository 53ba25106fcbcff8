"""Builds and pushes the operator's image, for `kopf-kit image build`, the demo and the tests.

IMG is its name; the default is this version's name in the local registry. It is built for this
machine's platform, or for those that PLATFORMS lists.

That of an adopted operator is started once, as its Pod does, before it is called good: it has no
network, no cluster and no capability, a read-only file system with a folder for temporary files,
and the variables of the chart. What it lacks is told in a sentence. An operator on the runtime
needs none of this: `kopf_kit.image.bytecode` imports it in what becomes its image.
"""

import json
import os
import re
from pathlib import Path

from kopf_kit.image import dockerfile
from kopf_kit.image.references import check_form
from kopf_kit.project import registered
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import dockerfiles, engine, paths, public_images, reading, registry
from kopf_kit.rig.run import CommandError, KitError, answer
from kopf_kit.rig.steps import say, step

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


def reference() -> str:
    """Return the name by which the cluster pulls the image; raise KitError if IMG is invalid."""
    given = os.environ.get("IMG")
    default = f"{registry.ADDRESS}/{PROJECT.name}:{PROJECT.version}"
    return check_form(given, "IMG") if given else default


def build(ref: str | None = None, file: Path | None = None, *, revision: str | None = None) -> str:
    """Build the image, or that of another Dockerfile, in its folder; return its name.

    Its label has the revision, by default the commit that is checked out. That of an adopted
    operator is started once; raise KitError if it lacks something.
    """
    ref = ref or reference()
    names = dockerfiles.requested()
    public_images.choice()
    engine.up()
    of_operator = file is None
    context = file.parent if file else dockerfile.context()
    file = file or dockerfile.file()
    arguments = {"VERSION": PROJECT.version, "REVISION": revision or _revision()}
    if public_images.are_in_reach():
        for base in public_bases(file):
            public_images.pull(base)
    else:
        arguments["BUILD_BASE"], arguments["RUNTIME_BASE"] = dockerfiles.python(names)
    with step(f"Image {ref}") as work:
        dockerfiles.build(work, ref, context, file, names, **arguments)
    if of_operator:
        _start(ref, names)
    return ref


def _start(ref: str, names: tuple[str, ...]) -> None:
    """Start the image once, or of several platforms that of this machine's."""
    image = dockerfiles.images(ref, names).get(dockerfiles.host()) if names else ref
    if image:
        _check(image)
    else:
        say(f"{ref} was not started: it is for other machines than this one")


def push(ref: str | None = None) -> str:
    """Push the image and return its name; start the local registry if the image belongs there."""
    ref = ref or reference()
    names = dockerfiles.requested()
    public_images.choice()
    engine.up()
    for image in list(dockerfiles.images(ref, names).values()) or [ref]:
        if not engine.has_image(image):
            how = f"IMG={ref}" + (f" PLATFORMS={','.join(names)}" if names else "")
            raise KitError(f"{image} is not built here; `{how} kopf-kit image build` builds it")
    if registry.is_local(ref):
        registry.up()
    with step(f"Push {ref}") as work:
        dockerfiles.push(work, ref, names)
    return ref


def public_bases(file: Path = dockerfile.SHARED) -> list[str]:
    """Return a Dockerfile's default base images."""
    text = reading.text(file)
    return re.findall(r"^ARG \w+_BASE=(\S+)$", text, re.MULTILINE)


def _revision() -> str:
    """Return the current commit, for the image's label."""
    return answer(["git", "-C", paths.CHECKOUT, "rev-parse", "HEAD"]) or "unknown"


def _check(image: str) -> None:
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
        lines = reversed(str(error).splitlines())
        # It may read its kubeconfig before its options, and here it has none.
        found = (line for line in lines if _MISSING.search(line) and _KUBECONFIG not in line)
        if missing := next(found, ""):
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
