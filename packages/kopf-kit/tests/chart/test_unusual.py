"""Every value has its effect, and none is taken for another."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from chart.helm import CHART, render
from chart.unusual import UNUSUAL
from kopf_kit.chart import values

RENDERED = json.dumps(render(UNUSUAL), ensure_ascii=False)
#: Without the Pod of `helm test`, which repeats what is said of the operator's.
UNTESTED = UNUSUAL | {"tests": UNUSUAL["tests"] | {"enabled": False}}
OF_THE_OPERATOR = json.dumps(render(UNTESTED), ensure_ascii=False)
TEMPLATES = "".join(
    file.read_text() for pattern in ("**/*.yaml", "**/*.tpl") for file in CHART.glob(pattern)
)
VALUES = {value.name: value for value in values.values()}

#: Switched off by another value of UNUSUAL; they have tests of their own.
ECLIPSED = re.compile(r"image\.tag|widgetPod\.image\.tag|global$|podDisruptionBudget\.max")


def set_to(path: tuple[str, ...]) -> Any:
    """Return what a value is set to in UNUSUAL."""
    found: Any = UNUSUAL
    for name in path:
        found = found[name]
    return found


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number of a value, and the keys that are its own."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key.startswith("u-"):
                yield key
            yield from leaves(below)
    elif isinstance(value, list):
        for below in value:
            yield from leaves(below)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@pytest.mark.parametrize("name", VALUES)
def test_every_value_is_set_to_something_unusual(name: str) -> None:
    unusual = set_to(VALUES[name].path)

    assert unusual != VALUES[name].default or isinstance(unusual, bool | str)


#: Read by Helm, of a parent chart's dependency (test_subchart.py).
HELMS = {"enabled"}


@pytest.mark.parametrize("name", sorted(VALUES.keys() - HELMS))
def test_every_value_is_used(name: str) -> None:
    pattern = r"\.".join(VALUES[name].path)
    parent = ".".join(VALUES[name].path[:-1])
    probe = f'"{name}"'

    used = (
        re.search(rf"\.Values\.{pattern}\b", TEMPLATES)
        # Through a `with` on its section, or a list of names.
        or (parent and re.search(rf"\.Values\.{parent}\b(?!\.)", TEMPLATES))
        or probe in TEMPLATES
        or re.search(rf"\$metrics\.{re.escape(name.removeprefix('metrics.'))}\b", TEMPLATES)
    )

    assert used, f"no template uses {name}"


@pytest.mark.parametrize("name", [name for name in VALUES if not ECLIPSED.match(name)])
def test_what_it_is_set_to_is_rendered(name: str) -> None:
    rendered = RENDERED if name.startswith("tests.") else OF_THE_OPERATOR
    for text in leaves(set_to(VALUES[name].path)):
        if "{{" in text or name == "metrics.prometheusRule.disabledAlerts":
            continue
        assert text in rendered, f"{name}: {text} is nowhere in what is rendered"


def test_what_is_disabled_is_not_rendered() -> None:
    assert "WidgetOperatorDown" not in RENDERED
    assert '"kind": "Issuer"' not in RENDERED
    assert "helm.sh/resource-policy" not in RENDERED
    assert '"hostUsers": false' in RENDERED
    assert '"automountServiceAccountToken": true' not in RENDERED
