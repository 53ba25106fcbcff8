"""Generates what the charts of all operators share, and their runbooks, from the reference's.

The reference is this checkout's own project. Only its chart is edited by hand: other projects get
its templates and values.yaml with their own names. A project has only these of its own:
`templates/_operator.tpl`, the templates generated from its code (`kopf_kit.pack.declared`), and the
values of its Pods: their images, and what `values.own.yaml` says.
docs/decisions/0023-one-source-for-the-charts.md explains why.
"""

import re
from pathlib import Path

import yaml

from kopf_kit.pack import pod_images
from kopf_kit.pack.project import PROJECT, REFERENCE, Kind, Project
from kopf_kit.rig import paths

_BY = "kopf_kit/pack/chart_templates.py of {}: do not edit, `make generate`"
#: Templates that each project has of its own.
_OWN = ("_operator.tpl", "_rules.tpl", "_images.tpl", "_sample.tpl", "crd.yaml")
#: Templates that are rendered once for each kind.
_OF_A_KIND = ("aggregated-roles.yaml",)
#: Files whose commands concern all kinds, such as those that remove everything.
_OF_ALL_KINDS = ("NOTES.txt", "README.md")
_COMMAND = re.compile(r"^(?:\$ )?kubectl .*$", re.MULTILINE)
#: Files of the CRD's chart that are not generated from the operator's chart.
_OF_THE_CRDS_CHART = tuple(map(Path, (".helmignore", "README.md", "templates/NOTES.txt")))
#: The values with which the bundle renders the chart, and the settings of the catalog pipeline.
_OF_OLM = tuple(map(Path, ("values.yaml", "monitoring-values.yaml", "ci.yaml")))
_OWN_VALUES = "values.own.yaml"
#: The template of the alerts, each of which has a runbook of its name.
_ALERTS = Path("templates", "monitoring", "prometheusrule.yaml")
_RUNBOOKS = Path("docs", "runbooks")
#: What `kopf_kit.pack.chart_docs` writes at the end of the reference's README of the CRD's chart.
_TABLES = re.compile(r"(?<=^<!-- values -->\n).+\Z", re.MULTILINE | re.DOTALL)
#: The link to a page's translation, which only the reference has.
_TRANSLATION = re.compile(r"^\[한국어\]\(.*\)\n\n", re.MULTILINE)


def files() -> dict[Path, str]:
    """Return the texts of the files that the project's charts share with the reference's."""
    if PROJECT.root == REFERENCE.root:
        return {}
    folders = (
        (REFERENCE.chart, PROJECT.chart),
        (REFERENCE.crds_chart, PROJECT.crds_chart),
        (REFERENCE.olm, PROJECT.olm),
        (REFERENCE.root / _RUNBOOKS, PROJECT.built / _RUNBOOKS),
    )
    return {
        **{
            ours / renamed(_written(file, theirs), PROJECT.kinds[0]): _common(file)
            for theirs, ours in folders
            for file in _shared()
            if file.is_relative_to(theirs)
        },
        PROJECT.chart / "values.yaml": _values(),
    }


def sources() -> list[Path]:
    """Return the reference's files from which these texts are generated."""
    return [*_shared(), REFERENCE.chart / "values.yaml", REFERENCE.chart / "Chart.yaml"]


def _shared() -> list[Path]:
    """Return the reference's files that other projects have under their own names."""
    templates = (REFERENCE.chart / "templates").rglob("*")
    return [
        REFERENCE.chart / ".helmignore",
        *(file for file in sorted(templates) if file.is_file() and file.name not in _OWN),
        *(REFERENCE.crds_chart / name for name in _OF_THE_CRDS_CHART),
        *(REFERENCE.olm / name for name in _OF_OLM),
        *(REFERENCE.root / _RUNBOOKS / f"{page}.md" for page in ("README", *_alerts())),
    ]


def _alerts() -> list[str]:
    """Return the names of the reference's alerts that all operators have."""
    return re.findall(r"^- alert: (\w+)$", (REFERENCE.chart / _ALERTS).read_text(), re.MULTILINE)


