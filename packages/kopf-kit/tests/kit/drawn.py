"""Draws repositories that no author meant: good ones with one thing wrong in them."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kopf_kit.project import documents
from kopf_kit.rig.run import KitError

#: What may stand where something else is meant.
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**70, "", " ", "x", "가 나", "{{ .Values", "a\nb", "2024-01-01"),
    *("../..", "/", "\x85", [], {}, [None], [[]], [{}], {"": None}, {"a": {"a": []}}, "a" * 300),
)
#: YAML and TOML that are hardly any.
_TEXTS = (
    *("", "\n", "---\n---\n", "a: [", "\t", "- a\nb: c\n", "=\n", "? [a]\n: b\n", "a: &a [*a]\n"),
    *("a: !!python/object:os.system x\n", "%YAML 9\n---\na\n", "\ufeffa: 1\n", "a: *b\n"),
    *("a: .inf\n", "1.5: a\n", "a: !note b\n", "kind: List\nitems: null\n", "\x00"),
    *("{" * 5000, "[" * 300 + "]" * 300),
    "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 1}]\n" for n in range(12)),
)
Change = tuple[str, Callable[[], object]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or object within a value, with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield value, key
        yield from places(value[key])


def change(rng: random.Random, file: Path) -> str:
    """Change a file, or what is in its place, into something odd; return what was done."""
    draw = rng.random()
    is_yaml = file.suffix in (".yaml", "") and file.is_file()
    if draw < 0.6 and is_yaml and (done := _value(rng, file)):
        return done
    return _bytes(rng, file) if draw < 0.85 else _entry(rng, file)


def _value(rng: random.Random, file: Path) -> str:
    try:
        content = documents.load_all(file.read_text())
    except KitError:  # it is a template
        return ""
    parts = [part for part in content if isinstance(part, dict | list)]
    found = [place for part in parts for place in places(part)]
    if not found:
        return ""
    # Each depth alike: else most changes would be deep within a schema.
    holder, key = rng.choice(found[: rng.choice((5, 20, len(found)))])
    if rng.random() < 0.25:
        del holder[key]
        done = f"without {key!r}"
    else:
        odd = rng.choice(_ODD)
        holder[key] = odd
        done = f"{key!r} is {str(odd)[:40]!r}"
    try:
        file.write_text(documents.text(*parts))
    except UnicodeEncodeError:
        return ""
    return done


def _bytes(rng: random.Random, file: Path) -> str:
    if file.is_dir():
        return _entry(rng, file)
    given = file.read_bytes() if file.is_file() else b""
    at = rng.randrange(len(given) + 1)
    name, content = rng.choice(
        (
            ("binary", rng.randbytes(200)),
            ("cut off", given[:at]),
            ("a letter of latin-1", given[:at] + b"\xe9" + given[at:]),
            ("a tab", given[:at] + b"\n\t" + given[at:]),
            ("twice", given + given),
            ("a text", rng.choice(_TEXTS).encode()),
            ("a text", rng.choice(_TEXTS).encode()),
            ("after it, a text", given + b"\n" + rng.choice(_TEXTS).encode()),
        )
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return f"{name}: {content[max(0, at - 30) : at + 30]!r}"


def _entry(rng: random.Random, file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    kind = rng.choice(("nothing", "folder", "loop", "dangling", "pipe", "huge", "device"))
    match kind:
        case "folder":
            (file / "within").mkdir(parents=True)
        case "loop":
            file.symlink_to(file.name)
        case "dangling":
            file.symlink_to("not-there")
        case "pipe":
            os.mkfifo(file)
        case "huge":
            with file.open("wb") as large:
                large.truncate(2**36)
        case "device":
            file.symlink_to("/dev/zero")
    return kind


def history(rng: random.Random, folder: Path) -> str:
    """Change what git knows of a repository into something odd; return what was done."""
    git = folder / ".git"
    tag = rng.choice(("v1", "v0.0.9", "v0.1.0", "v99.0.0", "v0.1.0-가", "0.1", "v0.1.0+a", "a/b"))
    head = (git / "HEAD").read_text().split()[-1]
    match kind := rng.choice(("tag", "tag", "tag of nothing", "unborn", "no HEAD", "a file")):
        case "tag":
            (git / "refs/tags" / tag).parent.mkdir(exist_ok=True)
            shutil.copy(git / head, git / "refs/tags" / tag)
            return f"the tag {tag}"
        case "tag of nothing":
            (git / "refs/tags/v0.0.1").write_text("1" * 40 + "\n")
        case "unborn":
            (git / head).unlink()
        case "no HEAD":
            (git / "HEAD").unlink()
        case "a file":
            shutil.rmtree(git)
            git.write_text(rng.choice(("", "gitdir: /not-there\n")))
    return kind


def state(folder: Path) -> dict[str, Any]:
    """Return what is in a folder, except for what is made below build/ and by Python."""
    found: dict[str, Any] = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "build", "__pycache__")]
        for name in (*folders, *names):
            path = Path(base, name)
            status = path.lstat()
            regular = path.is_file() and not path.is_symlink() and status.st_size < 2**20
            content = path.read_bytes() if regular else status.st_size
            found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


def copy(good: Path, to: Path) -> Path:
    """Copy a repository; what is there already goes."""
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(good, to, symlinks=True)
