"""docs/in-go.md shows the operator in Go and in Python as both are."""

from pathlib import Path

import pytest

from tests.support.walkthrough import listings

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["in-go.md", "in-go.ko.md"])
def test_each_excerpt_is_found_in_the_file_that_it_names(page: str) -> None:
    text = (CHECKOUT / "docs" / page).read_text()
    excerpts = [(one.file, one.text) for one in listings(text) if one.language in ("go", "python")]

    def found(file: str, excerpt: str) -> bool:
        return "".join(excerpt.split()) in "".join((CHECKOUT / file).read_text().split())

    assert len(excerpts) == text.count("```go") + text.count("```python") > 0
    assert [excerpt for file, excerpt in excerpts if not found(file, excerpt)] == []
