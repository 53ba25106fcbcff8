"""What a repository says of an operator on plain kopf, for `kopf-kit adopt`."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from kopf_kit.project import accounts, adopted, author_code, container
from kopf_kit.project.accounts import Called
from kopf_kit.project.container import Container, KopfRun
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import KitError, answer
from kopf_kit.scaffold import distribution

Manifest = dict[str, Any]

HOME = re.compile(r"(?:https://|ssh://git@|git@)([^/:\s]+)[/:]([^/\s]+(?:/[^/\s]+)+?)(?:\.git)?/?")
_HANDLER = re.compile(r"^[ \t]*@(\w+\.)?(on\.[a-z]+|daemon|timer|index)\(", re.MULTILINE)
_KOPF = re.compile(r"^[ \t]*(import|from)\s.*\bkopf\b", re.MULTILINE)
#: The kinds by which operators on kopf know of each other; it has one replica, and needs none.
_PEERING = ("KopfPeering", "ClusterKopfPeering")
#: What says what an image installs, where there is neither a Dockerfile nor a lock of uv's.
_REQUIRED = ("requirements.txt", "poetry.lock")
#: Folders of a repository that are not about its operator.
_OTHERS = re.compile(r"build|dist|node_modules|venv|e2e|(.+[_-])?tests?([_-].+)?|\..*")
#: Names of what calls a program that is not Python's own.
_CALLS = re.compile(
    r"subprocess\b.*|asyncio\.(create_)?subprocess.*|shutil\.which"
    r"|os\.(system|popen|exec|spawn|posix_spawn).*"
)


@dataclass(frozen=True)
class Operator:
    """What a repository, or its author, says of an operator; paths are relative to `root`."""

    root: Path
    name: str = ""
    module: str = ""
    home: str = ""
    crds: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    requirements: str = ""
    #: With the files that bind these roles.
    rights: tuple[str, ...] = ()
    #: The operator's ServiceAccount there; empty where the files say it.
    account: str = ""
    #: Variables with their values.
    environment: tuple[tuple[str, str], ...] = ()
    #: The author's own Dockerfile, if there is one.
    dockerfile: str = ""
    container: Container = field(default_factory=Container)
    #: The file that says how it is started: that Dockerfile, or a Deployment.
    started_in: str = ""
    #: What the Deployment takes from elsewhere, by the chart's value for it.
    referred: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: What starts it, if not `kopf run`.
    command: tuple[str, ...] = ()
    #: What that command says to watch; None where it does not say it.
    namespaces: tuple[str, ...] | None = None
    #: The modules that register handlers.
    modules: tuple[str, ...] = ()
    #: Sentences on what the repository says in two ways.
    doubts: tuple[str, ...] = ()
    #: Empty if the repository does not say it.
    version: str = ""
    description: str = ""

    @property
    def called(self) -> Called:
        """By what its manifests may know it."""
        return Called(self.name, self.account)


def find(root: Path, said: Operator, *, run: bool = True) -> Operator:
    """Return what an author says, completed with what the repository says.

    With `run`, its Python is asked for the installed version.
    """
    about = distribution.about(root)
    remote = answer(["git", "-C", root, "remote", "get-url", "origin"]) or ""
    pages = (HOME.fullmatch(page) for page in (*about.get("urls", {}).values(), remote))
    home = next((f"https://{'/'.join(page.groups())}" for page in pages if page), "")
    crds = said.crds or _found(root, _is_own_crd) or _found(root, _is_own_crd, any)
    kinds = {
        crd["spec"]["names"]["kind"] for name in crds for crd in adopted.definitions_in(root / name)
    }
    dockerfile = said.dockerfile or ("Dockerfile" if (root / "Dockerfile").is_file() else "")
    image = container.read(reading.text(root / dockerfile)) if dockerfile else Container()
    called = about.get("name") or (said.home or home).rpartition("/")[2]
    name = said.name or canonicalize_name(called)  # a_b.c is a-b-c for an index, too
    deployment, manifest, doubts = _deployed(root, canonicalize_name(name))
    built = container.kopf_run(image.command)
    image = container.started(image, manifest)
    started = container.kopf_run(image.command)
    doubts += _about_start(dockerfile, built, deployment, started)
    modules = [*_modules(root)]
    stems = (PurePosixPath(file).stem for file in (started.files if started else ()))
    named = [*started.modules, *stems] if started else modules
    module = said.module or (named[0] if len(named) == 1 else "")
    # An image of the kit's has the module where its own PYTHONPATH finds it.
    path = {} if said.requirements else _path(root, module, image, started)
    path |= image.path if started and not said.requirements else {}
    installed = any((root / name).is_file() for name in ("Dockerfile", "uv.lock"))
    required = next((name for name in _REQUIRED if (root / name).is_file()), "")
    if not required and author_code.is_package(root):
        required = "pyproject.toml" if author_code.says_project(root) else "setup.py"
    version = distribution.version(root, about, run=run)
    doubts += _about_builds("" if said.requirements else dockerfile, image, version)
    return replace(
        said,
        name=name,
        module=module,
        modules=tuple(modules),
        doubts=tuple(doubts),
        dockerfile=dockerfile,
        container=image,
        started_in=deployment if {"command", "args"} & manifest.keys() else dockerfile,
        referred=container.referred(manifest),
        command=() if said.module or started else _entry(image.command, about),
        namespaces=started.namespaces if started else None,
        environment=tuple({**image.own_environment, **path, **dict(said.environment)}.items()),
        home=said.home or home,
        crds=crds,
        samples=said.samples or _found(root, lambda one: sampled(one) in kinds, _one),
        requirements=said.requirements or ("" if installed else required),
        rights=_with_bindings(root, said.rights, Called(name, said.account)),
        version=distribution.semantic(version),
        description=said.description or about.get("description", ""),
    )


def _deployed(root: Path, name: str) -> tuple[str, Manifest, list[str]]:
    """Return the file that has the container of the operator's Pods, and this; empty if none is.

    Its image has the operator's name, or it runs kopf, or both. Where such containers differ, a
    sentence says that nothing is taken from them.
    """
    found = [
        (str(file.relative_to(root)), container.in_pod(pod, each))
        for file in files(root, "*.yaml", "*.yml")
        for manifest in manifests(file)
        if accounts.is_object(manifest) and accounts.runs_as(manifest)
        for pod in (manifest["spec"]["template"]["spec"],)
        for each in pod["containers"]
        if isinstance(each, dict)
    ]
    running = [(f, each) for f, each in found if container.runs_kopf(each)]
    called = [(container.called(str(each.get("image"))), (f, each)) for f, each in found]
    named = [each for image, each in called if image == name]
    named = named or [e for image, e in called if accounts.is_called(image, name, after=True)]
    chosen = [each for each in named if each in running] or named or running
    taken = [(container.started(Container(), e), container.referred(e)) for _, e in chosen]
    if taken and all(each == taken[0] for each in taken):
        return *chosen[0], []
    doubt = (
        f"{', '.join(sorted({f for f, _ in chosen}))} have several containers that may be the "
        "operator's, and they differ: PROJECT has nothing of them, so give variables by --env, and "
        "the namespaces by watchNamespaces there"
    )
    return "", {}, [doubt] if chosen else []


def _about_start(
    dockerfile: str, built: KopfRun | None, deployment: str, started: KopfRun | None
) -> Iterator[str]:
    """Yield a sentence where a Dockerfile and a Deployment say to watch other namespaces.

    And one where the operator would see others in a peering.
    """
    if started and started.peering:
        yield (
            f"it is started with the peering {started.peering}, and by the chart without any: "
            "nothing pauses it while one with a higher priority runs"
        )
    former, later = (each.namespaces if each else None for each in (built, started))
    if former is not None and later is not None and {*former} != {*later}:
        at, there = (", ".join(each) or "all namespaces" for each in (former, later))
        yield f"{dockerfile} watches {at}, and {deployment} {there}, which PROJECT has"


def _about_builds(dockerfile: str, image: Container, version: str) -> Iterator[str]:
    """Yield sentences on what an image or a chart cannot be built with."""
    if image.lacking and dockerfile:
        yield (
            f"{dockerfile} names a base image by {', '.join(image.lacking)}, which a build of the "
            "kit does not set: give each ARG a default there"
        )
    if version and Version(distribution.semantic(version)) != Version(version):
        yield (
            f"Helm, or an image's tag, takes no version {version}, so PROJECT has "
            f"{distribution.semantic(version)}"
        )


def _entry(command: tuple[str, ...], about: dict[str, Any]) -> tuple[str, ...]:
    """Return an author's own command as any image can run it, which need not have its scripts."""
    module, is_function, function = about["scripts"].get("".join(command[:1]), "").partition(":")
    if is_function:
        code = f"import sys; from {module} import {function}; sys.exit({function}())"
        return "python3", "-c", code, *command[1:]
    return command


