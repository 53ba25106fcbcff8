import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from runtime import public

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
_OURS = {"event", "leads", "serves", "saw_other", "tell_unserved", "count_unreadable", "of_objects"}
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
