"""The documentation site: the pages of this repository, laid out for the site's generator.

`docs/site/site.toml` says which pages there are. Each language is a site of its own with the same
pages, the English text standing in for a page without a translation: so a search finds what its
reader can read, and a page's counterpart is always there.
"""

import functools
import json
import os
import posixpath
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hack import reference, site_text
from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError, answer
from kubectl_message.knowledge.entry import HOME

FOLDER = paths.CHECKOUT / "docs" / "site"
ORIGINAL = "en"
_PICTURES = (".svg", ".png")
#: What a search takes for the space between two words: the generator's own default.
_SEPARATOR = r"""[\s\-_,:!=\[\]()\\"`/]+|\.(?!\d)"""


class Language(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A language of the site; the notices are for pages without an up-to-date translation.

    `endings` are those that a search leaves out at the end of a word, as regular expressions.
    """

    name: str
    folder: str
    untranslated: str = ""
    outdated: str = ""
    endings: list[str] = []


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the navigation; a page is a file's name in the repository, or a pattern of them."""

    title: dict[str, str]
    pages: list[str]
    sections: "list[Section]" = []


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What site.toml says; `titles` are those in the navigation of pages that say too little."""

    titles: dict[str, dict[str, str]]
    languages: dict[str, Language]
    sections: list[Section]
    generator: dict[str, Any]


@dataclass(frozen=True)
class Page:
    """A page: its original's name in the repository."""

    source: str

    @property
    def target(self) -> str:
        """The page's file among those that the generator reads, in every language."""
        name = self.source.removeprefix("docs/")
        if name.startswith("charts/"):  # the generator would take an index for the section's page
            return name.replace("/README.md", ".md")
        return name.replace("README.md", "index.md")

    def file(self, language: str) -> Path:
        """Return the file that has the text in a language, or would have."""
        suffix = ".md" if language == ORIGINAL else f".{language}.md"
        return paths.CHECKOUT / f"{self.source.removesuffix('.md')}{suffix}"

    def text(self, language: str) -> str:
        """Return the text in a language, or the original where it is not translated."""
        file = self.file(language)
        return (file if file.is_file() else self.file(ORIGINAL)).read_text()

    def edited(self, language: str) -> str:
        """Return the file to edit, by its name in the repository."""
        if source := reference.source(self.file(ORIGINAL)):
            return _name(source)
        return _name(self.file(language)) if self.file(language).is_file() else self.source


def _name(file: Path) -> str:
    return file.relative_to(paths.CHECKOUT).as_posix()


@functools.cache
def site() -> Site:
    """Return what site.toml says; raise HackError with what is wrong in it."""
    file = FOLDER / "site.toml"
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Site)
    except msgspec.DecodeError as error:
        raise HackError(f"{file}: {error}") from error


def _matching(pattern: str) -> list[Page]:
    files = sorted(_name(file) for file in paths.CHECKOUT.glob(pattern))
    pages = [Page(name) for name in files if name.count(".") == 1]  # a translation has two
    if not pages:
        raise HackError(f"{FOLDER / 'site.toml'}: no file matches {pattern}; correct `pages`")
    return pages


@functools.cache
def pages() -> dict[str, Page]:
    """Return all pages by the names of their originals."""

    def within(sections: list[Section]) -> Iterator[Page]:
        for section in sections:
            for pattern in section.pages:
                yield from _matching(pattern)
            yield from within(section.sections)

    return {page.source: page for page in within(site().sections)}


def _navigation(sections: list[Section], language: str) -> list[Any]:
    entries: list[Any] = []
    for section in sections:
        title = section.title[language]
        listed = [page for pattern in section.pages for page in _matching(pattern)]
        titles = site().titles
        below: list[Any] = [
            {titles[page.source][language]: page.target} if page.source in titles else page.target
            for page in listed
        ]
        below += _navigation(section.sections, language)
        entries.append({title: below[0] if len(below) == 1 else below})
    return entries


