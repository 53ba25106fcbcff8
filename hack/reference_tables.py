"""The tables of `reference`: the kinds, the chart's values, the flags and the metrics."""

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from hack.reference_korean import korean
from kopf_kit.pack import chart_docs, declared
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rendered import template
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import parsers

#: Returns the one of two texts, in English and Korean, that a page has.
Say = Callable[[str, str], str]
Body = Callable[[Say], Iterator[str]]


def translated(say: Say, english: str) -> str:
    """Return what the code says, in the language of the page."""
    return say(english, korean(english))


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    """Return a text that is no Markdown, so that `<name>` is not taken for HTML."""
    return text.replace("<", "&lt;")


def table(say: Say, *head: str) -> Iterator[str]:
    """Yield the first lines of a table, with its English head in the language of the page."""
    yield ""
    yield row(*(translated(say, name) for name in head))
    yield "|---" * len(head) + "|"


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(_cell, cells))} |"


# --- The kind -------------------------------------------------------------------------------------


def kinds(say: Say) -> Iterator[str]:
    """Yield the fields of the kinds, from their CustomResourceDefinitions."""
    for definition in declared.definitions(declared.of_the_project()):
        spec = definition["spec"]
        names = [spec["names"]["plural"], *spec["names"].get("shortNames", [])]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield f"\n## {spec['names']['kind']}, `{spec['group']}/{version['name']}`\n"
            yield _prose(translated(say, schema["description"]))
            yield ""
            listed = ", ".join(f"`{name}`" for name in names)
            yield say("`kubectl get` knows it as {}.", "`kubectl get`에서 쓰는 이름: {}.").format(
                listed
            )
            for part in ("spec", "status"):
                yield f"\n### {part}"
                yield from table(say, "field", "type", "default", "allowed", "meaning")
                yield from _fields(say, schema["properties"][part], part)


def _fields(say: Say, schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        default = f"`{field['default']}`" if "default" in field else ""
        meaning = _prose(translated(say, field["description"])) if "description" in field else ""
        yield row(f"`{where}`", _type(say, field), default, _bounds(say, field, where), meaning)
        yield from _fields(say, field, where)
        yield from _fields(say, field.get("items", {}), f"{where}[]")


def _type(say: Say, field: dict[str, Any]) -> str:
    if field["type"] == "array":
        item = _type(say, field["items"])
        return say(f"list of {item}s", f"{item} 목록")
    return str(field["type"])


def _bounds(say: Say, field: dict[str, Any], where: str) -> str:
    words = {
        "minimum": say("at least {}", "{} 이상"),
        "maximum": say("at most {}", "{} 이하"),
        "minLength": say("at least {} characters", "{}자 이상"),
        "maxLength": say("at most {} characters", "{}자 이하"),
        "maxItems": say("at most {} entries", "{}개 이하"),
    }
    bounds = [text.format(field[key]) for key, text in words.items() if key in field]
    bounds += [say(" or ", ", ").join(f"`{value}`" for value in field.get("enum", []))]
    for rule in field.get("x-kubernetes-validations", []):
        # The message of a refusal names the field, and goes on with why, and with what to do.
        what = re.split("[:;] ", rule["message"].removeprefix(f"{where} "))[0]
        bounds.append(say(what.removeprefix("must have "), korean(rule["message"])))
    return ", ".join(filter(None, bounds))


# --- The chart's values ---------------------------------------------------------------------------


def values(say: Say) -> Iterator[str]:
    """Yield the values of the operator's chart, by their sections."""
    for section, listed in itertools.groupby(chart_docs.values(), lambda value: value.section):
        yield f"\n## {translated(say, section)}"
        yield from table(say, "value", "default", "meaning")
        for value in listed:
            default = json.dumps(value.default, ensure_ascii=False)
            yield row(f"`{value.name}`", f"`{default}`", translated(say, value.description))


# --- The operator's program -----------------------------------------------------------------------


def flags(say: Say) -> Iterator[str]:
    """Yield the operator's flags and environment variables."""
    settings = PROJECT.module(f"{PROJECT.package}.settings")
    yield from table(say, "flag", "variable", "default", "meaning")
    several = translated(say, "`WATCH_NAMESPACE`: a list with commas")
    listed = translated(say, "watch this namespace; may be repeated")
    every = translated(say, "watch all namespaces; this is the default")
    dry = translated(
        say,
        "write nothing; print what one pass would change, and end with 0 (nothing), 1 (something) "
        "or 2 (an error)",
    )
    yield row("`--namespace`, `-n`", several, "", listed)
    yield row("`--all-namespaces`, `-A`", "", "", every)
    yield row("`--dry-run`", "", "", dry)
    for field in dataclasses.fields(settings.Settings):
        if about := field.metadata:
            yield row(
                f"`--{field.name.replace('_', '-')} {_values(about)}`",
                f"`{PROJECT.variables}{field.name.upper()}`",
                f"`{about['default']}`" if about["default"] else "",
                translated(say, about["meaning"]),
            )


def _values(about: Mapping[str, Any]) -> str:
    return "true|false" if about["parse"] is parsers.boolean else str(about["metavar"])


# --- Its metrics ----------------------------------------------------------------------------------


class Metric(NamedTuple):
    """A metric by the name of its samples."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


class _Declared(Metrics):
    """Records the metrics that the runtime declares."""

    def __init__(self) -> None:
        self.all: list[Metric] = []
        super().__init__(PROJECT.name)

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        full = self.full(name)
        self.all.append(Metric(f"{full}_total", "counter", labels, text))
        return super().counter(name, text, *labels)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        full = self.full(name)
        self.all.append(Metric(full, "gauge", labels, text))
        return super().gauge(name, text, *labels)

    def histogram(self, name: str, text: str, *labels: str) -> Histogram:
        full = self.full(name)
        self.all.append(Metric(full, "histogram", labels, text))
        return super().histogram(name, text, *labels)


def metrics(say: Say) -> Iterator[str]:
    """Yield the operator's own metrics, then those of the runtime, with the alerts on them."""
    for title, listed in (
        (say("Messages", "Message"), [*_own()]),
        (say("The operator", "오퍼레이터"), _Declared().all),
    ):
        yield f"\n## {title}"
        yield from table(say, "metric", "type", "labels", "meaning", "alerts")
        for metric in listed:
            alerts = (
                f"[{name}](../runbooks{say('', '.ko')}.md#{name.lower()})"
                for name in _alerts(metric.name)
            )
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            meaning = translated(say, metric.meaning)
            yield row(f"`{metric.name}`", metric.type, labels, meaning, ", ".join(alerts))


def _own() -> Iterator[Metric]:
    """Yield the metrics that the operator adds to those of the runtime."""
    messages = PROJECT.module(f"{PROJECT.package}.messages")
    for family in messages.Phases(f"{PROJECT.metrics}messages", lambda: iter(())).collect():
        labels = {label: None for sample in family.samples for label in sample.labels}
        yield Metric(family.name, family.type, tuple(labels), family.documentation)


def _alerts(metric: str) -> Iterator[str]:
    """Yield the alerts whose expression has a metric."""
    for manifest in template("--set", "metrics.prometheusRule.enabled=true"):
        if manifest["kind"] == "PrometheusRule":
            for rule in (rule for group in manifest["spec"]["groups"] for rule in group["rules"]):
                if re.search(rf"\b{metric}(_bucket|_sum|_count)?\b", rule["expr"]):
                    yield rule["alert"]
