"""What `kopf-kit adopt` writes of an operator on plain kopf: its PROJECT, and nothing else."""

import re
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from kopf_kit.pack import adopted, documents, registered, watched
from kopf_kit.rig import names
from kopf_kit.rig.run import HackError, answer
from kopf_kit.template import repository
from kopf_kit.template.answers import check_name

Manifest = dict[str, Any]

_PROJECT = """\
# What this repository is, for kopf-kit and for those who read it. The form is that of kubebuilder and
# operator-sdk: https://book.kubebuilder.io/reference/project-config
cliVersion: {kit}
domain: {domain}
layout:
  - {plugin}
plugins:
  # An operator on plain kopf, packaged as it is.
  {plugin}:
    # The module that `kopf run -m` runs.
    module: {module}
    # The version of the operator and of its chart, and its day.
    version: {version}
    created: "{today}"
    # The page of the operator; images are named after its owner.
    home: {home}
    description: {description}
    crds: [{crds}]
    # The manifests of each kind; the first one is what the documents show.
    samples:
{samples}
{optional}projectName: {name}
resources:
{resources}version: "3"
"""  # noqa: E501
_REQUIREMENTS = "    # What the image installs.\n    requirements: {}\n"
_RIGHTS = "    # What the handlers do beyond what kopf itself does.\n    rights: {}\n"
#: The version where nothing says it.
_FIRST = "0.1.0"
_STAGE = re.compile(r"^\s*FROM\s", re.MULTILINE | re.IGNORECASE)
_HOME = re.compile(r"(?:https://|ssh://git@|git@)([^/:\s]+)[/:]([^/\s]+(?:/[^/\s]+)+?)(?:\.git)?/?")
_HANDLER = re.compile(r"^@kopf\.(on\.\w+|daemon|timer|index)\(", re.MULTILINE)
#: The kinds by which operators on kopf know of each other; it has one replica, and needs none.
_PEERING = ("KopfPeering", "ClusterKopfPeering")
#: Folders of a repository that are not about its operator.
_OTHERS = {"build", "dist", "node_modules", "venv", "tests", "test"}


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
    rights: str = ""
    #: Empty if the repository does not say it.
    version: str = ""
    description: str = ""


def find(root: Path, said: Operator, *, run: bool = True) -> Operator:
    """Return what an author says, completed with what the repository says.

    With `run`, its Python is asked for the installed version.
    """
    file = root / "pyproject.toml"
    about = _about(file) if file.is_file() else {}
    remote = answer(["git", "-C", root, "remote", "get-url", "origin"]) or ""
    pages = (_HOME.fullmatch(page) for page in (*about.get("urls", {}).values(), remote))
    home = next((f"https://{'/'.join(page.groups())}" for page in pages if page), "")
    crds = said.crds or _found(root, _is_own_crd)
    kinds = {
        crd["spec"]["names"]["kind"] for name in crds for crd in adopted.definitions_in(root / name)
    }
    modules = [*_modules(root)]
    installed = any((root / name).is_file() for name in ("Dockerfile", "uv.lock"))
    required = "requirements.txt" if (root / "requirements.txt").is_file() else ""
    return replace(
        said,
        name=said.name or str(about.get("name") or (said.home or home).rpartition("/")[2]).lower(),
        module=said.module or (modules[0] if len(modules) == 1 else ""),
        home=said.home or home,
        crds=crds,
        samples=said.samples or _found(root, lambda one: _sampled(one) in kinds),
        requirements=said.requirements or ("" if installed else required),
        version=_version(file, about, run=run),
        description=said.description or about.get("description", ""),
    )


def _about(file: Path) -> dict[str, Any]:
    """Return the table `project` of a pyproject.toml."""
    try:
        about: dict[str, Any] = tomllib.loads(file.read_text()).get("project", {})
    except (UnicodeError, tomllib.TOMLDecodeError) as error:
        raise HackError(f"{file} is not TOML: {error}; nothing was written") from error
    return about


def _version(file: Path, about: dict[str, Any], *, run: bool) -> str:
    """Return the version in three numbers, as Helm takes it; empty if nothing says it.

    Where pyproject.toml leaves it to the build, it is that of the installed package, or else git's
    last tag.
    """
    if "version" in about:
        try:
            return _semantic(about["version"])
        except (InvalidVersion, TypeError) as error:
            raise HackError(
                f"{file} has the version `{about['version']}`; write one such as 1.2.0, which the "
                "chart gets too"
            ) from error
    name = about.get("name", "")
    reader = f"from importlib.metadata import version; print(version({name!r}))"
    tag = ("git", "-C", file.parent, "describe", "--tags", "--abbrev=0")
    for command in (*([(registered.python(file.parent), "-c", reader)] if run else []), tag):
        with suppress(InvalidVersion):
            return _semantic(answer(command) or "")
    return ""


