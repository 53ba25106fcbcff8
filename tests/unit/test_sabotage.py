"""The defects of `make sabotage` keep up with the sources that they are for."""

from collections.abc import Iterator
from pathlib import Path

from hack import sabotage
from hack.sabotage import Defect

CHECKOUT = Path(__file__).parents[2]
DEFECTS = sabotage.load()


def test_there_are_sixty_that_make_test_must_notice_each_of_its_own_name() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)
    assert len([defect for defect in DEFECTS if not defect.later]) >= 60


def test_each_can_be_applied_and_names_tests_that_there_are() -> None:
    assert [found for defect in DEFECTS for found in wrong(defect)] == []


def wrong(defect: Defect) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    text = (CHECKOUT / defect.file).read_text()
    times = text.count(defect.find)
    if defect.tier != "verify" and "do not edit" in text.partition("\n")[0]:
        yield f"{defect.name}: {defect.file} is generated, and `make generate` mends it"
    if times != 1:
        yield f"{defect.name}: {defect.file} has its text {times} times"
    if defect.find == defect.replace:
        yield f"{defect.name}: it changes nothing"
    if bool(defect.later) == defect.is_quick:
        yield f"{defect.name}: only what `make test` cannot notice says why"
    for test in defect.tests.split() if defect.tier not in sabotage.TARGETS else ():
        path, _, name = test.partition("::")
        there = (CHECKOUT / path).exists()
        if not there or (name and f"def {name}(" not in (CHECKOUT / path).read_text()):
            yield f"{defect.name}: there is no test {test}"
