"""The contexts that an author's functions get beside the object."""

import dataclasses
import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from runtime import public, widgets

OWNER: Any = SimpleNamespace(key=("ns", "one"))

#: Functions of an author's; the comment is what a type checker says of the line.
SNIPPET = """
from collections.abc import Iterable
from typing import Any
import kopf_runtime as kr
from kopf_runtime import Settings
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Secret

Raw = dict[str, Any]
controller: kr.Controller

@controller.desired
def plain(_: kr.Resource, context: kr.Context[Settings]) -> Iterable[Raw]:
    context.now  # "Context[Settings]" has no attribute "now"
    context.session  # "Context[Settings]" has no attribute "session"
    return [context.read(kr.kinds.SECRET, "one"), context.sync_result]

@controller.desired  # Value of type variable
def timely(_: kr.Resource, context: kr.StepContext[Settings]) -> Iterable[Raw]:
    return [{"now": context.now}]

@controller.desired(stepwise=True)
def stepwise(_: kr.Resource, context: kr.StepContext[Settings]) -> Iterable[Raw]:
    context.record  # "StepContext[Settings]" has no attribute "record"
    return [{"now": context.now}] if context.child else []

@controller.sync
async def sync(_: kr.Resource, context: kr.CallContext[Settings]) -> None:
    context.user  # "CallContext[Settings]" has no attribute "user"
    await context.record({"at": context.now})

@controller.finalize  # Value of type variable
async def asked(_: kr.Resource, context: kr.ReviewContext[Settings]) -> None: ...

@controller.validate()
def valid(_: kr.Resource, context: kr.ReviewContext[Settings]) -> str:
    context.sync_result  # "ReviewContext[Settings]" has no attribute "sync_result"
    return context.user.name

@controller.status
def status(_: Any, seen: kr.Observed) -> kr.Status:
    seen.record  # "Observed" has no attribute "record"
    return kr.default_status(seen)

@controller.contribution
def added(_: kr.Object, context: kr.Context[Settings]) -> kr.Manifest | None: ...

@kr.Manager("a", Settings).task  # Value of type variable "Task"
async def swapped(settings: Settings, client: kr.Client) -> None: ...

controller.owns(kr.kinds.CONFIG_MAP, ConfigMap, transform=lambda found: found.data)

@controller.desired
def desired(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[ConfigMap]:
    yield ConfigMap(metadata=ObjectMeta(name="one"), data={"a": "b"})
    yield ConfigMap(metadata=ObjectMeta(name="two"), data=5)  # Argument "data" to "ConfigMap"
    yield Secret()  # Incompatible types in "yield"

@controller.desired
def several(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    yield ConfigMap()
    yield {"apiVersion": "v1", "kind": "ConfigMap"}
    yield "ConfigMap"  # Incompatible types in "yield"

@controller.desired  # Value of type variable
def texts(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[str]:
    return ["ConfigMap"]
"""


#: As this repository has its types checked, so that mypy knows the packages from there.
CONFIG = "[mypy]\nstrict = true\npython_version = 3.11\n"


def check_types(text: str, tmp_path: Path) -> None:
    """Fail unless mypy says of a snippet just what the comments of its lines do."""
    pytest.importorskip("mypy")
    (snippet := tmp_path / "snippet.py").write_text(text)
    (config := tmp_path / "mypy.ini").write_text(CONFIG)

    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--no-error-summary", snippet],
        capture_output=True,
        text=True,
        timeout=300,
    )

    said = {
        int(line.split(":")[1]): line for line in run.stdout.splitlines() if ": error: " in line
    }
    lines = enumerate(text.splitlines(), start=1)
    wanted = {at: line.partition("  # ")[2] for at, line in lines if "  # " in line}
    assert said.keys() == wanted.keys(), run.stdout
    assert all(wanted[at] in line for at, line in said.items())


def test_a_type_checker_sees_what_a_function_does_not_get(tmp_path: Path) -> None:
    check_types(SNIPPET, tmp_path)


@pytest.mark.parametrize(
    "context",
    [
        kr.Context(kr.Settings(), reads={kr.kinds.SECRET: {}}),
        kr.StepContext(kr.Settings(), now=1.0),
        kr.CallContext(kr.Settings(), unseen={kr.kinds.POD: "Forbidden"}),
        kr.ReviewContext(kr.Settings(), operation="delete"),
        kr.Observed(None),
    ],
)
def test_a_context_is_a_value_that_can_be_replaced_compared_and_hashed(context: Any) -> None:
    same = dataclasses.replace(context)

    assert same == context
    assert hash(same) == hash(context)
    assert dataclasses.replace(context, namespace="other") != context


def test_what_cannot_all_be_seen_is_not_taken_for_all() -> None:
    context = kr.CallContext(kr.Settings(), children=[], unseen={kr.kinds.POD: "Forbidden"})

    assert context.children_of(kr.kinds.SECRET) == ()
    for ask in (
        lambda: context.children_of(kr.kinds.POD),
        lambda: context.child,
        lambda: len(context.children),
        lambda: list(context.children),
        lambda: context.children == [],
        lambda: context.descendants.get(kr.kinds.POD),
    ):
        with pytest.raises(kr.Wait, match="pods cannot be seen: Forbidden"):
            ask()