def _semantic(version: str) -> str:
    found = Version(version)
    return f"{found.major}.{found.minor}.{found.micro}"


def project(operator: Operator, *, run: bool = True) -> tuple[str, list[str]]:
    """Return the text of PROJECT, and sentences on what it leaves out; raise HackError.

    With `run`, the module is imported, which tells what its handlers watch.
    """
    root = operator.root
    check_name(operator.name)
    if not _HOME.fullmatch(operator.home):
        raise HackError(
            f"`{operator.home}` is not a page such as https://github.com/acme/notes-operator; "
            "name one with --home"
        )
    crds = _crds(operator)
    if (chart := root / "charts" / operator.name / "values.yaml").is_file():
        raise HackError(
            f"{chart.parent} is a chart already, and the kit's would have its name: name another "
            "with --name"
        )
    _check_image(operator)
    handlers = watched.handlers(operator.module, root, crds) if run else watched.Handlers()
    if operator.rights:
        watched.given(root / operator.rights)
    sampled = {_sampled(obj) for name in operator.samples for obj in _manifests(root / name)}
    # The first kind is the one that the documents show.
    crds.sort(key=lambda crd: crd["spec"]["names"]["kind"] not in sampled)
    resources = [_resource(crd) for crd in crds]
    kinds = [resource["kind"] for resource in resources]
    optional = _REQUIREMENTS.format(operator.requirements) if operator.requirements else ""
    optional += _RIGHTS.format(operator.rights) if operator.rights else ""
    served = (
        f"A Kubernetes operator that serves the kind{'s' * (len(kinds) > 1)} {', '.join(kinds)}"
    )
    text = _PROJECT.format(
        kit=repository.version(),
        domain=resources[0]["domain"],
        plugin=names.PLAIN,
        module=operator.module,
        version=operator.version or _FIRST,
        today=f"{datetime.now(UTC):%Y-%m-%d}",
        home=operator.home,
        description=_scalar(operator.description or served),
        crds=", ".join(operator.crds),
        samples="\n".join(_samples(operator, kinds)),
        optional=optional,
        name=operator.name,
        resources=textwrap.indent(documents.text(resources), "  "),
    )
    left_out = []
    if not operator.version:
        left_out.append(f"nothing says the version, so it is {_FIRST}: change it in PROJECT")
    if hidden := [kind for kind in kinds if kind not in sampled]:
        left_out.append(
            f"OLM's consoles do not show {', '.join(hidden)}, of which there is no sample: name a "
            "file with --sample if users create one"
        )
    if wide := [crd["spec"]["names"]["kind"] for crd in crds if crd["spec"]["scope"] == "Cluster"]:
        left_out.append(
            f"objects of {', '.join(wide)} are in no namespace, so the operator has to watch the "
            "whole cluster: the chart's value watchNamespaces would not give it the rights"
        )
    if handlers.unknown:
        left_out.append(
            f"handlers watch {', '.join(handlers.unknown)}, whose plural no file says: give the "
            "right to list, watch and patch them with --rights"
        )
    if handlers.webhooks:
        left_out.append(
            f"the API server will ask the webhooks {', '.join(handlers.webhooks)}: cert-manager "
            "makes their certificate, unless the chart's value webhooks.certificate is `secret`"
        )
    left_out += [
        f"{file.relative_to(root)} makes kopf's peering mandatory, so the operator would wait for "
        "it, and has one replica without: in a later function with @kopf.on.startup(), set "
        "`settings.peering.mandatory` to False"
        for file in _files(root, "*.py")
        if "peering.mandatory = True" in file.read_text(errors="replace")
    ]
    if not operator.rights:
        left_out.append("what handlers write is not known: name a Role that has it with --rights")
    return text, left_out


def _crds(operator: Operator) -> list[Manifest]:
    """Return the CRDs; raise HackError where two are of one kind, or none is there."""
    files: dict[str, str] = {}
    found = []
    for name in operator.crds:
        for crd in adopted.definitions_in(operator.root / name):
            kind = crd["spec"]["names"]["kind"]
            if kind in files:
                raise HackError(
                    f"{files[kind]} and {name} both have the kind {kind}; name one with --crd"
                )
            files[kind] = name
            found.append(crd)
    if not found:
        raise HackError(
            f"{operator.root} has no CustomResourceDefinition in YAML: name its file with --crd"
        )
    return found