def _path(root: Path, module: str, image: Container, started: KopfRun | None) -> dict[str, str]:
    """Return the variable by which the container's Python finds the module, if it needs one."""
    top = module.partition(".")[0]
    code = next(
        (each for each in (f"{top}.py", top) if (paths.sources(root, top) / each).exists()), ""
    )
    place = image.place(str((paths.sources(root, top) / code).relative_to(root))) if code else ""
    if not place and started and started.files:
        place = str(PurePosixPath(image.folder or "/") / started.files[0])
    folder = str(PurePosixPath(place).parent)
    if not place or image.imports_from(folder):
        return {}
    former = image.environment.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{folder}:{former}".rstrip(":")}


def _with_bindings(root: Path, given: tuple[str, ...], called: Called) -> tuple[str, ...]:
    """Return files with roles, and those of the repository that bind these roles.

    A ClusterRole may be bound in one namespace alone, which another file says. Which ServiceAccount
    is the operator's, and in which namespace, its Deployment says.
    """
    every = {*files(root, "*.yaml", "*.yml"), *(root / name for name in given)} if given else set()
    objects = {
        file: [one for one in manifests(file) if accounts.is_object(one)] for file in sorted(every)
    }
    chosen = {root / name for name in given}
    roles = {
        (one["kind"], one["metadata"]["name"]) for file in chosen for one in objects.get(file, ())
    }
    chosen |= {file for file in every if any(accounts.bound(one) & roles for one in objects[file])}
    inside = [one for file in chosen for one in objects[file]]
    pairs = {pair for one in inside for pair in accounts.named(one)}
    names = {name for _, name in pairs}
    made = {name for one in inside for _, name in accounts.made(one)}
    spaced = any(one["kind"] == "Role" and one["metadata"].get("namespace") for one in inside)
    every_object = [one for each in objects.values() for one in each]
    # Roles that are bound to another's ServiceAccount alone are not the operator's.
    elsewhere = {name for _, name in accounts.operators(every_object, called.name, signs=1)}
    elsewhere = elsewhere or {
        name
        for one in every_object
        for _, name in accounts.runs_as(one) | accounts.made(one)
        if accounts.is_called(name, called.name)
    }
    elsewhere = {called.said[1]} if called.account else elsewhere
    elsewhere = elsewhere if len(elsewhere) == 1 and not elsewhere & names else set()
    doubtful = not called.account and not all(accounts.fits(one, called.name) for one in names)
    several = len(names | made | elsewhere) > 1 or len(pairs) > 1
    for file in every if several or doubtful or (spaced and not names) else ():
        running = {name for one in objects[file] for _, name in accounts.runs_as(one)}
        running |= elsewhere & {name for one in objects[file] for _, name in accounts.made(one)}
        if spaced and not names:  # nor which namespace is the operator's
            running |= {name for one in objects[file] for _, name in accounts.made(one)}
        if (names | elsewhere) & running or (running and not names):
            chosen.add(file)
    others = sorted(str(file.relative_to(root)) for file in chosen if root in file.parents)
    return (*given, *(name for name in others if name not in given))


