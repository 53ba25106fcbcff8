"""Whether OLM and stored objects would take a kind as it is now, after the last release's."""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kopf_kit.crd import declared
from kopf_kit.project import adopted, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.steps import say

Schema = dict[str, Any]

_LEAST = ("minimum", "minLength", "minProperties", "minItems")
_MOST = ("maximum", "maxLength", "maxProperties", "maxItems")

#: Keywords that may change or that have a rule of their own.
_RULED = {
    *("description", "type", "default", "required", "enum", *_LEAST, *_MOST),
    *("properties", "items"),
}


def unsafe(old: Schema, new: Schema) -> Iterator[str]:
    """Yield a sentence for each change that is refused; it begins with the field."""
    if old["spec"]["scope"] != new["spec"]["scope"]:
        yield f"spec.scope: {old['spec']['scope']} may not become {new['spec']['scope']}"
    versions = {version["name"]: version for version in new["spec"]["versions"]}
    for version in old["spec"]["versions"]:
        name = version["name"]
        if name not in versions:
            # Any version that is served may have been stored. One that is not was given up before.
            if version["served"]:
                yield f"spec.versions: {name} may not be removed while it is served"
            continue
        schemas = [served["schema"]["openAPIV3Schema"] for served in (version, versions[name])]
        yield from _fields(schemas[0], schemas[1], name)


def _fields(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the refused changes of a field and of the fields below it."""
    yield from _field(old, new, where)
    before, after = _below(old), _below(new)
    for name, field in before.items():
        if name in after:
            yield from _fields(field, after[name], f"{where}.{name}")
        else:
            yield f"{where}.{name}: may not be removed"
    if old.get("x-kubernetes-preserve-unknown-fields"):
        for name in sorted(after.keys() - before.keys()):
            yield f"{where}.{name}: may not be described, because it could be anything"


def _below(schema: Schema) -> dict[str, Schema]:
    below = dict(schema.get("properties", {}))
    if "items" in schema:
        below["items"] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        below["additionalProperties"] = schema["additionalProperties"]
    return below


def _field(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the refused changes of the field itself."""
    if old.get("type") != new.get("type"):
        yield f"{where}: type {old.get('type')} may not become {new.get('type')}"
    if old.get("default") != new.get("default"):
        yield f"{where}: default {old.get('default')!r} may not become {new.get('default')!r}"
    if added := sorted(set(new.get("required", [])) - set(old.get("required", []))):
        yield f"{where}: {', '.join(added)} may not become required"
    if "enum" in new and "enum" not in old:
        yield f"{where}: may not be restricted to an enum"
    elif lost := [choice for choice in _choices(old) if choice not in _choices(new)]:
        yield f"{where}: enum may not lose {', '.join(sorted(lost))}"
    for bounds, tighter in ((_LEAST, 1), (_MOST, -1)):
        for bound in bounds:
            if bound in new and (bound not in old or (new[bound] - old[bound]) * tighter > 0):
                yield f"{where}: {bound} {old.get(bound)} may not become {new[bound]}"
    yield from _others(old, new, where)


def _choices(schema: Schema) -> list[str]:
    """Return the values of an enum as JSON: they may be of any type, and 1 is not true."""
    return [
        json.dumps(choice, ensure_ascii=False, sort_keys=True) for choice in schema.get("enum", [])
    ]


def _others(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the changes of a field that no other rule covers."""
    for key in sorted((old.keys() | new.keys()) - _RULED):
        values = [old.get(key), new.get(key)]
        schemas = key == "additionalProperties" and all(isinstance(value, dict) for value in values)
        if not schemas and values[0] != values[1]:
            yield f"{where}: {key} may not change"


Manifest = dict[str, Any]


def problems() -> Iterator[str]:
    """Yield a sentence for each breaking change since the last release, unless it is accepted."""
    tag = releases.last(PROJECT.root)
    if not tag or (former := _released(tag)) is None:
        return
    breaking = list(changes(former, definitions()))
    for change in breaking:
        if not PROJECT.accepted.get(change):
            yield (
                f"{change} since {tag}. Declare a new version of the kind, and serve this one "
                "beside it; or, if nobody can be hit, say why in PROJECT, where `accepted` has "
                "this change as a key"
            )
    for change in PROJECT.accepted.keys() - set(breaking):
        say(f"note: PROJECT accepts {change!r}, which has not changed since {tag}: take it out")


def changes(former: list[Manifest], present: list[Manifest]) -> Iterator[str]:
    """Yield the changes from some CRDs to others that break a user or an object."""
    now = {crd["metadata"]["name"]: crd for crd in present}
    for crd in former:
        if (name := crd["metadata"]["name"]) in now:
            breaking = (*unsafe(crd, now[name]), *_abandoned(crd, now[name]))
            yield from (f"{name}: {change}" for change in breaking)
        else:
            yield f"{name}: may not be removed"


def _abandoned(former: Manifest, present: Manifest) -> Iterator[str]:
    """Yield the versions whose users had no release in which to move to another one."""
    before, now = (
        {version["name"]: version["served"] for version in crd["spec"]["versions"]}
        for crd in (former, present)
    )
    if not any(before[name] and served for name, served in now.items() if name in before):
        for name in (name for name, served in before.items() if served and name in now):
            yield (
                f"spec.versions: {name} may not stop being served before a release has served "
                "another version beside it"
            )


def definitions() -> list[Manifest]:
    """Return the CRDs of PROJECT's operator."""
    if PROJECT.adopted:
        return adopted.definitions(PROJECT)
    return declared.definitions(declared.of_the_project())


def _released(tag: str) -> list[Manifest] | None:
    """Return the CRDs of a release; None, and a note, if its code cannot be asked any more."""
    archive = releases.git(PROJECT.root, "archive", "--format=tar", tag, ".").stdout
    with tempfile.TemporaryDirectory() as name:
        folder, answer = Path(name, "released"), Path(name, "crds.json")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        if not (folder / "PROJECT").is_file():  # it is older than `kopf-kit adopt`
            say(f"note: {tag} has no PROJECT, so the kinds are not compared with those of then")
            return None
        environment = {key: value for key, value in os.environ.items() if key != "PROJECT"}
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, answer],
            cwd=folder,
            env=environment,
            timeout=120,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            crds: list[Manifest] = json.loads(answer.read_text())
            return crds
    why = (done.stderr.strip().splitlines() or ["it ended"])[-1]
    say(f"note: the kinds are not compared with those of {tag}, whose code cannot be run: {why}")
    return None


if __name__ == "__main__":
    # Before an installed operator, which is today's.
    sys.path.insert(0, str(PROJECT.sources))
    Path(sys.argv[1]).write_text(json.dumps(definitions()))
