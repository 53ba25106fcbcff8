"""The names of images, and the operator's: built and pushed for all commands and the tests.

IMG is its name; the default is this version's name in the local registry. It is built for this
machine's platform, or for those that PLATFORMS lists.

That of an adopted operator is started once, as its Pod does, before it is called good: it has no
network, no cluster and no capability, a read-only file system with a folder for temporary files,
and the variables of the chart. What it lacks is told in a sentence. An operator on the runtime
needs none of this: `kopf_kit.image.bytecode` imports it in what becomes its image.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path

from kopf_kit.image import dockerfile
from kopf_kit.project import registered
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import dockerfiles, engine, paths, public_images, reading, registry
from kopf_kit.rig.run import CommandError, KitError, answer
from kopf_kit.rig.steps import say, step

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d+)?"
_REGISTRY = re.compile(rf"{_HOST}(?:/{_PART})*")
# As https://pkg.go.dev/github.com/distribution/reference has it.
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_IMAGE = re.compile(
    rf"(?:(?i:{_HOST})/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)
_PORT = re.compile(r"[^/]*:(\d+)(?:/|$)", re.ASCII)


def prefix() -> str:
    """Return REGISTRY, host[:port][/path]; raise KitError if it is invalid.

    If it is not set, return the registry beside the kind cluster.
    """
    given = os.environ.get("REGISTRY") or registry.ADDRESS
    name = given.rstrip("/")
    if not _REGISTRY.fullmatch(name) or not _port_is_valid(name):
        raise KitError(
            f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, "
            "without https:// and without a tag, for example REGISTRY=registry.example.com/you"
        )
    return name


def _port_is_valid(name: str) -> bool:
    port = _PORT.match(name)
    return port is None or 0 < int(port[1][:6]) < 65536


def check_form(ref: str, variable: str) -> str:
    """Return an image's name; raise KitError, which names the variable, if it is invalid."""
    if not _IMAGE.fullmatch(ref) or ("/" in ref and not _port_is_valid(ref)):
        raise KitError(
            f"{variable}={ref} is not a valid image; use [host[:port]/]name[:tag] or "
            "…@sha256:…, the name in lower case, without https:// and without spaces, for example "
            f"{variable}=registry.example.com/you/name:1.0"
        )
    return ref


def check_given(*variables: str) -> None:
    """Raise KitError if one of the variables is set, but not to an image in a registry."""
    for variable in variables:
        if ref := os.environ.get(variable):
            image_parts(ref, variable)


def image_parts(ref: str, variable: str = "IMG") -> dict[str, str]:
    """Return the chart's values for an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST].

    Raise KitError, which names the variable, if it is not an image, or contains no registry.
    """
    check_form(ref, variable)
    name, _, digest = ref.partition("@")
    host, _, rest = name.partition("/")
    if not rest or not (host == "localhost" or "." in host or ":" in host):
        raise KitError(
            f"{variable}={ref} names no registry; write it in full, for example "
            "docker.io/you/name:tag"
        )
    repository, _, tag = rest.partition(":")
    return {"registry": host, "repository": repository, "tag": tag, "digest": digest}


def pinned(ref: str) -> str:
    """Return an image that was pushed from here by its digest, or unchanged if that is unknown.

    A node would not pull a tag again after a second push. Raise KitError if the local registry
    does not answer.
    """
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        return _local(ref) or ref
    if index := dockerfiles.pushed_index(ref):
        return index
    digests = answer(["docker", "image", "inspect", "-f", '{{join .RepoDigests "\\n"}}', ref]) or ""
    name = registry.repository(ref)
    called = {name, name.removeprefix("docker.io/").removeprefix("library/")}  # as Docker has it
    pushed = [line.split("@") for line in digests.splitlines()]
    matching = [digest for place, digest in pushed if place in called]
    return f"{name}@{matching[0]}" if matching else ref


def looked_up(ref: str, variable: str) -> str:
    """Return an image by its current digest in its registry.

    Raise KitError, which names the variable, if the registry does not have it. The image is
    pulled, because every Docker can do that, with the user's logins and proxies.
    """
    image_parts(ref, variable)
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        if local := _local(ref):
            return local
        raise KitError(
            f"{variable}={ref} is not in the local registry; `kopf-kit image build` and "
            f"`image push`, with IMG={ref}, put an image of the operator there, and "
            f"without {variable} the image is built here"
        )
    try:
        printed = engine.docker("pull", ref, timeout=600)
    except KitError as error:
        raise KitError(
            f"{variable}={ref} cannot be looked up; push it first, log in (docker login), or name "
            f"it by its digest (name@sha256:…):\n{error}"
        ) from error
    (digest,) = re.findall(r"^Digest: (sha256:[0-9a-f]{64})$", printed, re.MULTILINE)
    return f"{registry.repository(ref)}@{digest}"


def _local(ref: str) -> str | None:
    """Return an image in the local registry by its digest, or None if it is not there."""
    name, _, tag = ref.removeprefix(f"{registry.ADDRESS}/").partition(":")
    digest = registry.local_digest(f"{name}:{tag or 'latest'}")
    return f"{registry.ADDRESS}/{name}@{digest}" if digest else None


_SANDBOX = (
    *("--rm", "--network=none", "--read-only", "--tmpfs=/tmp"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
)
#: The Dockerfile's arguments for its base images: one of Red Hat's for certification, say.
_BASES = ("BUILD_BASE", "RUNTIME_BASE")
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
    revision = revision or answer(["git", "-C", paths.CHECKOUT, "rev-parse", "HEAD"]) or "unknown"
    arguments = {"VERSION": PROJECT.version, "REVISION": revision}
    given = {name: base for name in _BASES if (base := os.environ.get(name))}
    if public_images.are_in_reach():
        for base in public_bases(file, given):
            public_images.pull(base)
    elif len(given) < len(_BASES):
        arguments |= zip(_BASES, dockerfiles.python(names), strict=True)
    arguments |= given
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


def public_bases(file: Path = dockerfile.SHARED, but: Collection[str] = ()) -> list[str]:
    """Return a Dockerfile's default base images, but for some of its arguments."""
    named = re.findall(r"^ARG (\w+_BASE)=(\S+)$", reading.text(file), re.MULTILINE)
    return [base for name, base in named if name not in but]


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
    registered.judge(module, image, printed)


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
