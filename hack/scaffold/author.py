"""What the author of a new operator edits: small, complete, and never written again."""

import re
import string
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from hack.pack import kit_changes, site_text
from hack.pack.project import REFERENCE
from hack.rig import paths, versions
from hack.rig.run import HackError
from hack.scaffold.answers import Answers

TEMPLATES = Path(__file__).parent / "templates"
_WORKFLOW = ".github/workflows/check.yaml"
_TEST_ALL = ".github/workflows/test-all.yaml"
_RELEASE = ".github/workflows/release.yaml"
#: This repository's, with the new operator's name in them.
_RENAMED = (
    "docs/icon.svg",
    ".devcontainer/devcontainer.json",
    _RELEASE,
    "vex.yaml",
)
#: This repository's pages that hold for every operator, and where their links lead instead.
_PAGES = {
    "docs/verify.md": {"install.md": "../README.md#install"},
    "docs/verify.ko.md": {"install.ko.md": "../README.ko.md#설치"},
}
#: A paragraph of such a page that is about this repository alone.
_ONLY_HERE = re.compile(r"^<!-- not in new repositories -->\n(?:.+\n)+\n?", re.MULTILINE)
#: The version that such a page names. A new repository has its own, which begins as the templates
#: have it: what follows the author's versions is nothing that `make kit-update` has to merge.
_VERSION = re.compile(r"(?<= VERSION=)\d\S*")
_FIRST = "0.1.0"
#: What the kit has a part in, such as its dependencies; `make kit-update` merges newer versions.
_MERGED = (
    "pyproject.toml",
    ".dockerignore",
    ".devcontainer/devcontainer.json",
    _WORKFLOW,
    _TEST_ALL,
    _RELEASE,
    *_PAGES,
)
#: What the workflows run of the new repository's Makefile, and of its tiers.
_PARTS = "[check, e2e]"
_TIERS = (
    "lint,types,repository,verify,unit,chart,bundle-tools,bundle",
    *("faults", "cluster,e2e"),
)


class _Template(string.Template):
    """A text with `@@{word}`: a plain `$` or `{` means something in most of these files."""

    delimiter = "@@"


def files(answers: Answers) -> dict[Path, str]:
    """Return the texts of the author's files, by their paths in the new repository."""
    words = {**answers.words, **_of_this_repository()}
    templates = sorted(file for file in TEMPLATES.rglob("*.in") if file.is_file())
    texts = {
        **{
            _path(file, answers): _Template(file.read_text()).substitute(words)
            for file in templates
        },
        **{Path(name): _renamed(name, answers) for name in _RENAMED},
        **{Path(name): _page(name, answers) for name in _PAGES},
        Path(_WORKFLOW): _workflow(),
        Path(_TEST_ALL): _test_all(),
    }
    return texts | {kit_changes.AUTHOR / name: texts[Path(name)] for name in _MERGED}


def references() -> list[Path]:
    """Return where a new repository has what `make kit-update` compares the author's files with."""
    return [kit_changes.AUTHOR / name for name in _MERGED]


def _path(template: Path, answers: Answers) -> Path:
    path = str(template.relative_to(TEMPLATES)).removesuffix(".in")
    return Path(path.replace("NAME", answers.name).replace("PACKAGE", answers.package))


def _renamed(name: str, answers: Answers) -> str:
    return (paths.CHECKOUT / name).read_text().replace(REFERENCE.name, answers.name)


def _page(name: str, answers: Answers) -> str:
    """Return a page without what is about this repository alone, and without comments."""
    text = site_text.without_comments(_ONLY_HERE.sub("", _renamed(name, answers)))
    text = _VERSION.sub(_FIRST, text)
    return site_text.with_links(text, lambda link: _PAGES[name].get(link, link))


def _workflow() -> str:
    """Return the workflow of the checks: its first job, with the parts that there are."""
    first, *_ = re.split(r"\n\n(?=  \w+:\n    name: )", (paths.CHECKOUT / _WORKFLOW).read_text())
    text, times = re.subn(r"(?: +# .*\n)?( +target: )\[.*\]", rf"\g<1>{_PARTS}", first)
    if times != 1:
        raise HackError(f"{_WORKFLOW}: its first job must have one list of targets, not {times}")
    return text.rstrip() + "\n"


def _test_all() -> str:
    """Return the workflow of all tests, with the tiers that there are."""
    text = (paths.CHECKOUT / _TEST_ALL).read_text()
    items = "".join(f"          - {part}\n" for part in _TIERS)
    text, times = re.subn(r"( +part:\n)(?: +- .+\n)+", rf"\g<1>{items}", text)
    if times != 1:
        raise HackError(f"{_TEST_ALL}: it must have one list of parts, not {times}")
    return text


def _of_this_repository() -> dict[str, str]:
    """Return what the templates have of this repository: its dependencies and settings of tools."""
    text = (paths.CHECKOUT / "pyproject.toml").read_text()
    reuse = tomllib.loads((paths.CHECKOUT / "REUSE.toml").read_text())
    today = datetime.now(UTC)
    return {
        "dependencies": _block(text, "dependencies"),
        "development": _block(text, "dev"),
        "go": _found(r"^go = \[.*\]$", text),
        "lint": _section(text, "tool.ruff.lint")
        + "\n\n"
        + _section(text, "tool.ruff.lint.pydocstyle"),
        "kubernetes": versions.OLDEST,
        "kit_copyright": reuse["annotations"][0]["SPDX-FileCopyrightText"],
        "today": f"{today:%Y-%m-%d}",
        "year": f"{today:%Y}",
    }


def _block(text: str, key: str) -> str:
    """Return a list of pyproject.toml with its comments."""
    return _found(rf"^{key} = \[\n(?:    .*\n)*\]", text)


def _section(text: str, name: str) -> str:
    """Return a section of pyproject.toml with its comments."""
    return _found(rf"^\[{re.escape(name)}\]\n(?:[^\[\n].*\n)*(?:\].*\n)?", text).rstrip()


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise HackError(f"pyproject.toml has nothing as {pattern}")
    return match[0]