def test_a_test_of_status_says_only_what_matters_to_it() -> None:
    seen = kr.Observed(None, trouble=kr.Trouble("Refused", "No."))

    assert kr.default_status(seen).reason == "Refused"
    assert kr.default_status(dataclasses.replace(seen, trouble=None)).ready
    lacking = kr.default_status(kr.Observed(None, missing=1))
    assert (lacking.ready, lacking.message) == (False, "1 of its objects are missing.")
    assert lacking.transient  # so it is written later


def test_a_test_says_who_has_a_value_of_an_index() -> None:
    hosts = widgets.controller().index(lambda _: [])
    context = kr.Context(kr.Settings(), held={hosts: {"a.example": [("ns", "one")]}})

    assert context.by_index(hosts, "a.example") == (("ns", "one"),)
    assert context.by_index(hosts, "b.example") == ()


# --- public names -------------------------------------------------------------------------------


LIST = Path(__file__).parents[2] / "public.txt"


def test_what_is_public_changes_only_in_sight_of_a_review() -> None:
    """docs/decisions says what is public; `public.py` says how to write the list again."""
    assert "\n".join(public.lines()) + "\n" == LIST.read_text()


def test_help_explains_what_is_public_and_its_examples_are_right() -> None:
    """`help(kr.…)` is the reference; `Manager.metrics` and `kr.Kind` are in it, too."""
    named = {name: getattr(kr, name) for name in kr.__all__} | {"Metrics": Metrics}
    explained = {
        name: each
        for name, each in named.items()
        if inspect.isroutine(each) or inspect.isclass(each)
    }
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()

    for name, each in explained.items():
        for found in finder.find(each, name, globs={"kr": kr}):
            runner.run(found)

    assert [name for name, each in explained.items() if not inspect.getdoc(each)] == []
    assert runner.summarize().failed == 0
    assert runner.tries >= 6


_UNIT = re.compile("seconds|at each scrape|a number", re.IGNORECASE)
#: Names that say enough; and what the runtime calls itself.
_PLAIN = {"self", "cls", "function", "args", "argv", "kind", "type_", "namespace", "name", "key"}
_PLAIN |= {"index", "value", "method", "path", "status", "message", "fields", "text", "error"}
_PLAIN |= {"old", "new", "rules", "choices", "condition", "restarts", "labels", "subresource", "_"}
_PLAIN |= {"context", "seen", "crt", "ca", "reason", "operations", "on", "group", "version"}
_OURS = {"event", "leads", "serves", "saw_other", "set_unserved", "count_unreadable", "of_objects"}
_FIELDS_OF_A_CRD = "The parameters that have the name of a field of a CustomResourceDefinition"


def _routines() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield each public function, method and constructor of an error, with its help."""
    for name, each in {**{name: getattr(kr, name) for name in kr.__all__}, "M": Metrics}.items():
        if inspect.isroutine(each):
            yield name, inspect.unwrap(each), inspect.getdoc(each) or ""
        elif inspect.isclass(each):
            if issubclass(each, Exception) and "__init__" in vars(each):
                yield name, each.__init__, inspect.getdoc(each) or ""
            for member, value in vars(each).items():
                routine = getattr(value, "__func__", value)
                if inspect.isfunction(routine) and member[0] != "_" and member not in _OURS:
                    yield f"{name}.{member}", routine, inspect.getdoc(routine) or ""


def test_help_says_what_each_parameter_is() -> None:
    unexplained = [
        f"{name}({parameter})"
        for name, routine, text in _routines()
        for parameter in inspect.signature(routine).parameters
        if parameter not in _PLAIN and f"`{parameter}" not in text and _FIELDS_OF_A_CRD not in text
    ]

    assert unexplained == []


#: Whose comments explain their fields, as docs/runtime.md does; and Kubernetes' own.
_COMMENTED = re.compile("Context$|^(Child|Settings|Kind|User)$")


def test_help_says_what_each_field_is() -> None:
    classes = {name: getattr(kr, name) for name in kr.__all__ if not _COMMENTED.search(name)}
    fields = {
        (name, field): inspect.getdoc(each) or ""
        for name, each in classes.items()
        if dataclasses.is_dataclass(each) or name == "Trouble"
        for field in getattr(each, "__annotations__", {})
    }

    assert ("Status", "transient") in fields
    assert [at for at, text in fields.items() if f"`{at[1]}" not in text] == []


def test_help_gives_the_unit_of_each_time() -> None:
    """Of each parameter and field that is a fraction."""
    times = [
        (f"{name}({parameter.name})", text)
        for name, routine, text in _routines()
        for parameter in inspect.signature(routine).parameters.values()
        if "float" in str(parameter.annotation)
    ]
    for name in kr.__all__:
        if inspect.isclass(each := getattr(kr, name)):
            text = inspect.getsource(each)
            fields = getattr(each, "__annotations__", {}).items()
            times += [(f"{name}.{field}", text) for field, type_ in fields if "float" in str(type_)]

    assert [name for name, text in times if not _UNIT.search(text)] == []
