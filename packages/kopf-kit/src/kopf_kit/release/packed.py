"""The operator's kubectl plugin as one file.

It is `kopf_kit.kubectl`, with the advice of its `advice.yaml` and of the repository's, if it has
one. The bytes are the same on every machine: every file has the same date, and nothing is
compressed, because a compressor's output depends on its version.
"""

import io
import re
import string
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kopf_kit import kubectl
from kopf_kit.chart import templates
from kopf_kit.crd import declared
from kopf_kit.kubectl.subject import Advice, Entry, Kind, Right, Subject
from kopf_kit.kubectl.text import Text
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

#: The word after `kubectl` that runs it.
COMMAND = PROJECT.name.removesuffix("-operator")
#: kubectl finds a plugin by its program's name, in which `_` stands for a dash of the word.
PROGRAM = f"kubectl-{COMMAND.replace('-', '_')}"
#: What a repository knows of its own reasons, Events and Pods.
ADVICE = PROJECT.root / "advice.yaml"

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = """\
import sys

from kopf_kit.kubectl.subject import Advice, Entry, Kind, Right, Subject, use
from kopf_kit.kubectl.text import Text

use({subject})

from kopf_kit.kubectl.__main__ import main

sys.exit(main())
"""
#: What the kit knows of the runtime's reasons.
KNOWN = Path(kubectl.__file__).with_name("advice.yaml")
#: What may be filled into the sentences of `advice.yaml`: about an object, and about a Pod.
WORDS = {"name", "namespace", "command", "operator", "many", "home"}
POD_WORDS = {"namespace", "pod", "node"}
RETRIED = " The operator tries again by itself."
#: The formats of texts that are not to be shown.
_SECRET = ("password", "byte", "binary")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of `advice.yaml`; `subject.Entry` describes most fields."""

    of: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    do: str
    means: str = ""
    message: str = ""
    alert: str = ""
    #: Whether the operator tries again by itself.
    retried: bool = False

    def check(self, file: Path, words: set[str]) -> None:
        """Raise KitError if a sentence or the pattern cannot be used."""
        try:
            re.compile(self.message)
            texts = (self.do, self.means)
            fields = {field[1] for text in texts for field in string.Formatter().parse(text)}
            if fields - words - {None}:
                known = ", ".join(f"{{{word}}}" for word in sorted(words))
                raise ValueError(f"a sentence may contain {known}, and no other field")
        except (re.error, ValueError) as error:
            raise KitError(f"{file}: the entry of {', '.join(self.of)}: {error}") from error


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """The content of `advice.yaml`."""

    reasons: list[_Entry] = []
    events: list[_Entry] = []
    pods: list[_Entry] = []
    #: The alert of the reasons that name none.
    alert: str = ""


def write(folder: Path) -> None:
    """Write the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_bytes(program())
    (folder / PROGRAM).chmod(0o755)


def program() -> bytes:
    """Return the plugin as a zipapp, which any Python 3.9 or newer can run."""
    common = Path(kubectl.__file__).parent
    sources = {"kopf_kit/__init__.py": b""}
    for file in common.glob("*.py"):
        sources[f"kopf_kit/kubectl/{file.name}"] = file.read_bytes()
    main = _MAIN.format(subject=subject()).encode()
    files = {"__main__.py": main, **sources}
    return _SHEBANG + _zip(files)


def subject() -> Subject:
    """Return what the plugin has to know about PROJECT's operator."""
    operator = declared.operator()
    crds = {crd["metadata"]["name"]: crd for crd in operator.definitions}
    home = str(templates.read()["home"])
    flags = (f"--{image.flag}=" for image in PROJECT.images)
    alerts = tuple(re.findall(r"^## (\w+)", _runbooks(), re.MULTILINE))
    return Subject(
        name=PROJECT.name,
        command=COMMAND,
        version=PROJECT.version,
        home=home,
        runbooks=f"{home}/blob/v{PROJECT.version}/docs/runbooks.md",
        alerts=alerts,
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
        advice=advice(*([ADVICE] if ADVICE.is_file() else []), KNOWN, alerts=alerts),
    )


def advice(*files: Path, alerts: Sequence[str]) -> Advice:
    """Return what files know, the first one's entries first; raise KitError on one that is wrong.

    Of the alerts that they name by the ends of their names, those of the chart stay.
    """
    written = [reading.converted(reading.document(file, dict), _Written, file) for file in files]
    default = next((content.alert for content in written if content.alert), "")

    def full(name: str) -> str:
        return next((it for it in alerts if name and it.endswith(f"Operator{name}")), "")

    def entries(section: str) -> Iterator[Entry]:
        for file, content in zip(files, written, strict=True):
            for part in getattr(content, section):
                part.check(file, POD_WORDS if section == "pods" else WORDS)
                alert = full(part.alert) or full(default) if section == "reasons" else ""
                do = Text(part.do + RETRIED * part.retried)
                yield Entry(part.of, do, Text(part.means), part.message, alert)

    return Advice(*(tuple(entries(part)) for part in ("pods", "reasons", "events")))


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


def _zip(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, content in sorted(files.items()):
            about = zipfile.ZipInfo(name)  # dated 1980, the earliest date in a zip file
            about.create_system, about.external_attr = 3, 0o100644 << 16
            file.writestr(about, content)
    return packed.getvalue()
