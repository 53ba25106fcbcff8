import doctest
import inspect
from pathlib import Path

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
    assert runner.tries >= 3
