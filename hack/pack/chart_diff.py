"""Compares the charts of two releases, or of a release and the checkout, for each scenario.

`make chart-diff` prints the result. A release is a git tag v*, or a chart in a registry, such as
oci://registry.example.com/you/charts/message-operator:0.1.0.
"""

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.pack.history import git
from hack.pack.project import PROJECT
from hack.rig import paths, tools, versions
from hack.rig.run import HackError, output

_OCI = "oci://"

#: These fields differ in every release and tell a user nothing.
_NOISE = re.compile(r"\.(helm\.sh/chart|app\.kubernetes\.io/version|runbook_url)$")

#: Fields that Kubernetes refuses to change, as (kind, path); such an upgrade would fail.
_IMMUTABLE = (
    ("Deployment", ".spec.selector"),
    ("ClusterRoleBinding", ".roleRef"),
    ("RoleBinding", ".roleRef"),
    ("CustomResourceDefinition", ".spec.scope"),
    ("CustomResourceDefinition", ".spec.names.plural"),
    ("CustomResourceDefinition", ".spec.group"),
)


@dataclass(frozen=True)
class Change:
    """A field that an upgrade changes; a value is None if the field does not exist."""

    object: str
    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        """Return the change as a line of text."""
        if not self.path:
            return f"{'+' if self.old is None else '-'} {self.object}"
        if self.old is None:
            return f"  {self.object}{self.path}: {self.new!r} is new"
        if self.new is None:
            return f"  {self.object}{self.path}: {self.old!r} is gone"
        return f"  {self.object}{self.path}: {self.old!r} → {self.new!r}"

    def effects(self) -> Iterator[str]:
        """Yield what the change means to users who upgrade, if it has a special effect."""
        kind = self.object.partition("/")[0]
        if any(kind == k and self.path.startswith(path) for k, path in _IMMUTABLE):
            yield f"the upgrade fails: {self.object}{self.path} cannot be changed"
        if kind == "CustomResourceDefinition" and self.new is None:
            if not self.path:
                yield "the kind is deleted with all its objects, unless it was kept"
            elif self.path.startswith(".spec.versions"):
                yield f"the API loses something:{str(self).removeprefix(' ')}"
        if kind == "Deployment" and self.path.startswith(".spec.template"):
            yield "the operator's Pods are replaced"
            for image in PROJECT.images:
                if f"[--{image.name}-" in self.path:
                    yield f"the {image.name} Pods are replaced"


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every leaf; list items go by their name if they have one."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from flat(below, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for number, below in enumerate(value):
            name = below.get("name", number) if isinstance(below, dict) else _name(below, number)
            yield from flat(below, f"{path}[{name}]")
    else:
        yield path, value


def _name(argument: Any, number: int) -> str | int:
    """Return the name of a command's argument: `--flag` for `--flag=value`."""
    return argument.partition("=")[0] if str(argument).startswith("--") else number


def objects(rendered: str) -> dict[str, dict[str, Any]]:
    """Return the leaves of each object, by kind and name."""
    found = {}
    for manifest in yaml.load_all(rendered, yaml.CSafeLoader):
        if manifest:
            metadata = manifest["metadata"]
            where = "/".join(filter(None, [metadata.get("namespace"), metadata["name"]]))
            found[f"{manifest['kind']}/{where}"] = {
                path: leaf for path, leaf in flat(manifest) if not _NOISE.search(path)
            }
    return found


def changes(old: str, new: str) -> list[Change]:
    """Return the differences between two renderings."""
    before, after = objects(old), objects(new)
    found = [Change(name, "", name, None) for name in before if name not in after]
    found += [Change(name, "", None, name) for name in after if name not in before]
    for name in before.keys() & after.keys():
        for path in sorted(before[name].keys() | after[name].keys()):
            leaves = before[name].get(path), after[name].get(path)
            if leaves[0] != leaves[1]:
                found.append(Change(name, path, *leaves))
    return sorted(found, key=lambda change: (change.object, change.path))


def values_changes(old: Path, new: Path) -> list[Change]:
    """Return the values that are new, gone, or have another default."""
    before, after = (
        dict(flat(yaml.safe_load((chart / "values.yaml").read_text()))) for chart in (old, new)
    )
    return [
        Change("values", path, before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) or (path in before) != (path in after)
    ]


def render(chart: Path, values: Path | None) -> str:
    """Return the manifests that Helm renders; raise HackError with Helm's error."""
    options = ["--values", str(values)] if values else []
    done = subprocess.run(
        [str(tools.path("helm3")), "template", "demo", str(chart), "--namespace", "operators",
         "--kube-version", versions.NEWEST, *options],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise HackError(done.stderr.strip())
    return done.stdout


def get(release: str, folder: Path) -> Path:
    """Put a release's chart into a folder and return it; raise HackError without one."""
    return _pull(release, folder) if release.startswith(_OCI) else extract(release, folder)


def _pull(ref: str, folder: Path) -> Path:
    name = ref.rpartition("/")[2].partition("@")[0].partition(":")[0]
    plain = ("--plain-http",) if ref.startswith(f"{_OCI}localhost:") else ()
    command = (tools.path("helm3"), "pull", ref, "--untar", "--untardir", folder, *plain)
    try:
        output(command, timeout=300)
    except HackError as error:
        raise HackError(
            f"{ref} cannot be pulled; name a chart with its version, for example "
            f"{_OCI}registry.example.com/you/charts/{PROJECT.name}:{PROJECT.version}:\n{error}"
        ) from error
    return folder / name


def extract(tag: str, folder: Path, repository: Path = paths.CHECKOUT) -> Path:
    """Extract a tag's chart into a folder and return it; raise HackError without one."""
    if git(repository, "rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}").returncode:
        raise HackError(
            f"there is no tag or commit {tag}; `git tag --list 'v*'` lists the releases"
        )
    chart = PROJECT.chart.relative_to(paths.CHECKOUT)
    done = git(repository, "archive", tag, str(chart))
    if done.returncode:
        raise HackError(f"{tag} has no chart: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / chart


def report(old: Path, new: Path, scenarios: Path = PROJECT.chart / "ci") -> Iterator[str]:
    """Yield the changes of an upgrade from one chart to another, line by line."""
    if found := values_changes(old, new):
        yield "values.yaml"
        yield from map(str, found)
    for scenario in sorted(scenarios.glob("*-values.yaml")):
        name = scenario.name.removesuffix("-values.yaml")
        rendered = []
        for which, chart in (("older", old), ("newer", new)):
            try:
                rendered.append(render(chart, scenario))
            except HackError as error:
                yield f"{name}: refused by the {which} chart: {error}"
        if len(rendered) < 2:
            continue
        found = changes(*rendered)
        yield f"{name}: {len(found) or 'no'} changes"
        yield from map(str, found)
        yield from sorted({f"  ! {effect}" for change in found for effect in change.effects()})
