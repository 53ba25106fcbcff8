"""Reads the files that people write, and writes several files or none of them.

Texts, JSON, TOML, and YAML as kubectl reads it; what cannot be read is refused with its place. A
command that fails leaves a repository as it was.
"""

import contextlib
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from kopf_kit.rig import kubectl_yaml
from kopf_kit.rig.run import KitError

#: What is larger is no file that somebody writes: etcd takes 1.5 MiB, and a catalog has a few.
_LARGEST = 32 * 2**20
_Content = TypeVar("_Content")


class UnreadableError(KitError, yaml.YAMLError):
    """A file that cannot be read, or is not in the language that it should be in."""


def text(file: Path, hint: str = "") -> str:
    """Return the text of a file; raise KitError, with the hint, if it cannot be read."""
    try:
        return content(file, hint).decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"{file} is not a text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error


def content(file: Path, hint: str = "") -> bytes:
    """Return the bytes of a file; raise KitError, with the hint, if it cannot be read."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait
            raise UnreadableError(f"{file} is not a file{_then(hint)}")
        if status.st_size > _LARGEST:
            raise UnreadableError(
                f"{file} has {status.st_size >> 20} MiB, which is too much to be read"
            )
        return file.read_bytes()
    except OSError as error:
        raise UnreadableError(f"{file}: {error.strerror}{_then(hint)}") from error


def _then(hint: str) -> str:
    return f"; {hint}" if hint else ""


def document(file: Path, shape: type[_Content]) -> _Content:
    """Return what is in a file of YAML with one document; raise KitError if it has another shape.

    The shape is a type that msgspec knows; fields that it does not name stay.
    """
    return shaped(load(text(file), file), shape, file)


def documents(file: Path, hint: str = "") -> list[Any]:
    """Return the documents of a file that are not empty."""
    return load_all(text(file, hint), file)


def toml(file: Path) -> dict[str, Any]:
    """Return what is in a file of TOML; raise KitError."""
    try:
        return tomllib.loads(text(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableError(f"{file} is not TOML: {error}") from error


def shaped(value: Any, shape: type[_Content], source: Path | str) -> _Content:
    """Return a value as it is; raise KitError, which names the field, if it has another shape."""
    converted(value, shape, source)
    same: _Content = value
    return same


def converted(value: Any, type_: type[_Content], source: Path | str) -> _Content:
    """Return a value as a type; raise KitError, which names the field that has another one."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise KitError(f"{source}: {' '.join(str(error).split()).replace('`$.', '`')}") from error


def load(written: str | bytes, source: Path | str) -> Any:
    """Return the one document of a text in YAML; raise KitError, which names the source."""
    everything = load_all(written, source) or [None]
    if len(everything) > 1:
        raise UnreadableError(f"{source} has {len(everything)} documents of YAML; write one")
    return everything[0]


def load_all(written: str | bytes, source: Path | str) -> list[Any]:
    """Return the documents of a text in YAML that are not empty; raise KitError."""
    try:
        text = written if isinstance(written, str) else written.decode()
        return [each for each in kubectl_yaml.values(text) if each is not None]
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


#: Writes the text of a file, or removes it if there is None.
Write = Callable[[Path, str | None], None]


@contextlib.contextmanager
def all_or_none() -> Iterator[Write]:
    """Give the block what writes and removes files; where it fails, take back what it did.

    Raise KitError where a file cannot be written.
    """
    former: dict[Path, bytes | None] = {}
    folders: list[Path] = []

    def write(file: Path, text: str | None) -> None:
        former.setdefault(file, content(file) if file.is_file() else None)
        if text is None:
            file.unlink()
            return
        folders.extend(folder for folder in file.parents if not folder.exists())
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    try:
        yield write
    except BaseException as error:
        _take_back(former, folders)
        if isinstance(error, OSError) and error.filename is not None:
            raise KitError(f"{error.filename}: {error.strerror}; nothing was written") from error
        raise


def _take_back(former: dict[Path, bytes | None], folders: list[Path]) -> None:
    for file, content in former.items():
        with contextlib.suppress(OSError):
            if content is not None:
                file.write_bytes(content)
            elif file.is_file():
                file.unlink()
    for folder in sorted({*folders}, reverse=True):
        with contextlib.suppress(OSError):  # somebody else has written into it
            folder.rmdir()
