"""The tables of `reference`: the kinds, the flags and the metrics."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from kopf_kit.pack import declared
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rendered import template
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import parsers

#: Returns the one of two texts, in English and Korean, that a page has.
Say = Callable[[str, str], str]
Body = Callable[[Say], Iterator[str]]


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    """Return a text that is no Markdown, so that `<name>` is not taken for HTML."""
    return text.replace("<", "&lt;")


def table(*head: str) -> Iterator[str]:
    """Yield the first lines of a table."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(_cell, cells))} |"


# --- The kind -------------------------------------------------------------------------------------


def kinds(say: Say) -> Iterator[str]:
    """Yield the fields of the kinds, from their CustomResourceDefinitions."""
    heads = (
        say("field", "필드"),
        say("type", "타입"),
        say("default", "기본값"),
        say("allowed", "허용되는 값"),
        say("meaning", "설명"),
    )
    for definition in declared.definitions(declared.of_the_project()):
        spec = definition["spec"]
        names = [spec["names"]["plural"], *spec["names"].get("shortNames", [])]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield f"\n## {spec['names']['kind']}, `{spec['group']}/{version['name']}`\n"
            yield _prose(schema["description"])
            yield ""
            known = ", ".join(f"`{name}`" for name in names)
            yield say("`kubectl get` knows it as {}.", "`kubectl get`에서 쓰는 이름: {}.").format(
                known
            )
            for part in ("spec", "status"):
                yield f"\n### {part}"
                yield from table(*heads)
                yield from _fields(schema["properties"][part], part)


def _fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        default = f"`{field['default']}`" if "default" in field else ""
        meaning = _prose(field.get("description", ""))
        yield row(f"`{where}`", _type(field), default, _bounds(field), meaning)
        yield from _fields(field, where)
        yield from _fields(field.get("items", {}), f"{where}[]")


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}s"
    return str(field["type"])


def _bounds(field: dict[str, Any]) -> str:
    words = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "maxItems": "at most {} entries",
    }
    bounds = [text.format(field[key]) for key, text in words.items() if key in field]
    bounds += [" or ".join(f"`{value}`" for value in field.get("enum", []))]
    bounds += [rule["message"] for rule in field.get("x-kubernetes-validations", [])]
    return ", ".join(filter(None, bounds))


# --- The operator's program -----------------------------------------------------------------------


def flags(say: Say) -> Iterator[str]:
    """Yield the operator's flags and environment variables."""
    settings = PROJECT.module(f"{PROJECT.package}.settings")
    yield from table(
        say("flag", "플래그"),
        say("variable", "환경 변수"),
        say("default", "기본값"),
        say("meaning", "설명"),
    )
    yield row(
        "`--namespace`, `-n`",
        "`WATCH_NAMESPACE`: a list with commas",
        "",
        "watch this namespace; may be repeated",
    )
    yield row("`--all-namespaces`, `-A`", "", "", "watch all namespaces; this is the default")
    for field in dataclasses.fields(settings.Settings):
        if about := field.metadata:
            yield row(
                f"`--{field.name.replace('_', '-')} {_values(about)}`",
                f"`{PROJECT.variables}{field.name.upper()}`",
                f"`{about['default']}`" if about["default"] else "",
                about["meaning"],
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
    heads = (
        say("metric", "메트릭"),
        say("type", "타입"),
        say("labels", "레이블"),
        say("meaning", "설명"),
        say("alerts", "알림"),
    )
    for title, listed in (
        (say("Messages", "Message"), [*_own()]),
        (say("The operator", "오퍼레이터"), _Declared().all),
    ):
        yield f"\n## {title}"
        yield from table(*heads)
        for metric in listed:
            alerts = (
                f"[{name}](../runbooks{say('', '.ko')}.md#{name.lower()})"
                for name in _alerts(metric.name)
            )
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            yield row(f"`{metric.name}`", metric.type, labels, metric.meaning, ", ".join(alerts))


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
