"""The files of `reference/`, which all operators share, with a project's own names in them.

The reference is written for an operator that does not exist: widget-operator serves the kind
`Widget`. A project gets these files with its own names in place of these: the templates and the
values of its charts, its runbooks, OLM's settings, its Dockerfile. `kopf_kit.chart.templates`
and `kopf_kit.image.dockerfile` write them.

Some lines are only for operators on kopf-runtime, some only for those on plain kopf, or for those
of them that `kopf run` starts, and some only for those that the API server asks: at all, for
conversions, or before it stores an object. They are between lines with `#@ if runtime`, `plain`,
`kopf`, `webhooks`, `conversion` or `admission`, or several of these with `and` or `or`, `#@ else`
and `#@ end`, which do not nest.
"""

import re
from pathlib import Path

from kopf_kit.project import adopted, registered
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.rig import paths

FOLDER = paths.KIT / "reference"
#: The template of the alerts that all operators have, each of which has a runbook of its name.
ALERTS = FOLDER / "chart" / "templates" / "monitoring" / "prometheusrule.yaml"
#: All spellings of the reference's name, after its page and the owner of its images.
_HOME = "https://github.com/acme/widget-operator"
_NAMES = (
    _HOME,
    "acme/",
    "widget-operator",
    "WIDGET_OPERATOR_",
    "widget_operator_",
    "WidgetOperator",
)
#: All spellings of its kind's name, the longest first, as one may contain another.
_WORDS = ("widgets.acme.example", "acme.example", "Widgets", "Widget", "widgets", "widget")
#: Files whose commands concern all kinds, such as those that remove everything.
_OF_ALL_KINDS = ("NOTES.txt", "README.md.in")
_KINDS = r"(?:(?:runtime|plain|kopf|webhooks|conversion|admission)(?: and | or )?)+"
_MARKED = re.compile(
    rf"^#@ if ({_KINDS})\n(.*?)(?:^#@ else\n(.*?))?^#@ end\n", re.MULTILINE | re.DOTALL
)
_COMMAND = re.compile(r"^(?:\$ )?kubectl .*$", re.MULTILINE)


def renamed(text: str, kind: Kind) -> str:
    """Return a text of the reference with the names of the project and of a kind."""
    home = _home()
    owner = home.split("/")[3].lower()  # an image's name has no upper case
    ours = home, f"{owner}/", PROJECT.name, PROJECT.variables, PROJECT.metrics, PROJECT.alerts
    names = dict(zip(_NAMES, ours, strict=True))
    kinds = kind.crd, kind.qualified_group, kind.many, kind.kind, kind.plural, kind.kind.lower()
    words = dict(zip(_WORDS, kinds, strict=True))
    # A single pass, so that no replacement is replaced again.
    parts = [*map(re.escape, names), *(rf"\b{re.escape(word)}\b" for word in words)]
    return re.sub("|".join(parts), lambda match: (names | words)[match[0]], text)


def read(file: Path) -> str:
    """Return the lines of a file of the reference that are for the project's kind of operator."""
    return _MARKED.sub(lambda marked: marked[2 if _is(marked[1]) else 3] or "", file.read_text())


def _is(kinds: str) -> bool:
    """Return whether lines for some kinds of operators are for the project's."""
    return any(all(map(_is_one, kind.split(" and "))) for kind in kinds.split(" or "))


def _is_one(kind: str) -> bool:
    match kind:
        case "conversion":
            return bool(PROJECT.converted)
        case "admission":
            return bool(registered.of(PROJECT))
        case "webhooks":
            return bool(PROJECT.converted or registered.of(PROJECT))
    by_kopf = PROJECT.base == "plain" and PROJECT.command[:4] == ("python3", "-m", "kopf", "run")
    return {"kopf": by_kopf}.get(kind, kind == PROJECT.base)


def text(file: Path) -> str:
    """Return the text of a file of the reference with the names of the project and its kinds."""
    renamed_text = renamed(read(file), PROJECT.kinds[0])
    if file.name not in _OF_ALL_KINDS:
        return renamed_text
    return _COMMAND.sub(lambda command: _of_all_kinds(command[0]), renamed_text)


def source(file: Path) -> str:
    """Return the name of a file's source, as the header of the generated file has it."""
    return f"kopf_kit/{file.relative_to(FOLDER.parent)}"


def _home() -> str:
    """Return the page of the chart, such as https://github.com/example/notes-operator."""
    return str(adopted.metadata(PROJECT)["home"])


def _of_all_kinds(command: str) -> str:
    """Return a command about the first kind as one about all."""
    first = PROJECT.kinds[0]
    words = command.split(" ")
    for index, word in enumerate(words):
        if first.crd in word:
            joined = "," if words[index + 1 : index + 2] == ["--all"] else " "
            words[index] = joined.join(word.replace(first.crd, kind.crd) for kind in PROJECT.kinds)
    return " ".join(words)
