"""`make generate`: build/reference.md has the public names of the runtime and of the test library.

griffe reads types, defaults and docstrings from the source, and ast what is raised. The example of
a name is its shortest use in a program that tests run, so it cannot be out of date.
"""

import ast
import functools
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import griffe

import kopf_runtime as kr
from kopf_kit import testing
from kopf_kit.rig import paths
from kopf_kit.testing import plugin

PAGE = paths.BUILD / "reference.md"
_FIXTURES = [
    name
    for name, value in vars(plugin).items()
    if isinstance(value, type(plugin.here)) and f"\n{name} " in str(plugin.__doc__)
]
_PUBLIC = {"kr": kr.__all__, "testing": testing.__all__, "fixture": _FIXTURES}
_PUBLIC["metrics"] = ["counter", "gauge", "histogram"]
_MODULES = {"kr": "kopf_runtime", "testing": testing.__name__, "fixture": plugin.__name__}
_MODULES["metrics"] = "kopf_runtime.cluster.metrics.Metrics"
#: Programs that a tier runs; those of an earlier row are better examples.
_RUN = (
    ("docs/testing.md", "examples/*/*.py", "examples/*/operator/**/*.py", "operator/**/*.py"),
    ("examples/*/booking/*.py", "examples/*/tests/**/*.py", "packages/kopf-runtime/tests/**/*.py"),
    ("packages/kopf-kit/tests/**/*.py", "tests/**/*.py"),
)
#: How programs call an object of a class, if not by the last word of its name.
_CALLED = {"Observed": "seen", "World": "here", "Conditioned": "pod"}
#: Lines of the longest example.
_LONGEST = 12
#: Of griffe: its types do not tell what each of them has.
_Thing = Any


@dataclass(frozen=True)
class Entry:
    """All that the page says of a name, a method, or a field."""

    name: str
    thing: _Thing

    @property
    def meaning(self) -> str:
        """The docstring; of a value, the comment above it."""
        if self.thing.docstring:
            return str(self.thing.docstring.value)
        if self._flag:
            return self._flag[1]
        lines = self.thing.lines_collection[self.thing.filepath][: self.thing.lineno - 1]
        above = itertools.takewhile(lambda line: line.strip().startswith("#:"), reversed(lines))
        return " ".join(line.strip().removeprefix("#: ") for line in [*above][::-1])

    @property
    def default(self) -> str:
        """The value of a field that is not given; of a setting, that of its flag."""
        return str(self._flag[0] if self._flag else self.thing.value or "")

    @property
    def _flag(self) -> list[str]:
        value = str(getattr(self.thing, "value", ""))
        call = ast.parse(value, mode="eval").body if value.startswith("flag(") else None
        return (
            [ast.literal_eval(each) for each in call.args[:2]] if isinstance(call, ast.Call) else []
        )

    @property
    def signature(self) -> str:
        """How it is called, with types and defaults; of a value, its type or the value."""
        if self.thing.is_function or self.thing.is_class:
            return str(self.thing.signature() or "")
        return str(self.thing.annotation or self.thing.value) if self.thing.is_attribute else ""

    @property
    def members(self) -> list["Entry"]:
        """The public fields and methods of a class, without those of a public base."""
        if not self.thing.is_class:
            return []
        alias, _, own = self.name.partition(".")
        public = {_target(alias, name).path for name in _PUBLIC[alias] if name != own}
        members = {name: _final(each) for name, each in self.thing.all_members.items()}
        return [
            Entry(f"{self.name}.{name}", each)
            for name, each in members.items()
            if name[0] != "_" and each.parent.path not in public
        ]

    @property
    def errors(self) -> list[str]:
        """The errors that its code raises, with their messages."""
        if not self.thing.is_function:
            return []
        nodes = ast.walk(ast.parse(textwrap.dedent("\n".join(self.thing.lines))))
        raised = [node.exc for node in nodes if isinstance(node, ast.Raise)]
        calls = [error for error in raised if isinstance(error, ast.Call)]
        return [f"`{ast.unparse(call.func)}`: {_message(call)}" for call in calls]

    @property
    def source(self) -> str:
        """The page of its source."""
        return _page(Path(self.thing.filepath), self.thing.lineno or 1)

    @property
    def example(self) -> tuple[Path, int, str] | None:
        """Its shortest use in a program that tests run: the file, the line and the statement."""
        alias, _, name = self.name.partition(".")
        class_, _, method = name.rpartition(".")
        if not class_:
            return _uses().get(f"{alias}.{name}")
        called = _CALLED.get(class_) or re.findall("[A-Z][a-z]+", class_)[-1].lower()
        return _uses().get(f"{called}.{method}")


@functools.cache
def entries() -> list[Entry]:
    """Return the public names, in the order of their lists."""
    return [
        Entry(f"{alias}.{name}", _target(alias, name))
        for alias, names in _PUBLIC.items()
        for name in names
    ]


@functools.cache
def _target(alias: str, name: str) -> _Thing:
    """Return griffe's object of a public name."""
    path = f"{_MODULES[alias]}.{name}"
    if alias == "testing":  # it imports them when they are used
        path = f"{_MODULES[alias]}.{testing._NAMES[name].replace(':', '.')}".strip(".")
    elif isinstance(value := getattr(kr, name, None), Enum):
        path = f"{type(value).__module__}.{type(value).__name__}.{value.name}"
    return _final(_modules()[path])


