"""What the pages say of the code and the tests is so, and what learners look for is there."""

import re
from typing import Any

import pytest
from flightticket_operator.operator import FlightTicket
from msgspec.structs import replace

import kopf_runtime as kr
from hack import reference
from hack.reference import Entry
from kopf_kit.crd.generated import definition
from kopf_kit.project import documents
from kopf_kit.rig import dockerfiles, versions
from kopf_kit.rig.paths import CHECKOUT
from kopf_runtime.declaring.declaration import declared
from tests.support.console import every_test, listings, walkthrough

#: All that was tried.
INVENTORY = CHECKOUT / "tests" / "faults" / "README.md"


def test_each_test_that_the_inventory_names_exists() -> None:
    named = re.findall(r"`(test_\w+)`", INVENTORY.read_text())

    assert named
    assert set(named) <= every_test()


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


#: What learners look for, in English and in Korean; `=` is the same in both.
_CONCEPTS = """
reconciling=리컨실; control loop=컨트롤 루프; level-triggered=레벨 트리거
work queue=워크큐; rate limiter=레이트 리미터; informer=인포머; finalizer=파이널라이저
idempotent=멱등성; least privilege=최소 권한; not a state machine=상태 머신
in *etcd*=*etcd*에; ReplicaSet=레플리카셋; CronJob=크론잡; StatefulSet=스테이트풀셋
shortNames=; maxLength=; Helm=; KUDO=; Metacontroller=; Operator SDK=
sample-controller=; MaxConcurrentReconciles=; 10. [Kill=10. 테스트"""
CONCEPTS = re.findall(r"([^=;\n]+)=([^;\n]*)", _CONCEPTS)


@pytest.mark.parametrize("ending", [".md", ".ko.md"])
def test_learners_find_each_concept_in_their_language(ending: str) -> None:
    pages = [text_of(f"{page}{ending}") for page in ("tutorial", "architecture", "in-go")]
    text = " ".join(" ".join(pages).split())
    words = [(korean if ending == ".ko.md" else "") or english for english, korean in CONCEPTS]

    assert [word for word in words if word.strip() not in text] == []


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


#: Methods of what an author writes most have an example, too.
_WITH_EXAMPLES = ("kr.Controller.", "kr.Manager.")
#: What Kubernetes' own documentation says.
_KUBERNETES = re.compile(r"\.(metadata|spec|status|data)$|^kr\.ObjectMeta\.")
_UNIT = re.compile(r"second|Unix time|number|at each scrape")


@pytest.mark.parametrize("name", reference.entries(), ids=lambda name: name.name)
def test_a_public_name_has_meaning_types_units_source_and_example(name: Entry) -> None:
    methods = [each for each in name.members if each.thing.is_function]
    fields = [each for each in name.members if each.thing.is_attribute and each.thing.annotation]

    assert name.example
    assert [each.name for each in methods if not each.meaning] == []
    called = [each for each in methods if each.name.startswith(_WITH_EXAMPLES)]
    assert [each.name for each in called if not each.example] == []
    for each in (name, *methods):
        assert re.search(r"^\.\./.+\.py#L[1-9]", each.source)
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
    section = reference.text().partition("## `kr.RetryError`")[2].partition("\n## ")[0]

    assert "RetryError(reason: str, *, after: float = 0.0)" in section
    assert "at most 600" in section
    assert re.search(r"```python\n.*raise kr.RetryError\(.*\n```", section, re.DOTALL)


def test_b11_an_example_uses_its_name_and_a_page_may_show_other_languages() -> None:
    lines = ["text", "```python", "a = 1", "```", "```console", "$ b", "```"]
    assert [*reference._python(lines)] == ["", "", "a = 1", "", "", "", ""]

    uses = {name.name: (name.example or (0, 0, ""))[2] for name in reference.entries()}
    for name in ("testing.ApiServer", "testing.World"):
        assert "\n    return " in uses[name]


def test_the_page_about_versions_shows_parts_of_the_example() -> None:
    operator = CHECKOUT / "examples/memcached/operator/memcached_operator/operator.py"
    shown = listings(text_of("versions.md"))

    assert shown
    assert [part.text for part in shown if part.text not in operator.read_text()] == []


def test_both_languages_have_the_same_commands_outputs_and_listings() -> None:
    english, korean = (text_of(f"write-your-own-operator{ending}") for ending in (".md", ".ko.md"))

    assert walkthrough(korean) == walkthrough(english)