def separator() -> str:
    """Return the regular expression of what a search leaves out between words, in JavaScript.

    An ending counts after two syllables or a Latin letter, at the end of a word. It is left out of
    pages and of queries alike, and so are all endings together: a word is found with whatever
    endings it is written. Both languages have pages with words of the other one.
    """
    endings = "|".join(e for language in site().languages.values() for e in language.endings)
    return rf"{_SEPARATOR}|(?<=[가-힣]{{2}}|[A-Za-z0-9])(?:{endings})+(?![가-힣])"


def configuration(language: str, folder: Path) -> str:
    """Return the generator's configuration of a language, as JSON, for a file in this folder.

    The generator reads `pages` in that folder, and writes `site`.
    """
    own = site().languages[language]
    up = "../" * own.folder.count("/")
    theme = {**site().generator["theme"], "language": language}
    menu = [
        {"name": other.name, "lang": code, "link": f"{up}{other.folder}" or "./"}
        for code, other in site().languages.items()
    ]
    return json.dumps(
        {
            **site().generator,
            "theme": {**theme, "custom_dir": os.path.relpath(FOLDER / "overrides", folder)},
            "plugins": {"search": {"separator": separator()}},
            "repo_url": HOME,
            "docs_dir": "pages",
            "site_dir": "site",
            "nav": _navigation(site().sections, language),
            "extra": {"alternate": menu},
        },
        ensure_ascii=False,
        indent=1,
    )


def lay_out(language: str, folder: Path) -> None:
    """Write the pages of a language, and the pictures in them, into an empty folder."""
    for page in pages().values():
        file = folder / page.target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rendered(page, language))
    for picture in (paths.CHECKOUT / "docs").iterdir():
        if picture.suffix in _PICTURES:
            shutil.copy2(picture, folder)
    shutil.copy2(FOLDER / "site.css", folder)


def rendered(page: Page, language: str) -> str:
    """Return a page's text as the generator is to read it."""
    text = site_text.without_language(page.text(language))
    text = site_text.with_links(text, lambda link: _link(link, page, language))
    text = site_text.with_lists(text)
    if language != ORIGINAL:
        own = site().languages[language]
        if not page.file(language).is_file():
            text = site_text.with_notice(text, "note", own.untranslated)
        elif _is_outdated(page, language):
            history = f"{HOME}/commits/main/{page.source}"
            text = site_text.with_notice(text, "warning", own.outdated.format(history=history))
    edit = f"{HOME}/edit/main/{page.edited(language)}"
    return f"---\nedit: {edit}\n---\n\n{text}"


def _is_outdated(page: Page, language: str) -> bool:
    """Tell whether a commit changed the original's text after its translation's last commit."""
    git = ("git", "-C", paths.CHECKOUT)
    last = answer([*git, "log", "-1", "--format=%H", "--", page.file(language)])
    if not last:  # not committed yet, or no repository
        return False
    original = page.file(ORIGINAL).relative_to(paths.CHECKOUT)
    then, now = (answer([*git, "show", f"{commit}:./{original}"]) for commit in (last, "HEAD"))
    return site_text.without_comments(then or "") != site_text.without_comments(now or "")


def _link(link: str, page: Page, language: str) -> str:
    """Return where a link leads on the site: to a page of it, a picture, or to the repository."""
    path, _, anchor = link.partition("#")
    if ":" in path or not path:
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
    for linked in (target, posixpath.join(target, "README.md")):
        original = linked.replace(f".{language}.md", ".md")
        if other := pages().get(original):
            anchor = _anchor(anchor, linked, other, language)
            return _relative(other.target, page) + (anchor and f"#{anchor}")
    if target.endswith(_PICTURES):
        return _relative(target.removeprefix("docs/"), page)
    kind = "tree" if (paths.CHECKOUT / target).is_dir() else "blob"
    return f"{HOME}/{kind}/main/{target}" + (anchor and f"#{anchor}")


def _relative(target: str, page: Page) -> str:
    return posixpath.relpath(target, posixpath.dirname(page.target) or ".")


def _anchor(anchor: str, linked: str, page: Page, language: str) -> str:
    """Return the anchor of the same heading in the text that the site has in this language."""
    anchors = site_text.anchors(page.text(language))
    meant = site_text.anchors((paths.CHECKOUT / linked).read_text())
    if anchor in anchors or anchor not in meant or len(anchors) != len(meant):
        return anchor
    return anchors[meant.index(anchor)]