@functools.cache
def _modules() -> _Thing:
    loader = griffe.GriffeLoader(search_paths=[*paths.CHECKOUT.glob("packages/*/src")])
    for module in (_MODULES["kr"], _MODULES["testing"]):
        loader.load(module)
    return loader.modules_collection


def _final(thing: _Thing) -> _Thing:
    return thing.final_target if thing.is_alias else thing


def _message(call: ast.Call) -> str:
    """Return the text of an error, with `…` for what it inserts."""
    parts = [node for argument in call.args for node in ast.walk(argument)]
    texts = [node.value for node in parts if isinstance(node, ast.Constant)]
    return " … ".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


def _page(file: Path, line: int) -> str:
    return f"../{file.relative_to(paths.CHECKOUT)}#L{line}"  # from build/


@functools.cache
def _uses() -> dict[str, tuple[Path, int, str]]:
    """Return the shortest use of each name, of the first row of programs that have one."""
    found: dict[str, tuple[Path, int, str]] = {}
    for patterns in _RUN:
        row: dict[str, tuple[Path, int, str]] = {}
        for file in sorted(f for pattern in patterns for f in paths.CHECKOUT.glob(pattern)):
            lines = file.read_text().splitlines()
            if file.suffix == ".md":
                lines = [*_python(lines)]
            for first, last, name in _names(ast.parse("\n".join(lines))):
                use = textwrap.dedent("\n".join(lines[first - 1 : last]))
                if last - first < _LONGEST and _rank(use) < _rank(row.get(name, ("", 0, ""))[2]):
                    row[name] = file, first, use
        found = row | found
    return found


def _python(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a page, without those that are no Python."""
    fence = ""
    for line in lines:
        if line.startswith("```"):
            fence = "" if fence else line
        yield line if fence == "```python" and line != fence else ""


def _rank(use: str) -> tuple[bool, bool, int]:
    """Return what is smaller for a better example: what only annotates shows no use."""
    annotates = re.fullmatch(r"\w+: [^=\n]+|(@pytest.+\n)?(async )?def .+:", use)
    return not use, annotates is not None, len(use)


def _names(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield the public names that each statement has, with its first and last line."""
    known = _imported(tree)
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt | ast.ExceptHandler):
            continue
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(each.lineno for each in decorators)])
        last = statement.end_lineno or first
        parts: list[ast.AST] = [statement]
        if last - first >= _LONGEST and hasattr(statement, "body"):  # its head shows the use
            last = max(first, statement.body[0].lineno - 1)
            parts = [
                part
                for part in ast.iter_child_nodes(statement)
                if getattr(part, "lineno", first) <= last
            ]
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            fixture = any("pytest.fixture" in ast.unparse(each) for each in decorators)
            if last == statement.end_lineno and (fixture or statement.name[:5] == "test_"):
                names = {each.arg for each in statement.args.args} | {statement.name}
                yield from ((first, last, f"fixture.{name}") for name in names)
        for node in itertools.chain.from_iterable(map(ast.walk, parts)):
            if isinstance(node, ast.Name) and node.id in known:
                yield first, last, known[node.id]
            if isinstance(node, ast.Attribute):
                value = node.value.func if isinstance(node.value, ast.Call) else node.value
                owner = getattr(value, "attr", "") or getattr(value, "id", "")
                yield first, last, f"{known.get(owner, owner.lower())}.{node.attr}"


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return what the names of a program stand for: public names, and controllers."""
    places = {f"{_MODULES['testing']}.{place}": name for name, place in testing._NAMES.items()}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "kopf_kit.testing" in (node.module or ""):
            for alias in node.names:
                name = places.get(f"{node.module}:{alias.name}", alias.name)
                found[alias.asname or alias.name] = f"testing.{name}"
        if isinstance(node, ast.Assign) and ".controller_for(" in ast.unparse(node.value)[:99]:
            found[ast.unparse(node.targets[0])] = "controller"
    return found


def text() -> str:
    """Return the page."""
    return "\n".join(["# Reference\n", *(line for each in entries() for line in _section(each))])


def _section(entry: Entry, level: str = "##") -> Iterator[str]:
    yield f"{level} `{entry.name}`\n"
    lines = textwrap.wrap(entry.signature, 96, subsequent_indent="    ", break_on_hyphens=False)
    yield "\n".join(["```python", *lines, "```\n"] if lines else [])
    yield f"{entry.meaning} ([source]({entry.source}))\n"
    yield "\n".join([f"- {error}" for error in entry.errors] + [""])
    if entry.example:
        file, line, use = entry.example
        yield f"[{file.name}]({_page(file, line)}):\n\n```python\n{use}\n```\n"
    fields = [each for each in entry.members if not each.thing.is_function and each.meaning]
    if fields:
        yield "| field | type | default | meaning |\n|---|---|---|---|"
        for each in fields:
            name = each.name.rpartition(".")[2]
            type_ = str(each.thing.annotation or "").replace("|", "\\|")
            yield f"| `{name}` | `{type_}` | `{each.default}` | {' '.join(each.meaning.split())} |"
        yield ""
    for each in entry.members:
        if each.thing.is_function:
            yield from _section(each, "###")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text(), encoding="utf-8")
