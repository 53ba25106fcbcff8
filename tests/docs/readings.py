"""Which pages are read on which cluster; every other console block says why it is not run."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.console import Block, blocks

CHECKOUT = Path(__file__).parents[2]
#: The first page, the tutorial, the guides and the runbooks. Korean pages have the same commands.
PAGES = sorted(
    str(page.relative_to(CHECKOUT))
    for pattern in ("*.md", "docs/*.md", "docs/runbooks/*.md")
    for page in CHECKOUT.glob(pattern)
    if not page.name.endswith(".ko.md")
)


@dataclass(frozen=True)
class Reading:
    """Somebody reads a page from top to bottom, or these sections of it."""

    page: str
    sections: tuple[str, ...] = ()
    #: What the reader puts in the place of words of the page.
    words: dict[str, str] = field(default_factory=dict)
    #: Commands that make the situation which the page is about, and that end it.
    given: tuple[str, ...] = ()
    afterwards: tuple[str, ...] = ()

    def blocks(self) -> list[Block]:
        """Return the blocks that are run."""
        return [
            block
            for block in _blocks(self.page)
            if not block.reason and (not self.sections or block.section in self.sections)
        ]

    def __str__(self) -> str:
        """Return the page, and its sections."""
        return ": ".join((self.page, *self.sections[:1]))


_REGISTRY = {"registry.example.com": "localhost:5001"}


#: On a cluster without the operator.
WITHOUT_OPERATOR = (Reading("README.md", ("Install it",), _REGISTRY),)
#: On the cluster of `make demo`.
AFTER_DEMO = (Reading("docs/tutorial.md"),)
#: Pages that nobody reads yet.
LATER = (
    *(page for page in PAGES if page.startswith("docs/runbooks/")),
    *(
        f"docs/{name}.md"
        for name in (
            *("gitops", "install", "messages", "monitoring", "namespaces", "platforms", "plugin"),
            *("uninstall", "upgrade"),
        )
    ),
)


def not_run() -> list[tuple[str, Block]]:
    """Return the blocks that are not run, with their pages; each says why."""
    return [(page, block) for page in PAGES for block in _blocks(page) if block.reason]


def unread() -> list[str]:
    """Return the places of the blocks that nobody reads, and that do not say why."""
    readings = (*WITHOUT_OPERATOR, *AFTER_DEMO)
    read = {(reading.page, block.line) for reading in readings for block in reading.blocks()}
    return [
        f"{page}:{block.line}"
        for page in PAGES
        for block in _blocks(page)
        if not block.reason and (page, block.line) not in read
    ]


def _blocks(page: str) -> list[Block]:
    found = blocks((CHECKOUT / page).read_text())
    return [replace(block, reason=block.reason or _reason(page)) for block in found]


def _reason(page: str) -> str:
    return "no test types it yet" if page in LATER else ""
