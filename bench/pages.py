"""The pages with the tables, in English and Korean; used by `run`.

Of each page, the part between two marks is written of the data; people write the rest.
"""

from bench import korean, report
from hack.rig import paths
from hack.rig.run import HackError

#: The pages in docs/, each with the translation of the tables' labels.
PAGES: dict[str, report.Say] = {"benchmarks.md": str, "benchmarks.ko.md": korean.said}
_BEGIN, _END = "<!-- begin: written by `make bench` -->", "<!-- end -->"


def written(data: report.Data) -> dict[str, str]:
    """Return the text of each page, with the tables of these data.

    Raises HackError where a page lacks a mark.
    """
    return {name: _page(name, data, say) for name, say in PAGES.items()}


def _page(name: str, data: report.Data, say: report.Say) -> str:
    head, begun, rest = (paths.CHECKOUT / "docs" / name).read_text().partition(_BEGIN)
    _, ended, foot = rest.partition(_END)
    if not begun or not ended:
        raise HackError(f"docs/{name} lacks the lines {_BEGIN!r} and {_END!r}: put them back")
    picture = f"![{say('Six measures: this operator and its peers')}](benchmarks.png)"
    tables = "\n\n".join((picture, report.told(data, say), report.tables(data, say)))
    return f"{head}{_BEGIN}\n{tables}\n{_END}{foot}"
