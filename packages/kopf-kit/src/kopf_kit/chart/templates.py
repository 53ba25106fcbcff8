"""Generates what the charts of all operators share, and renders the chart with Helm."""

import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from kopf_kit.chart import values
from kopf_kit.project import documents, pod_images, shared, written
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.rig import reading, tools
from kopf_kit.rig.run import KitError, output

_Listed = TypeVar("_Listed")


class _Said(dict[str, Any]):
    """The fields of a file that people write; a field that is missing raises KitError."""

    def __init__(self, file: Path, where: str, fields: dict[str, Any] | None) -> None:
        super().__init__(fields or {})
        self._place = f"{file} has no `{where}"

    def __missing__(self, field: str) -> Any:
        raise KitError(f"{self._place}{field}`, which is shown to users; add it there")


def read(chart: Path = PROJECT.chart, folder: Path = PROJECT.written_chart) -> dict[str, Any]:
    """Return the fields of Chart.yaml.

    Access to a field that is missing raises KitError, which names the file that people write.
    """
    fields = reading.document(chart / "Chart.yaml", written.Chart)
    file = folder / "Chart.yaml"
    annotations = _Said(file, "annotations: ", fields.get("annotations"))
    return _Said(file, "", {**fields, "annotations": annotations})


def listed(annotation: str, shape: type[_Listed]) -> _Listed:
    """Return what an annotation of Artifact Hub lists; raise KitError if it has another shape."""
    name = f"artifacthub.io/{annotation}"
    place = f"{PROJECT.written_chart / 'Chart.yaml'}: {name}"
    return reading.shaped(reading.load(read()["annotations"][name], place), shape, place)


NAME = PROJECT.name

Manifest = dict[str, Any]


@functools.cache
def template(*options: str | Path) -> tuple[Manifest, ...]:
    """Return the objects that Helm installs with these options; do not change them."""
    return rendered_again(*options)


def rendered_again(*options: str | Path) -> tuple[Manifest, ...]:
    """Return the objects that Helm makes of the chart this time."""
    return tuple(documents.load_all(text(*options)))


def text(*options: str | Path) -> str:
    """Return the manifests that Helm installs with these options, with the chart's comments."""
    return output(
        [tools.path("helm"), "template", NAME, PROJECT.chart, "--namespace", NAME, *options],
        timeout=60,
    )


def for_olm(*namespaces: str) -> tuple[Manifest, ...]:
    """Return the objects that Helm installs with OLM's values and these watched namespaces."""
    watched = f"watchNamespaces={json.dumps(namespaces)}"
    # What an author sets otherwise for OLM, such as to have no certificate of Helm's.
    own = PROJECT.root / "olm" / "values.own.yaml"
    files = [PROJECT.olm / "values.yaml", *([own] if own.is_file() else [])]
    return template(*(f"--values={file}" for file in files), "--set-json", watched)


def find(kind: str, name: str, *namespaces: str) -> Manifest:
    """Return a copy of the only object of a kind and name."""
    (chosen,) = (
        manifest
        for manifest in for_olm(*namespaces)
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    )
    return copy.deepcopy(chosen)


