"""The operator's kubectl plugin as one file, and its archive and manifest for krew.

It is `kopf_kit.kubectl`, and the repository's package `kubectl_NAME` if there is one. The bytes are
the same on every machine: every file has the same date, and nothing is compressed, because a
compressor's output depends on its version.
"""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kopf_kit import kubectl
from kopf_kit.chart import templates
from kopf_kit.crd import declared
from kopf_kit.kubectl.subject import Kind, Right, Subject
from kopf_kit.kubectl.text import Text
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths, reading

#: The word after `kubectl` that runs it.
COMMAND = PROJECT.name.removesuffix("-operator")
#: kubectl finds a plugin by its program's name, in which `_` stands for a dash of the word.
PROGRAM = f"kubectl-{COMMAND.replace('-', '_')}"
ARCHIVE = f"{PROGRAM}.zip"
MANIFEST = f"{COMMAND}.yaml"
#: A repository's own package.
OWN = PROJECT.root / PROGRAM.replace("-", "_")

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = """\
import sys

from kopf_kit.kubectl.subject import Kind, Right, Subject, use
from kopf_kit.kubectl.text import Text

use({subject})

from {package}.__main__ import main

sys.exit(main())
"""
_EXECUTABLE, _PLAIN = 0o100755, 0o100644
#: The formats of texts that are not to be shown.
_SECRET = ("password", "byte", "binary")


def write(folder: Path) -> None:
    """Write the program, and its archive and manifest for krew."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_bytes(program())
    (folder / PROGRAM).chmod(0o755)
    (folder / ARCHIVE).write_bytes(archive())
    (folder / MANIFEST).write_text(manifest())


def program() -> bytes:
    """Return the plugin as a zipapp, which any Python 3.9 or newer can run."""
    common = Path(kubectl.__file__).parent
    sources = {"kopf_kit/__init__.py": b""}
    for name, folder in (("kopf_kit/kubectl", common), (OWN.name, OWN)):
        for file in folder.rglob("*.py"):
            sources[f"{name}/{file.relative_to(folder).as_posix()}"] = file.read_bytes()
    package = OWN.name if OWN.is_dir() else "kopf_kit.kubectl"
    main = _MAIN.format(subject=subject(), package=package).encode()
    files = {"__main__.py": main, **sources}
    return _SHEBANG + _zip({name: (content, _PLAIN) for name, content in files.items()})


def archive() -> bytes:
    """Return the archive that krew downloads, with the program and its licence."""
    own = paths.CHECKOUT / "LICENSE"
    # For an adopted operator, all of it is the kit's.
    is_own = own.is_file() and not PROJECT.adopted
    licence = reading.text(own) if is_own else documents.licence()
    return _zip({PROGRAM: (program(), _EXECUTABLE), "LICENSE": (licence.encode(), _PLAIN)})


def manifest() -> str:
    """Return the manifest for krew's index and for `krew install --manifest`."""
    ours = subject()
    # Windows cannot start a zipapp by its first line.
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    platform = {
        "selector": {"matchExpressions": [systems]},
        "uri": f"{ours.home}/releases/download/v{ours.version}/{ARCHIVE}",
        "sha256": hashlib.sha256(archive()).hexdigest(),
        "bin": PROGRAM,
    }
    first = ours.kinds[0].many
    spec = {
        "version": f"v{ours.version}",
        "homepage": ours.home,
        "shortDescription": f"Say how {first} fare, why, and what to do"[:50],
        "description": f"For those who use {ours.name}: all {ours.many} at a glance, why one is "
        "not as it should be, a check of the operator itself, and a file for those who help. In "
        "English and Korean.",
        "caveats": "It needs Python 3.9 or newer on the PATH as python3.",
        "platforms": [platform],
    }
    written = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": COMMAND},
        "spec": spec,
    }
    return json.dumps(written, indent=2) + "\n"  # JSON is YAML


def subject() -> Subject:
    """Return what the plugin has to know about PROJECT's operator."""
    operator = declared.operator()
    crds = {crd["metadata"]["name"]: crd for crd in operator.definitions}
    home = str(templates.read()["home"])
    page = f"{home}/blob/v{PROJECT.version}/docs/runbooks"
    korean = (PROJECT.root / "docs" / "runbooks.ko.md").is_file()
    flags = (f"--{image.flag}=" for image in PROJECT.images)
    return Subject(
        name=PROJECT.name,
        command=COMMAND,
        version=PROJECT.version,
        home=home,
        runbooks=Text(f"{page}.md", f"{page}{'.ko' * korean}.md"),
        alerts=tuple(re.findall(r"^## (\w+)", _runbooks(), re.MULTILINE)),
        variables=PROJECT.variables,
        # Every operator on plain kopf has variables of these names.
        signs=() if PROJECT.adopted else (*flags, PROJECT.variables),
        kinds=tuple(
            Kind(
                kind.kind,
                kind.many,
                kind.crd,
                kind.version,
                kind.namespaced,
                shown(kind.shown(crds[kind.crd])["schema"]["openAPIV3Schema"]) or {},
            )
            for kind in PROJECT.kinds
        ),
        rights=tuple(
            Right(group, resource, verb, name)
            for _, rule in operator.rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
        ),
        tells=not PROJECT.adopted,
    )


def shown(schema: Mapping[str, Any]) -> Any:
    """Return which texts of a spec the plugin may show (`Kind.shown`); None if all are free texts.

    A free text has no enum, pattern or format in its schema.
    """
    if "properties" in schema and "spec" in schema["properties"] and "kind" in schema["properties"]:
        return shown(schema["properties"]["spec"])
    if "enum" in schema or "pattern" in schema or schema.get("x-kubernetes-int-or-string"):
        return True
    if "format" in schema and schema["format"] not in _SECRET:
        return True
    if "items" in schema:
        return shown(schema["items"])
    fields = dict(schema.get("properties", {}))
    if isinstance(values := schema.get("additionalProperties"), dict):
        fields["*"] = values
    return {name: part for name, field in sorted(fields.items()) if (part := shown(field))} or None


def _runbooks() -> str:
    file = PROJECT.built / "docs" / "runbooks.md"
    return reading.text(file) if file.is_file() else ""


def _zip(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, (content, mode) in sorted(files.items()):
            about = zipfile.ZipInfo(name)  # dated 1980, the earliest date in a zip file
            about.create_system, about.external_attr = 3, mode << 16
            file.writestr(about, content)
    return packed.getvalue()
