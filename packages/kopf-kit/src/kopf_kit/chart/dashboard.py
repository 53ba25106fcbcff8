"""The chart's Grafana dashboard: that of the reference, with the panels that PROJECT adds."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kopf_kit.chart import values
from kopf_kit.project import shared
from kopf_kit.project.definition import PROJECT, Panel

_REFERENCE = shared.FOLDER / "dashboard.json"
FILE = values.CHART / "dashboards" / f"{PROJECT.name}.json"
#: What a user selects by: Grafana's variables, each for the label of its name. The chart's monitors
#: bring `operator`; a Prometheus that serves several clusters brings `cluster`.
_SELECTORS = ("cluster", "namespace", "operator", "pod")
_OURS = ",".join(f'{name}=~"${name}"' for name in _SELECTORS)
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # columns of Grafana's grid


def files() -> dict[Path, str]:
    """Return the dashboard by its path; plain kopf serves no metrics to show."""
    return {FILE: dashboard()} if PROJECT.base == "runtime" else {}


def dashboard() -> str:
    """Return the dashboard in the form that Grafana imports."""
    text = shared.read(_REFERENCE).replace("Widgets", PROJECT.many)
    content = json.loads(shared.renamed(text, PROJECT.kinds[0]))
    row, *others = content["panels"]
    second = next(at for at, panel in enumerate(others) if panel["type"] == "row")
    own = map(_own, PROJECT.panels)
    content["panels"] = [*_placed([row, *others[:second], *own, *others[second:]])]
    # A line for each panel and query: a text of JSON has no bare quotation mark.
    return json.dumps(content, ensure_ascii=False).replace(', {"', ',\n{"') + "\n"


def complete(expression: str, selector: str = _OURS) -> str:
    """Return an author's expression: OURS is the selector, OWN_ the prefix of the metrics."""
    return expression.replace("OURS", selector).replace("OWN_", PROJECT.metrics)


def _own(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": _DATASOURCE,
                "expr": complete(panel.query),
                "legendFormat": panel.legend,
                "instant": False,
            }
        ],
        "gridPos": {"w": 12, "h": 7},
    }


def _placed(panels: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the panels with their numbers and places: side by side, as many as fit."""
    left = top = height = 0
    for number, panel in enumerate(panels, 1):
        width = panel["gridPos"]["w"]
        if left + width > WIDTH:
            left, top = 0, top + height
        height = panel["gridPos"]["h"]
        place = {"x": left, "y": top, "w": width, "h": height}
        yield {"id": number, **panel, "gridPos": place}
        left += width
