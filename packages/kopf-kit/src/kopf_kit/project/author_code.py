"""Imports the author's code, or reads which programs it calls.

What an import fails at is told with the line in the repository.
"""

import ast
import importlib
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from kopf_kit.rig.run import KitError

_BY_A_SHELL = re.compile(
    r"os\.(system|popen)|subprocess\.get(status)?output"
    r"|asyncio\.(subprocess\.)?create_subprocess_shell"
)
_CALLS = re.compile(
    rf"{_BY_A_SHELL.pattern}|subprocess\.(run|call|check_call|check_output|Popen)"
    r"|asyncio\.(subprocess\.)?create_subprocess_exec|shutil\.which|os\.(exec\w+|posix_spawnp?)"
)
#: A program by its name, or where a system has it; other paths are of files of the repository.
_PROGRAM = re.compile(r"(?:/(?:usr/)?(?:local/)?s?bin/)?([A-Za-z_][\w.+-]*)")
SHELLS = {"sh", "bash"}
#: Each image has it.
_PYTHON = re.compile(r"python[\d.]*")


def module(name: str, sources: Path, root: Path) -> ModuleType:
    """Return a module of a repository; raise KitError where it cannot be imported.

    `sources` is the folder of the operator's package; other modules may be in `root`.
    """
    for folder in map(str, (sources, root)):
        if folder not in sys.path:
            sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except KitError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise KitError(f"{root / 'PROJECT'}: there is no module {name}") from error
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise KitError(
            f"{_line(error, sources)}: {type(error).__name__}: {' '.join(words.split())}; "
            "correct it, then repeat this command"
        ) from error


def value(name: str, attribute: str, sources: Path, root: Path) -> object:
    """Return what a module declares under a name; raise KitError if it does not."""
    try:
        return getattr(module(name, sources, root), attribute)
    except AttributeError as error:
        raise KitError(f"{name} declares no `{attribute}`; add it there") from error


def _line(error: Exception, folder: Path) -> str:
    """Return the author's line at which an import failed, or else the last one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        (Path(frame.filename), f"{frame.filename}:{frame.lineno}")
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen")
    ]
    theirs = [line for file, line in lines if file.is_relative_to(folder)] or [lines[-1][1]]
    return theirs[-1]


def programs(module: str, folder: Path) -> dict[str, str]:
    """Return the programs that a module, and what it imports from its folder, call, with a line."""
    found: dict[str, str] = {}
    todo, seen = [module], set[Path]()
    while todo:
        name = todo.pop()
        place = folder.joinpath(*name.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file in seen or not file.is_file():
                continue
            seen.add(file)
            try:
                code = ast.parse(file.read_bytes())
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # Python could not import it, either
            package = name if file.stem == "__init__" else name.rpartition(".")[0]
            todo += _imports(code, package)
            for program, line in _calls(code):
                found.setdefault(program, f"{file.relative_to(folder)}:{line}")
    return {name: found[name] for name in sorted(found) if not _PYTHON.fullmatch(name)}


def _imports(code: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(code):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(of, names, level):
                parts = package.split(".")
                above = parts[: len(parts) - level + 1] if level else []
                base = ".".join(filter(None, (*above, of)))
                yield from (base, *(f"{base}.{each.name}".lstrip(".") for each in names))


def _calls(code: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each program with the line that calls it."""
    nodes = [*ast.walk(code)]
    aliases: dict[str, str] = {}
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Import(names):
                aliases |= {each.asname: each.name for each in names if each.asname}
            case ast.ImportFrom(str(of), names):
                aliases |= {each.asname or each.name: f"{of}.{each.name}" for each in names}
            case ast.Assign([ast.Name(name)], value):
                values.setdefault(name, []).append(value)
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        first, dot, rest = ast.unparse(node.func).partition(".")
        function = f"{aliases.get(first, first)}{dot}{rest}"
        if not _CALLS.fullmatch(function):
            continue
        by_shell = bool(_BY_A_SHELL.fullmatch(function)) or any(
            each.arg == "shell" and getattr(each.value, "value", False) for each in node.keywords
        )
        named = (each.value for each in node.keywords if each.arg in ("args", "cmd"))
        for argument in (*node.args[:1], *named):
            for program in _named(argument, values, by_shell=by_shell):
                yield program, node.lineno


def _named(value: ast.expr, values: dict[str, list[ast.expr]], *, by_shell: bool) -> Iterator[str]:
    """Yield the programs that an argument names, by a literal or a variable that is one."""
    match value:
        case ast.Constant(str(text)):
            yield from _commands(text, by_shell=by_shell)
        case ast.JoinedStr([ast.Constant(str(text)), *_]):
            yield from _commands(text.rpartition(" ")[0], by_shell=by_shell)
        case ast.List([program, *others]) | ast.Tuple([program, *others]):
            shells = [*_named(program, values, by_shell=False)]
            yield from shells
            if SHELLS & {*shells} and len(others) > 1:
                yield from _named(others[1], values, by_shell=True)
        case ast.BinOp(left):
            yield from _named(left, values, by_shell=by_shell)
        case ast.Name(name):
            further = {other: each for other, each in values.items() if other != name}
            for each in values.get(name, ()):
                yield from _named(each, further, by_shell=by_shell)
        case ast.Call(ast.Attribute(ast.Constant() as text)):  # "git {}".format(…), "git a".split()
            yield from _named(text, values, by_shell=by_shell)
        case ast.Call(_, [argument, *_]):  # shlex.split("git a"), shutil.which("git")
            yield from _named(argument, values, by_shell=by_shell)


def _commands(text: str, *, by_shell: bool) -> Iterator[str]:
    commands: Iterable[str] = re.split(r"[|;&\n]+", text) if by_shell else (text,)
    if by_shell:
        yield "sh"
    for command in commands:
        words = [word for word in command.split() if not re.match(r"\w+=", word)]
        if words and (program := _PROGRAM.fullmatch(words[0])):
            yield program[1]
