"""The reference has all of each public name; a test of the runtime reads its parameters."""

import re

import pytest

from hack import reference
from hack.reference import Entry

NAMES = reference.entries()
#: Methods of what an author writes most have an example, too.
_WITH_EXAMPLES = ("kr.Controller.", "kr.Manager.")
#: What Kubernetes' own documentation says.
_KUBERNETES = re.compile(r"\.(metadata|spec|status|data)$|^kr\.ObjectMeta\.")
_UNIT = re.compile(r"second|Unix time|number|at each scrape")


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.name)
def test_a_public_name_has_meaning_types_units_source_and_example(name: Entry) -> None:
    methods = [each for each in name.members if each.thing.is_function]
    fields = [each for each in name.members if each.thing.is_attribute and each.thing.annotation]

    assert name.example
    assert [each.name for each in methods if not each.meaning] == []
    called = [each for each in methods if each.name.startswith(_WITH_EXAMPLES)]
    assert [each.name for each in called if not each.example] == []
    for each in (name, *methods):
        assert re.search(r"/blob/main/.+\.py#L[1-9]", each.source)
        assert (
            not each.thing.is_function
            or "float" not in each.signature
            or _UNIT.search(each.meaning)
        )
    given = name.name.startswith("testing.") or "__init__" in name.thing.members
    for each in () if given else fields:
        told = each.meaning or (
            f"`{each.name.rpartition('.')[2]}`" in name.meaning and name.meaning
        )
        assert told or _KUBERNETES.search(each.name), each.name
        assert "float" not in str(each.thing.annotation) or _UNIT.search(told or ""), each.name


def test_the_page_shows_how_each_name_is_used() -> None:
    page = reference.text()
    section = page.partition("## `kr.RetryError`")[2].partition("\n## ")[0]

    assert page.count("\n## ") == len(NAMES)
    assert "RetryError(reason: str, *, after: float = 0.0)" in section
    assert "at most 600" in section
    assert re.search(r"```python\n.*raise kr.RetryError\(.*\n```", section, re.DOTALL)
