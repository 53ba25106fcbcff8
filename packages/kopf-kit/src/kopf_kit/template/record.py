"""Reads from PROJECT how `kopf-kit new` wrote a repository."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.rig import reading
from kopf_kit.rig.run import HackError
from kopf_kit.template.answers import Answers


@dataclass(frozen=True)
class Record:
    """A repository's kinds, and the version of the kit whose template its files are of."""

    folder: Path
    version: str
    kinds: tuple[Answers, ...]
    #: The module that declares the operator, such as `cache_operator.operator`.
    manager: str

    @property
    def module(self) -> Path:
        """Where the code of the operator is, in the repository."""
        return Path("operator", *self.manager.split(".")).with_suffix(".py")


def find(folder: Path) -> Path:
    """Return the repository that a folder is in; raise HackError if it is in none."""
    for above in (folder, *folder.parents):
        if (above / "PROJECT").is_file():
            return above
    raise HackError(
        f"{folder} is not in the repository of an operator; go to the folder that has PROJECT"
    )


def read(folder: Path) -> Record:
    """Return what PROJECT in a folder says; raise HackError if `kopf-kit new` did not write it."""
    path = folder / "PROJECT"
    try:
        return _record(folder, reading.document(path, dict[str, Any]))
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise HackError(
            f"{path} is not as `kopf-kit new` writes it; {' '.join(repr(error).split())}"
        ) from error


def _record(folder: Path, file: dict[str, Any]) -> Record:
    plugin = next(iter(file["plugins"].values()))
    olm = (folder / "olm" / "csv.yaml").is_file()  # generated files are in this folder, too
    kinds = tuple(
        Answers(
            file["projectName"],
            kind["kind"],
            ".".join(filter(None, (kind.get("group"), kind["domain"]))),
            olm=olm,
        )
        for kind in file["resources"]
    )
    return Record(folder, str(file.get("cliVersion", "")), kinds, plugin["manager"])
