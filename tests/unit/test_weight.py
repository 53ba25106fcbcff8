"""What the tree may weigh: tests/weight.toml has a budget for each room, and nothing passes it."""

import ast
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGETS = tomllib.loads((ROOT / "tests/weight.toml").read_text())


def _tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = [name for name in listed.stdout.split("\0") if name]
    return [name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def _room(name: str) -> str:
    """Return the longest folder of the table that a file is in, and otherwise its first folder."""
    folders = [folder.as_posix() for folder in Path(name).parents]
    return next((folder for folder in folders if folder in BUDGETS["rooms"]), folders[-2:][0])


TRACKED = _tracked()
LINES = {name: (ROOT / name).read_bytes().count(b"\n") for name in TRACKED}
SOURCES = [name for name in TRACKED if name.startswith("packages/") and "/src/" in name]
MODULES = [name for name in SOURCES if name.endswith(".py")]


@pytest.mark.parametrize("room", sorted({_room(name) for name in TRACKED} | {*BUDGETS["rooms"]}))
def test_room_is_within_its_budget(room: str) -> None:
    inside = [name for name in TRACKED if _room(name) == room]
    lines, files = sum(LINES[name] for name in inside), len(inside)
    assert room in BUDGETS["rooms"], f"{room}/ is new: give it a budget in tests/weight.toml"
    budget = BUDGETS["rooms"][room]

    assert lines <= budget[0], f"{room} has {lines} lines, {lines - budget[0]} over its budget"
    assert files <= budget[1], f"{room} has {files} files, {files - budget[1]} over its budget"


def test_the_whole_is_within_its_budget() -> None:
    assert sum(LINES.values()) <= BUDGETS["lines"]
    assert len(TRACKED) <= BUDGETS["files"]


def test_no_two_modules_of_the_kit_have_one_name() -> None:
    names = Counter(Path(name).name for name in MODULES if "/kopf_kit/" in name)
    twice = sorted(name for name, times in names.items() if times > 1 and name[:2] != "__")

    assert twice == BUDGETS["exceptions"]["twice"]


def test_a_module_fits_a_sitting_and_is_worth_a_file() -> None:
    long = [name for name in MODULES if LINES[name] > 450]
    short = [name for name in MODULES if LINES[name] < 40 and not Path(name).name.startswith("__")]

    assert long == BUDGETS["exceptions"]["long"]
    assert short == BUDGETS["exceptions"]["short"]


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name in MODULES:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}:{node.name}", node


def test_a_function_fits_a_screen() -> None:
    long = [name for name, node in _functions() if (node.end_lineno or 0) - node.lineno > 60]

    assert long == BUDGETS["exceptions"]["functions"]


def test_a_constructor_takes_at_most_seven_parts() -> None:
    wide = [
        name
        for name, node in _functions()
        if node.name == "__init__" and len(node.args.args) + len(node.args.kwonlyargs) - 1 > 7
    ]

    assert wide == BUDGETS["exceptions"]["constructors"]