def _written(file: Path, folder: Path) -> str:
    """Return the path below a folder: a README without its tables is one that gets them."""
    return f"{file.relative_to(folder)}{'.in' if _TABLES.search(file.read_text()) else ''}"


def _common(file: Path) -> str:
    """Return a file of the reference with the project's names and a line that names its source."""
    text = _TABLES.sub("", _TRANSLATION.sub("", file.read_text()))
    text = renamed(text, PROJECT.kinds[0])
    if file.name in _OF_A_KIND:
        text = "---\n".join(_of_kind(file.read_text(), kind) for kind in PROJECT.kinds)
    elif file.name in _OF_ALL_KINDS:
        text = _COMMAND.sub(lambda command: _of_all_kinds(command[0]), text)
    if "templates" in file.parts:
        return f"{{{{- /* {_generated(file)} */ -}}}}\n{text}"
    if ".md" in file.suffixes:
        return f"<!-- {_generated(file)} -->\n{text}"
    return f"# {_generated(file)}\n{text}"


def _of_kind(text: str, kind: Kind) -> str:
    """Return the users' roles for a kind: editors may also scale, if the kind has a scale."""
    from kopf_kit.pack import declared  # it imports the runtime, which `sources` does not need

    text = renamed(text, kind)
    if kind.crd in declared.scaled():
        whole = f"resources: [{kind.plural}]\n"
        text = text.replace(whole, f"resources: [{kind.plural}, {kind.plural}/scale]\n")
    return text


def _of_all_kinds(command: str) -> str:
    """Return a command about the first kind as one about all."""
    first = PROJECT.kinds[0]
    words = command.split(" ")
    for index, word in enumerate(words):
        if word == first.plural:
            words[index] = ",".join(kind.plural for kind in PROJECT.kinds)
        elif first.crd in word:
            words[index] = " ".join(word.replace(first.crd, kind.crd) for kind in PROJECT.kinds)
    return " ".join(words)


def _generated(file: Path) -> str:
    return f"Generated by {_BY.format(file.relative_to(paths.CHECKOUT))}"


def _values() -> str:
    """Return values.yaml, with the project's own values in place of the reference's."""
    file = REFERENCE.chart / "values.yaml"
    keys = "|".join(sorted({image.values.partition(".")[0] for image in REFERENCE.images}))
    blocks = re.compile(rf"^(?:{keys}):\n(?:(?: .*)?\n)*", re.MULTILINE)
    before, *after = (renamed(part, PROJECT.kinds[0]) for part in blocks.split(file.read_text()))
    text = "".join([before, _own_values(), *after])
    return f"# {_generated(file)}\n{text}"


def _own_values() -> str:
    """Return the values that only this project has, if any."""
    file = PROJECT.written_chart / _OWN_VALUES
    written = file.read_text() if file.is_file() else ""
    texts = (pod_images.values(yaml.safe_load(written) or {}), written)
    return "".join(f"{text.strip()}\n\n" for text in texts if text)


def renamed(text: str, kind: Kind) -> str:
    """Return a text of the reference's chart with the names of the project and of a kind."""
    names = dict(zip(_names(REFERENCE), _names(PROJECT), strict=True))
    words = dict(zip(_words(REFERENCE.kinds[0]), _words(kind), strict=True))
    # A single pass, so that no replacement is replaced again.
    parts = [*map(re.escape, names), *(rf"\b{re.escape(word)}\b" for word in words)]
    return re.sub("|".join(parts), lambda match: (names | words)[match[0]], text)


def _names(project: Project) -> tuple[str, ...]:
    """Return all spellings of a project's name, and the owner of its images."""
    owner = f"{_owner(project)}/"
    return owner, project.name, project.variables, project.metrics, project.alerts


def _owner(project: Project) -> str:
    """Return the owner of the chart's home, such as myorg for https://github.com/myorg/…."""
    home: str = yaml.safe_load((project.written_chart / "Chart.yaml").read_text())["home"]
    return home.split("/")[3]


def _words(kind: Kind) -> tuple[str, ...]:
    """Return all spellings of a kind's name, the longest first, as one may contain another."""
    return kind.crd, kind.qualified_group, kind.many, kind.kind, kind.plural, kind.kind.lower()