def arguments() -> dict[str, str]:
    """Return the flags with which the chart starts the operator; one without a value is true."""
    (container,) = find("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    pairs = (argument.removeprefix("--").partition("=") for argument in container["args"] or ())
    return {name: value if equals else "true" for name, equals, value in pairs}


#: Templates that are rendered once for each kind.
_OF_A_KIND = ("aggregated-roles.yaml",)
#: What is around them in the file.
_GUARD, _END = "{{- if .Values.crds.install }}\n", "{{- end }}\n"
_OWN_VALUES = "values.own.yaml"
#: Where the operator's own values are among those that all operators have.
_MARK = "#@ The values of the operator's Pods.\n\n"
#: The page that the alerts link to, in the repository at the version's tag.
RUNBOOKS = Path("docs", "runbooks.md")
#: What stands above an author's own ones; another kit may name itself otherwise in it.
_OWN_RUNBOOKS = re.compile(r"<!-- [^\n]*Runbooks of your own follow\. -->\n")


def files() -> dict[Path, str]:
    """Return the texts of the files that all projects have, by path."""
    common = {ours: _common(file) for file, ours in _shared() if shared.read(file)}
    return {**common, PROJECT.built / RUNBOOKS: runbooks()}


def leftovers() -> list[Path]:
    """Return files that the project no longer has, such as those of an operator that converts."""
    return [
        ours
        for file, ours in _shared()
        if not shared.read(file) and ours.is_file() and _generated(file) in reading.text(ours)
    ]


def _shared() -> Iterator[tuple[Path, Path]]:
    """Yield the shared files, with where they are in the project if they are for its kind."""
    folders = {"chart": PROJECT.chart, **({"olm": PROJECT.olm} if PROJECT.has_olm else {})}
    for name, folder in folders.items():
        theirs = shared.FOLDER / name
        for file in sorted(theirs.rglob("*")):
            if file.is_file() and file.suffix != ".in":  # kopf_kit.chart.values writes those
                path = shared.renamed(str(file.relative_to(theirs)), PROJECT.kinds[0])
                yield file, folder / path


def _common(file: Path) -> str:
    """Return a file with the project's names and a line that names its source."""
    generated, text = _generated(file), shared.text(file)
    if file.name in _OF_A_KIND:
        head, guard, body = shared.read(file).partition(_GUARD)
        body, end, _ = body.rpartition(_END)
        roles = "---\n".join(_of_kind(body, kind) for kind in PROJECT.kinds)
        text = f"{shared.renamed(head, PROJECT.kinds[0])}{guard}{roles}{end}"
    if "templates" in file.parts:
        return f"{{{{- /* {generated} */ -}}}}\n{text}"
    if file.name == "values.yaml":
        text = text.replace(_MARK, _own_values())
        for line, value in _defaults():
            text = text.replace(f"{line}\n", f"{line.split()[0]} {value}\n")
    return f"# {generated}\n{text}"


def _generated(file: Path) -> str:
    by = "kopf_kit/chart/templates.py"
    return f"Generated by {by} of {shared.source(file)}: do not edit, `kopf-kit generate`"


def runbooks() -> str:
    """Return the page of the runbooks, with a link to its translation if the project has one.

    What its author wrote below the generated part, about the operator's own alerts, stays.
    """
    file = shared.FOLDER / RUNBOOKS.name
    text, page = shared.text(file), PROJECT.root / RUNBOOKS
    if page.with_suffix(".ko.md").is_file():
        text = text.replace("\n", "\n\n[한국어](runbooks.ko.md)\n", 1)
    end = f"<!-- {_generated(file)}. Runbooks of your own follow. -->\n"
    own = reading.text(page) if page.is_file() else ""
    return f"{text}\n{end}{_OWN_RUNBOOKS.split(own)[-1]}"


def _of_kind(text: str, kind: Kind) -> str:
    """Return the users' roles for a kind: editors may also scale, if the kind has a scale."""
    from kopf_kit.crd import declared  # it imports the operator's code

    text = shared.renamed(text, kind)
    if kind.crd in declared.scaled():
        whole = f"resources: [{kind.plural}]\n"
        text = text.replace(whole, f"resources: [{kind.plural}, {kind.plural}/scale]\n")
    return text


def _defaults() -> Iterator[tuple[str, str]]:
    """Yield lines of the values, each with the value that PROJECT has for it."""
    if PROJECT.adopted and (watched := PROJECT.adopted.watch_namespaces):
        yield "watchNamespaces: []", json.dumps(watched)
    if PROJECT.adopted and (environment := PROJECT.adopted.environment):
        yield "environment: {}", json.dumps(environment, ensure_ascii=False)
    if PROJECT.adopted and (ports := PROJECT.adopted.ports):
        yield "extraPorts: []", json.dumps(ports)


def _own_values() -> str:
    """Return the values that only this project has, if any."""
    file = PROJECT.written_chart / _OWN_VALUES
    written = reading.text(file) if file.exists() else ""
    given = reading.shaped(reading.load(written, file) or {}, dict[str, Any], file)
    described = {value.path for value in values.parse(written, file)} if given else set()
    for path in _leaves(given):
        if not any(path[: len(each)] == each for each in described):
            raise KitError(
                f"{file}: nothing describes `{'.'.join(path)}`; write `# -- What it is` above it"
            )
    texts = (pod_images.values(given), written)
    return "".join(f"{text.strip()}\n\n" for text in texts if text)


def _leaves(part: dict[str, Any], *above: str) -> Iterator[tuple[str, ...]]:
    for name, value in part.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, *above, name)
        else:
            yield (*above, name)
