"""Writes several files, or none of them: a command that fails leaves a repository as it was."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from kopf_kit.rig.run import HackError

#: Writes the text of a file, or removes it if there is None.
Write = Callable[[Path, str | None], None]


@contextlib.contextmanager
def all_or_none() -> Iterator[Write]:
    """Give the block what writes and removes files; where it fails, take back what it did.

    Raise HackError where a file cannot be written.
    """
    former: dict[Path, bytes | None] = {}
    folders: list[Path] = []

    def write(file: Path, text: str | None) -> None:
        former.setdefault(file, file.read_bytes() if file.is_file() else None)
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
            raise HackError(f"{error.filename}: {error.strerror}; nothing was written") from error
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
