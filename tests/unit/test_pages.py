"""What the pages say of the code and the tests is so, and what learners look for is there."""

import re
from itertools import pairwise
from typing import Any

import pytest
from flightticket_operator.operator import FlightTicket
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_kit.crd.generated import definition
from kopf_kit.project import documents
from kopf_kit.rig import dockerfiles, versions
from kopf_kit.rig.paths import CHECKOUT
from kopf_runtime.declaring.declaration import declared
from tests.support.console import every_test
from tests.support.walkthrough import listings

#: All that was tried.
INVENTORY = CHECKOUT / "tests" / "faults" / "README.md"


def test_each_test_that_the_inventory_names_exists() -> None:
    named = re.findall(r"`(test_\w+)`", INVENTORY.read_text())

    assert named
    assert set(named) <= every_test()


def test_each_row_names_a_test() -> None:
    blocks = INVENTORY.read_text().split("\n\n")
    # A table whose tests try all of its rows has them in the sentence before it.
    rows = [
        row
        for before, block in pairwise(blocks)
        if block.startswith("| ") and "`test_" not in before
        for row in block.splitlines()[2:]
    ]

    assert rows
    assert [row for row in rows if "`test_" not in row] == []


def test_each_finding_has_a_row_or_a_test_named_after_it() -> None:
    text = INVENTORY.read_text()
    findings = [
        "C1",
        "C2",
        *(f"M{n}" for n in range(1, 8)),
        *(f"minor {n}" for n in range(1, 12)),
        *(f"L{n}" for n in range(1, 12)),
        *(f"D{n}" for n in range(1, 24)),
        *(f"R{n}" for n in range(1, 8)),
    ]
    cells = re.findall(r"^\| ([^|:]+):", text, re.MULTILINE)
    names = re.findall(r"test_((?:(?:minor_\d+|[clmdr]\d+)_)+)", " ".join(every_test()))
    named = {finding for cell in cells for finding in cell.split(", ")}
    for name in re.findall(r"minor_\d+|[clmdr]\d+", " ".join(names)):
        named.add(name.capitalize() if "_" not in name else name.replace("_", " "))

    assert [finding for finding in findings if finding not in named] == []


PAGES = ("policy.md", "policy.ko.md")


def column(page: str) -> dict[str, str]:
    """Return the versions that a page names, by the first column of its table of them."""
    text = (CHECKOUT / "docs" / page).read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    return {name: value for name, value in rows if re.search(r"\d", value)}


@pytest.mark.parametrize("page", PAGES)
def test_the_versions_are_those_that_are_tested(page: str) -> None:
    kubernetes, helm, olm, images, python = column(page).values()

    assert re.findall(r"[\d.]+", kubernetes) == [versions.OLDEST, versions.NEWEST]
    assert re.search(rf"(from |, ){next(iter(versions.NODES))}( on|부터는)", text_of(page))
    (oldest, _), (_, below) = versions.FITTING["helm3"], versions.FITTING["helm4"]
    assert re.findall(r"[\d.]+", helm) == [".".join(map(str, oldest)), str(below[0] - 1)]
    assert olm == versions.OLM
    assert images == ", ".join(dockerfiles.SUPPORTED)
    project = (CHECKOUT / "pyproject.toml").read_text()
    assert f'requires-python = ">={python.split()[0]}"' in project


def text_of(page: str) -> str:
    return (CHECKOUT / "docs" / page).read_text()


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_fills_in_warns_and_refuses() -> None:
    names: dict[str, Any] = {"__name__": "admission"}
    for block in BLOCK.findall((CHECKOUT / "docs" / "admission.md").read_text()):
        exec(block, names)  # noqa: S102
    made = names["Ticket"](kr.ObjectMeta("one", "u", "1"), spec=names["Spec"]("ICN", "HEL"))
    alice = kr.User("alice")

    filled = names["cheapest"](
        made, kr.ReviewContext(None, operation="create", old=None, user=alice)
    )
    assert filled.spec.cabin == "economy"
    context = kr.ReviewContext(None, operation="update", old=made, user=alice)
    first = replace(made, spec=names["Spec"]("ICN", "HEL", "first"))
    assert list(names["same_flight"](first, context)) == ["First class is paid by your team."]
    with pytest.raises(kr.Denied, match="The origin cannot be changed"):
        list(names["same_flight"](replace(made, spec=names["Spec"]("GMP", "HEL")), context))
    assert [hook.failure_policy for hook in names["manager"].webhooks] == ["Fail", "Fail", "Ignore"]


def squeezed(text: str) -> str:
    """Return a text without whitespace."""
    return "".join(text.split())


@pytest.mark.parametrize("page", ["in-go.md", "in-go.ko.md"])
def test_each_excerpt_is_found_in_the_file_that_it_names(page: str) -> None:
    text = (CHECKOUT / "docs" / page).read_text()
    excerpts = listings(text)

    assert {excerpt.language for excerpt in excerpts} == {"go", "python"}
    shown = text.count("```") / 2 - text.count("```console")
    assert len(excerpts) == shown, "each block names its file"
    for excerpt in excerpts:
        source = (CHECKOUT / excerpt.file).read_text()
        assert squeezed(excerpt.text) in squeezed(source), excerpt


TICKETS = "examples/flightticket/README"


@pytest.mark.parametrize("ending", [".md", ".ko.md"])
def test_the_page_shows_the_definition_that_the_class_declares(ending: str) -> None:
    text = (CHECKOUT / f"{TICKETS}{ending}").read_text()
    found = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = (block for block in found if "kind: CustomResourceDefinition" in block)

    assert _is_part(documents.load(shown), definition(declared(FlightTicket)))


def _is_part(some: Any, whole: Any) -> bool:
    """Tell whether a document has nothing but what another one has, too."""
    if isinstance(some, dict):
        return all(key in whole and _is_part(value, whole[key]) for key, value in some.items())
    if isinstance(some, list):
        return len(some) == len(whole) and all(map(_is_part, some, whole))
    return bool(some == whole)
