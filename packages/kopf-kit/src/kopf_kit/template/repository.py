"""A new operator's repository, as `kopf-kit new` writes it: complete, or not at all."""

import importlib.metadata
import shutil
import string
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from kopf_kit.pack import documents
from kopf_kit.pack.publication.packages import compatible
from kopf_kit.rig import versions
from kopf_kit.rig.run import HackError, output
from kopf_kit.template.answers import Answers

_FOLDER = Path(__file__).parent
TEMPLATES = _FOLDER / "templates"
#: The picture in catalogs, until an author draws one: `icon:` in Chart.yaml names it.
_ICON = _FOLDER.parent / "pack" / "reference" / "icon.svg"
#: What only a repository has that OLM installs from.
OLM = "olm"


class _Template(string.Template):
    """A text with `@@{word}`: a plain `$` or `{` means something in most of these files."""

    delimiter = "@@"


def version() -> str:
    """Return the version of this kit, which a repository has in PROJECT as `cliVersion`."""
    return importlib.metadata.version("kopf-kit")


def pins() -> dict[str, str]:
    """Return the requirements that a repository has of this kit and of its runtime."""
    return {
        "runtime_pin": f"kopf-runtime{compatible(importlib.metadata.version('kopf-runtime'))}",
        "kit_pin": f"kopf-kit[release,testing]{compatible(version())}",
    }


def files(answers: Answers) -> dict[Path, str]:
    """Return the texts of the repository's files, by their paths in it."""
    templates = sorted(file for file in TEMPLATES.rglob("*.in") if file.is_file())
    texts = {
        path: fill(file, answers)
        for file in templates
        if (path := _path(file, answers)).parts[0] != OLM or answers.olm
    }
    return {
        **texts,
        Path("LICENSE"): documents.licence(),
        Path("docs", _ICON.name): _ICON.read_text(),
    }


def fill(template: str | Path, answers: Answers) -> str:
    """Return the text of a template, by its path beside this module."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    words = {
        **answers.words,
        **pins(),
        "version": version(),
        "kubernetes": versions.OLDEST,
        "today": today,
    }
    return _Template((_FOLDER / template).read_text()).substitute(words)


def _path(template: Path, answers: Answers) -> Path:
    path = str(template.relative_to(TEMPLATES)).removesuffix(".in")
    return Path(path.replace("NAME", answers.name).replace("PACKAGE", answers.package))


def check_folder(folder: Path) -> None:
    """Raise HackError if a folder is not empty, or is a file."""
    if folder.exists() and not folder.is_dir():
        raise HackError(f"{folder} is a file; choose a folder that is empty or does not exist")
    if folder.exists() and any(entry.name != ".git" for entry in folder.iterdir()):
        raise HackError(f"{folder} is not empty; choose a folder that is empty or does not exist")


def write(answers: Answers, folder: Path, *, lock: bool = True) -> str:
    """Write the repository, and return a sentence on what is missing from it, or nothing.

    Raise HackError if the folder cannot have it.
    """
    answers.check_free()
    check_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # What fails or is interrupted leaves nothing in the folder.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            unfinished = Path(beside, "repository")
            lay_out(files(answers), unfinished)
            missing = write_lock(unfinished, folder) if lock else ""
            if shutil.which("git") and not _is_in_repository(folder):
                output(["git", "init", "--quiet", "--initial-branch=main"], cwd=unfinished)
            _move(unfinished, folder)
    except OSError as error:
        raise HackError(f"{folder}: {error.strerror}; nothing was written") from error
    return missing


def lay_out(texts: dict[Path, str], folder: Path) -> None:
    """Write texts into a folder, by their paths in it."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_lock(folder: Path, called: Path, *options: str) -> str:
    """Let uv write its lock; return a sentence if it cannot. `called` is the folder for people."""
    later = f"uv.lock is not written; run `uv lock` in {called} where a package index is reached"
    if shutil.which("uv") is None:
        return f"{later} and uv is installed (https://docs.astral.sh/uv/)"
    try:
        output(["uv", "lock", "--quiet", *options], cwd=folder, timeout=120)
    except HackError as error:
        return f"{later}. uv says: {error.reason}"
    return ""


def _is_in_repository(folder: Path) -> bool:
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def _move(unfinished: Path, folder: Path) -> None:
    """Put a finished repository in its place; a folder that exists stays the same folder."""
    if not folder.exists():
        unfinished.rename(folder)
        return
    names = [entry.name for entry in unfinished.iterdir()]
    try:
        for name in names:
            (unfinished / name).rename(folder / name)
    except OSError:
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(unfinished / name)
        raise