def _modules(root: Path) -> Iterator[str]:
    """Yield the modules that register handlers, one of each folder if these have the same name."""
    found = set[tuple[str, Path]]()
    for file in files(root, "*.py"):
        if _KOPF.search(text := code(file)) and _HANDLER.search(text):
            inside = next((f for f in (root / "operator", root / "src") if f in file.parents), root)
            parts = file.relative_to(inside).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if (module, inside) not in found:  # a file and a package may have one name
                yield module
            found.add((module, inside))


def twins(root: Path, module: str) -> tuple[Path, ...]:
    """Return the file and the package of one name, if a module, or a package of it, has both."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        place = paths.sources(root, parts[0]).joinpath(*parts[:count])
        file = place.with_name(f"{place.name}.py")
        if file.is_file() and (place / "__init__.py").is_file():
            return file, place
    return ()


def code(file: Path) -> str:
    """Return the text of a module; of what Python could not read, either, nothing."""
    try:
        return reading.text(file)
    except KitError:
        return ""


def calls(code: str) -> list[int]:
    """Return the lines of a module that import or name what calls programs."""
    lines = set[int]()
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # ValueError: it has a null byte; the last two: it is nested too deep
    for node in nodes:
        match node:
            case ast.Import(names):
                named = [name.name for name in names]
            case ast.ImportFrom(str(module), names):
                named = [f"{module}.{name.name}" for name in names]
            case ast.Attribute(ast.Name(module), name):
                named = [f"{module}.{name}"]
            case _:
                continue
        if any(map(_CALLS.fullmatch, named)):
            lines.add(node.lineno)
    return sorted(lines)


def _is_own_crd(one: Manifest) -> bool:
    """Return whether it is a CRD of the operator's; kopf's peering is not packaged."""
    match one:
        case {"kind": "CustomResourceDefinition", "spec": {"names": {"kind": str(kind)}}}:
            return kind not in _PEERING
    return False


def hint(root: Path) -> str:
    """Return what to do with a CRD that only Helm reads; empty if no file has one."""
    for file in files(root, "*.yaml", "*.yml"):
        if "{{" in (text := code(file)) and "kind: CustomResourceDefinition" in text:
            return f"; {file} is a template: `helm template` prints what that file has to have"
    return ""


def _found(root: Path, fits: Any, many: Any = all) -> tuple[str, ...]:
    """Return the files of which all, or any, objects fit."""
    objects_of = ((file, manifests(file)) for file in files(root, "*.yaml", "*.yml"))
    return tuple(
        str(file.relative_to(root))
        for file, objects in objects_of
        if objects and many(map(fits, objects))
    )


def _one(fitting: Iterable[bool]) -> bool:
    """Return whether there is one object, which fits: a sample is one object."""
    return [*fitting] == [True]


def manifests(file: Path) -> list[Manifest]:
    """Return the objects in a file; a file that is not YAML, such as a template, has none."""
    try:
        objects = adopted.manifests_in(file, "")
    except KitError:
        return []
    return [manifest for manifest in objects if isinstance(manifest, dict)]


def files(root: Path, *patterns: str) -> Iterator[Path]:
    """Yield the files of a repository that are about its operator."""
    for file in sorted(each for pattern in patterns for each in root.rglob(pattern)):
        folders = file.relative_to(root).parts[:-1]
        if not any(map(_OTHERS.fullmatch, folders)):
            yield file


def sampled(one: Manifest) -> Any:
    """Return the kind of an object that `kubectl apply` takes: it has a name, no `generateName`."""
    match one:
        case {"kind": str(kind), "metadata": {"name": str()}}:
            return kind
    return None
