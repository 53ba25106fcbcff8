"""docs/in-go.md shows the operator in Go and in Python as both are."""

from pathlib import Path

import pytest

from tests.support.walkthrough import listings

CHECKOUT = Path(__file__).parents[2]


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
