"""Every command of the pages succeeds, in the page's order, and prints what the page shows."""

from xml.etree import ElementTree

import pytest

from tests.docs.reader import CHECKOUT, Reader, named_as_of_the_user
from tests.docs.readings import AFTER_DEMO, WITHOUT_OPERATOR, Reading
from tests.support import output


def follow(reader: Reader, reading: Reading) -> None:
    reader.prepares(*reading.given)
    try:
        for block in reading.blocks():
            reader.follows(reading.page, block, reading.words)
    finally:
        reader.prepares(*reading.afterwards)


@pytest.mark.usefixtures("without_operator")
@pytest.mark.parametrize("reading", WITHOUT_OPERATOR, ids=str)
def test_a_page_that_installs_the_operator_is_as_it_says(reader: Reader, reading: Reading) -> None:
    follow(reader, reading)


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("reading", AFTER_DEMO, ids=str)
def test_a_page_is_as_it_says(reader: Reader, reading: Reading) -> None:
    follow(reader, reading)


def test_the_recording_on_the_first_page_shows_what_the_demo_prints(demo: str) -> None:
    picture = ElementTree.parse(CHECKOUT / "docs" / "demo.svg")  # noqa: S314 (our own file)
    lines = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    begin = next(number for number, line in enumerate(lines) if line.startswith("$ kubectl"))
    # What tells of the progress goes to stderr, which `demo` has behind all that is printed.
    shown = [line for line in lines[begin:] if not line.startswith(("==> ", "Done: "))]

    assert output.includes("\n".join(shown), named_as_of_the_user(demo)), demo
