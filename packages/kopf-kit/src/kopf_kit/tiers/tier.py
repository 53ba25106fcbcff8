"""What tests/tiers.toml says: the tiers, and the command of each."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

Set = Literal["check", "test", "all", "asked"]
Lane = Literal["computes", "waits"]
SETS: tuple[Set, ...] = ("check", "test", "all", "asked")
LANES: tuple[Lane, ...] = ("computes", "waits")
#: The tiers of a repository that has none of its own.
DEFAULT = Path(__file__).with_name("tiers.toml")
#: A tier with this ending has the tests that the quick tier of the same name leaves out.
LONG = "-long"


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tier; the comment in tests/tiers.toml explains each field."""

    name: str = ""
    says: str
    set: Set
    lane: Lane
    run: str = ""
    pytest: str = ""
    of_project: str = ""
    after: tuple[str, ...] = ()
    cluster: bool = False
    own_cluster: bool = False
    limit: int = 60

    def command(self, report: Path, options: Sequence[str], project: str) -> str:
        """Return the shell's command; `report` is where pytest writes, `options` are further."""
        tests = self.of_project if project and self.of_project else self.pytest
        line = self.run or f"python -m pytest {tests} {{pytest}}"
        words = {
            "{pytest}": shlex.join([f"--junit-xml={report}", *options]),
            "{options}": shlex.join(options),
            "{project}": shlex.quote(project),
        }
        for placeholder, ours in words.items():
            line = line.replace(placeholder, ours)
        return line

    @property
    def knows_projects(self) -> bool:
        """Whether the tier tests the operator that PROJECT names."""
        return bool(self.of_project or self.run)

    def is_there(self, root: Path) -> bool:
        """Return whether a repository has the folder of the tests, if it needs one."""
        return not self.pytest or (root / self.pytest.split()[0]).exists()

    @property
    def may_be_empty(self) -> bool:
        """Whether the tier passes without a test."""
        return self.name.endswith(LONG)


def read(file: Path) -> dict[str, Tier]:
    """Return the tiers by name, in the file's order; raise KitError if something is wrong."""
    try:
        tiers = msgspec.toml.decode(file.read_bytes(), type=dict[str, Tier])
    except (OSError, msgspec.MsgspecError) as error:
        raise KitError(f"{file}: {error}") from error
    named = {name: msgspec.structs.replace(tier, name=name) for name, tier in tiers.items()}
    for name, tier in named.items():
        if bool(tier.run) == bool(tier.pytest):
            raise KitError(f"{file}: the tier {name} needs either `run` or `pytest`")
        choose(named, tier.after)
    if file != DEFAULT:
        return named
    # How the code of an adopted operator has to look is its author's matter.
    left_out = ("lint", "types") if paths.is_adopted() else ()
    return {
        name: tier
        for name, tier in named.items()
        if tier.is_there(paths.CHECKOUT) and name not in left_out
    }


def of_set(tiers: dict[str, Tier], set_name: Set) -> list[Tier]:
    """Return the tiers of a set; each set has those of the one before it, too."""
    return [tier for tier in tiers.values() if SETS.index(tier.set) <= SETS.index(set_name)]


def choose(tiers: dict[str, Tier], names: Sequence[str], *, with_long: bool = False) -> list[Tier]:
    """Return the tiers with these names; raise KitError with the list if one is unknown."""
    if unknown := [name for name in names if name not in tiers]:
        raise KitError(f"there is no tier {unknown[0]}; choose from {', '.join(tiers)}")
    chosen = {*names, *(f"{name}{LONG}" for name in names if with_long)}
    return [tier for name, tier in tiers.items() if name in chosen]