def _check_image(operator: Operator) -> None:
    """Raise HackError where nothing says what the image holds, or where it runs as root."""
    file = operator.root / "Dockerfile"
    if operator.requirements:
        if not (operator.root / operator.requirements).is_file():
            raise HackError(f"{operator.root / operator.requirements} does not exist")
    elif file.is_file():
        last_stage = _STAGE.split(file.read_text())[-1]
        users = re.findall(r"^\s*USER\s+(\S+)", last_stage, re.MULTILINE | re.IGNORECASE)
        user = users[-1].partition(":")[0] if users else "root"
        if not user.isdigit() or user == "0":
            raise HackError(
                f"{file} runs as {user}, and the kubelet starts the operator only with a numeric "
                "user that is not root; end it with one, such as `USER 65532`, or name with "
                "--requirements what an image of the kit's installs"
            )
    elif not (operator.root / "uv.lock").is_file():
        raise HackError(
            f"{operator.root} has no Dockerfile, uv.lock or requirements.txt, so nothing says what "
            "the image installs; name a file with --requirements"
        )


def _samples(operator: Operator, kinds: list[str]) -> Iterator[str]:
    """Yield the lines of the samples of each kind."""
    files: dict[str, list[str]] = {kind: [] for kind in kinds}
    for name in operator.samples:
        found = [*_manifests(operator.root / name)]
        kind = _sampled(found[0]) if len(found) == 1 else None
        if kind not in files:
            raise HackError(
                f"{name} must be one object of {', '.join(kinds)} with a name, to be a sample"
            )
        files[kind].append(name)
    for kind, listed in files.items():
        if not listed and kind == kinds[0]:
            raise HackError(f"there is no sample of {kind}; name a file with one with --sample")
        several = f"[{', '.join(listed)}]"
        yield f"      {kind}: {listed[0] if len(listed) == 1 else several}"


def _sampled(one: Manifest) -> Any:
    """Return the kind of an object that `kubectl apply` takes: it has a name, no `generateName`."""
    match one:
        case {"kind": str(kind), "metadata": {"name": str()}}:
            return kind
    return None


def _resource(crd: Manifest) -> Manifest:
    """Return a kind in the form of kubebuilder, whose groups end with a domain."""
    spec = crd["spec"]
    first, _, rest = spec["group"].partition(".")
    group = {"group": first} if "." in rest else {}
    return {
        "api": {"crdVersion": "v1", "namespaced": spec["scope"] == "Namespaced"},
        "controller": True,
        "domain": rest if group else spec["group"],
        **group,
        "kind": spec["names"]["kind"],
        "plural": spec["names"]["plural"],
        "version": adopted.stored(crd)["name"],
    }


def _modules(root: Path) -> Iterator[str]:
    """Yield the modules that register handlers."""
    for file in _files(root, "*.py"):
        if _HANDLER.search(file.read_text(errors="replace")):
            inside = next((f for f in (root / "operator", root / "src") if f in file.parents), root)
            parts = file.relative_to(inside).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_own_crd(one: Manifest) -> bool:
    """Return whether it is a CRD of the operator's; kopf's peering is not packaged."""
    match one:
        case {"kind": "CustomResourceDefinition", "spec": {"names": {"kind": str(kind)}}}:
            return kind not in _PEERING
    return False


def _found(root: Path, fits: Any) -> tuple[str, ...]:
    """Return the files of which all objects fit."""
    files = ((file, [*_manifests(file)]) for file in _files(root, "*.yaml", "*.yml"))
    return tuple(
        str(file.relative_to(root))
        for file, objects in files
        if objects and all(map(fits, objects))
    )


def _manifests(file: Path) -> Iterator[Manifest]:
    """Yield the objects in a file; a file that is not YAML, such as a template, has none."""
    try:
        objects = documents.load_all(file.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return
    yield from (manifest for manifest in objects if isinstance(manifest, dict))


def _files(root: Path, *patterns: str) -> Iterator[Path]:
    for file in sorted(each for pattern in patterns for each in root.rglob(pattern)):
        folders = file.relative_to(root).parts[:-1]
        if not any(each in _OTHERS or each.startswith(".") for each in folders):
            yield file


def _scalar(text: str) -> str:
    return documents.scalar(text)
