"""What `kopf-kit remove kind` takes out of a repository: what `kopf-kit new kind` put into it."""

import ast
import re
from pathlib import Path

from kopf_kit.project import documents
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers, Record

#: The entries of a kind in the files that list the kinds, each in the form of `kopf-kit new`.
_ENTRIES = {
    "PROJECT": (
        r"^  - api:\n(?:    .*\n)*?    kind: {kind}\n(?:    .*\n)*",
        r"^      {kind}: .*\n",
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
    own = [Path("tests", "unit", f"test_{gone.singular}.py"), _sample(before, kind)]
    texts = {before.module: _without(reading.text(folder / before.module), gone)}
    for name, patterns in _ENTRIES.items():
        path = Path(name.format(name=gone.name))
        if (folder / path).is_file():
            text = reading.text(folder / path)
            for pattern in patterns:
                text = re.sub(pattern.format(kind=kind), "", text, count=1, flags=re.MULTILINE)
            texts[path] = text
    left = [each["kind"] for each in documents.load(texts[Path("PROJECT")])["resources"]]
    if left != [each.kind for each in before.kinds if each != gone]:
        raise KitError(
            f"PROJECT: remove the kind {kind} from `resources` by hand, then repeat this"
        )
    repository.lay_out(texts, folder)
    for path in own:
        (folder / path).unlink(missing_ok=True)
    return sorted({*texts, *own})


def _sample(before: Record, kind: str) -> Path:
    project = documents.load(reading.text(before.folder / "PROJECT"))
    plugin = next(iter(project["plugins"].values()))
    return Path(plugin["samples"].get(kind, "PROJECT.none"))


def _without(code: str, gone: Answers) -> str:
    """Return a module's code without the classes, the controller and the functions of a kind."""
    lines = code.splitlines(keepends=True)
    controller = f"{gone.singular}_controller"
    for node in reversed(ast.parse(code).body):
        names = {each.id for each in _declared(node) if isinstance(each, ast.Name)}
        classes = {node.name} if isinstance(node, ast.ClassDef) else set()
        if controller in names or classes & {gone.kind, f"{gone.kind}Spec"}:
            decorators = getattr(node, "decorator_list", [])
            start = min(each.lineno for each in (node, *decorators)) - 1
            while start and not lines[start - 1].strip():
                start -= 1
            del lines[start : node.end_lineno]
    return "".join(lines)


def _declared(node: ast.stmt) -> list[ast.AST]:
    """Return the parts of a statement that say which controller it is about."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [part for each in node.decorator_list for part in ast.walk(each)]
        case ast.Assign() | ast.AnnAssign() | ast.Expr():
            return list(ast.walk(node))
    return []
