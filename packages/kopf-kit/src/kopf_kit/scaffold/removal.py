"""What `kopf-kit remove kind` takes out of a repository: what `kopf-kit new kind` put into it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kopf_kit.project import documents
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers

#: The entries of a kind in the files that list the kinds, each in the form of `kopf-kit new`.
_ENTRIES = {
    "PROJECT": (
        r"^  - api:\n(?:    .*\n)*?    kind: {kind}\n(?:    .*\n)*",
        r"^      {kind}:.*\n(?:      [ -].*\n)*",
    ),
    "charts/{name}/Chart.yaml": (r"^    - kind: {kind}\n(?:      .*\n)+",),
    "olm/csv.yaml": (r"^  {kind}:\n(?:   .*\n)+",),
}


def kind(folder: Path, kind: str) -> list[Path]:
    """Remove a kind; return the files that are changed or removed.

    Raise KitError if it cannot be removed; nothing is changed then.
    """
    before = repository.read(folder)
    first, *others = before.kinds
    if kind == first.kind:
        raise KitError(f"{kind} is the first kind, after which the repository is called; it stays")
    gone = next((each for each in others if each.kind == kind), None)
    if gone is None:
        known = ", ".join(each.kind for each in others) or "none but the first one"
        raise KitError(f"PROJECT has no kind {kind} that could be removed; it has {known}")
    samples = _samples(reading.text(folder / "PROJECT"))
    listed = samples.get(kind) or []
    own = [Path("tests", "unit", f"test_{gone.singular}.py")]
    own += map(Path, [listed] if isinstance(listed, str) else listed)
    texts = {before.module: _without(reading.text(folder / before.module), before.module, gone)}
    for name, patterns in _ENTRIES.items():
        path = Path(name.format(name=gone.name))
        if (folder / path).is_file():
            text = reading.text(folder / path)
            for pattern in patterns:
                text = re.sub(pattern.format(kind=kind), "", text, count=1, flags=re.MULTILINE)
            texts[path] = text
    left = documents.load(texts[Path("PROJECT")])["resources"]
    if [each["kind"] for each in left] != [each.kind for each in before.kinds if each != gone]:
        raise KitError(
            f"PROJECT: remove the kind {kind} from `resources` by hand, then repeat this"
        )
    if _samples(texts[Path("PROJECT")]) != {k: v for k, v in samples.items() if k != kind}:
        raise KitError(f"PROJECT: remove the kind {kind} from `samples` by hand, then repeat this")
    own = [path for path in own if (folder / path).is_file()]
    with reading.all_or_none() as write:
        for path, text in texts.items():
            write(folder / path, text)
        for path in own:
            write(folder / path, None)
    return sorted({*texts, *own})


def _samples(project: str) -> dict[str, Any]:
    return {**(next(iter(documents.load(project)["plugins"].values())).get("samples") or {})}


def _without(code: str, file: Path, gone: Answers) -> str:
    """Return a module's code without the classes, the controller and the functions of a kind.

    Raise KitError where a statement is about another kind, too.
    """
    lines = code.splitlines(keepends=True)
    controller = f"{gone.singular}_controller"
    own = {controller, gone.kind, f"{gone.kind}Spec"}
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise KitError(f"{file} is not Python: {error}") from error
    others = {name for node in body for name in _controllers(node)} - {controller}
    for node in reversed(body):
        names = {each.id for each in _declared(node) if isinstance(each, ast.Name)}
        classes = {node.name} if isinstance(node, ast.ClassDef) else set()
        goes = controller in names or classes & own
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if mixed := sorted(names & others if goes else used & own):
            raise KitError(
                f"{file}, line {node.lineno}: this statement names {mixed[0]}, and is not of "
                f"{gone.kind} alone; change it by hand, then repeat this"
            )
        if goes:
            decorators = getattr(node, "decorator_list", [])
            start = min(each.lineno for each in (node, *decorators)) - 1
            while start and not lines[start - 1].strip():
                start -= 1
            del lines[start : node.end_lineno]
    return "".join(lines)


def _controllers(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives to a controller."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=called))
            | ast.AnnAssign(target=ast.Name(name), value=ast.Call(func=called))
        ) if isinstance(called, ast.Attribute) and called.attr == "controller_for":
            yield name


def _declared(node: ast.stmt) -> list[ast.AST]:
    """Return the parts of a statement that say which controller it is about."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [part for each in node.decorator_list for part in ast.walk(each)]
        case ast.Assign() | ast.AnnAssign() | ast.Expr():
            return list(ast.walk(node))
    return []
