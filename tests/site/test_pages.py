"""Every page of the site is whole, and leads somewhere; the first one is short."""

import functools
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from hack import site
from kubectl_message.knowledge.entry import HOME
from tests.site.browser import Browser

CHECKOUT = Path(__file__).parents[2]


class _Page(HTMLParser):
    """What a page has: its links and pictures, its anchors, and the link to edit it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.edit: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.links += [values[name] for name in ("href", "src") if name in values]
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if values.get("rel") == "edit":
            self.edit.append(values["href"])


@functools.cache
def parsed(file: Path) -> _Page:
    return _Page(file)


def pages(folder: Path) -> list[Path]:
    """Return the pages; the generator's own 404 page is no part of any folder."""
    return sorted(folder.rglob("index.html"))


def test_no_link_is_dead(folder: Path) -> None:
    dead = []
    for page in pages(folder):
        for link in parsed(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and target.suffix == ".html" and anchor not in parsed(target).anchors
            ):
                dead.append((str(page.relative_to(folder)), link))

    assert dead == []


def test_every_page_can_be_edited(folder: Path) -> None:
    edited = {page: parsed(page).edit for page in pages(folder)}

    assert {len(links) for links in edited.values()} == {1}
    for links in edited.values():
        assert links[0].startswith(f"{HOME}/edit/main/")
        assert (CHECKOUT / links[0].removeprefix(f"{HOME}/edit/main/")).is_file()


def test_every_page_leads_to_itself_in_the_other_language(folder: Path) -> None:
    for page in pages(folder):
        name = page.parent.relative_to(folder)
        korean = name.parts[:1] == ("ko",)
        other = folder / Path(*name.parts[1:]) if korean else folder / "ko" / name
        targets = {(page.parent / link).resolve() for link in parsed(page).links if ":" not in link}

        assert other in targets, page


def test_both_languages_have_every_page(folder: Path) -> None:
    count = len(site.pages())

    assert count > 60
    assert len(pages(folder)) == 2 * count


def test_what_github_shows_as_code_is_code_here(folder: Path) -> None:
    fences = [page for page in pages(folder) if "```" in page.read_text()]

    assert fences == []


def test_no_page_loads_anything_from_elsewhere(
    chromium: Browser, address: str, folder: Path
) -> None:
    chromium.requested()  # those of other tests
    asked = []
    for page in folder.rglob("*.html"):
        chromium.open(f"{address}{page.relative_to(folder)}")
        asked += chromium.requested()

    assert f"{address}icon.svg" in asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("page", ["", "ko/"])
def test_the_first_page_fits_three_screens_without_its_pictures(
    chromium: Browser, address: str, page: str
) -> None:
    width, height = 1280, 800
    chromium.resize(width, height)
    chromium.open(f"{address}{page}")

    pixels = chromium.run(
        """
        const article = document.querySelector("article");
        const pictures = [...article.querySelectorAll("img")].map(one => one.offsetHeight);
        return article.offsetHeight - pictures.reduce((sum, one) => sum + one, 0);
        """
    )

    assert 0 < pixels <= 3 * height


def test_no_page_is_wider_than_a_phone(chromium: Browser, address: str, folder: Path) -> None:
    chromium.resize(500, 900)  # the narrowest window of Chromium

    wide = []
    for page in pages(folder):
        chromium.open(f"{address}{page.relative_to(folder)}")
        if chromium.run("return document.documentElement.scrollWidth > innerWidth"):
            wide.append(str(page.relative_to(folder)))

    assert wide == []
