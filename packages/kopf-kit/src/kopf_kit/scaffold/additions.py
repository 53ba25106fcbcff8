"""What is added to a repository later: a further kind, the files of OLM, or a workflow.

A kind that was added is taken out again.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kopf_kit.project import documents
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers, Record

_CSV = Path(repository.OLM, "csv.yaml")
_CHART = "charts/{}/Chart.yaml"
#: What the code of a kind uses of the operator's module, and the imports that are added to it.
_USED = ("Settings", "manager")
_IMPORTS = {
    "Iterable": "from collections.abc import Iterable",
    "Annotated": "from typing import Annotated",
    "Any": "from typing import Any",
    "kr": "import kopf_runtime as kr",
    "msgspec": "import msgspec",
}
_SAMPLES = re.compile(r"^    samples:\n(?:      .*\n)+", re.MULTILINE)
_RESOURCES = re.compile(r"^resources:\n(?:[ -].*\n)+", re.MULTILINE)
_CRDS = re.compile(r"^  artifacthub\.io/crds: \|\n(?:    .*\n)+", re.MULTILINE)
_WORKFLOW = Path(".github", "workflows", "release.yaml")
#: The entries of a kind in the files that list the kinds, each in the form of `kopf-kit new`.
_ENTRIES = {
    "PROJECT": (
        r"^  - api:\n(?:    .*\n)*?    kind: {kind}\n(?:    .*\n)*",
        r"^      {kind}:.*\n(?:      [ -].*\n)*",
    ),
    "charts/{name}/Chart.yaml": (r"^    - kind: {kind}\n(?:      .*\n)+",),
    "olm/csv.yaml": (r"^  {kind}:\n(?:   .*\n)+",),
}
#: What an adopted operator's workflow does in place of the template's commands.
_COMMAND, _ACTION = "      - run: ", "      - uses: "
_STEPS = """\
      - run: pipx install uv
      # The operator's own Python, in which its handlers are read.
      - run: {own}
      # kopf-offline builds what is not on the PATH: cosign, OLM's validators.
      - run: uv tool install "kopf-kit[release,testing]=={kit}" --with "kopf-offline[go]=={kit}"
      - run: kopf-kit verify
      - run: kopf-kit e2e
      - run: kopf-kit e2e-olm
      - run: kopf-kit release "${{TAG#v}}"
        env:
          TAG: ${{{{ github.ref_name }}}}
          REGISTRY: ghcr.io/${{{{ github.repository_owner }}}}
"""


def kind(folder: Path, kind: str, group: str | None = None) -> list[Path]:
    """Add a kind, by default of the first one's group; return the files that are written.

    Raise KitError if it cannot be added; nothing is written then.
    """
    before = repository.read(folder)
    first = before.kinds[0]
    answers = replace(first, kind=kind, group=group or first.group)
    if taken := [each.kind for each in before.kinds if each.singular == answers.singular]:
        raise KitError(f"PROJECT has the kind {taken[0]} already; choose another one")
    for each in before.kinds:
        shared = {each.singular, each.plural} & {answers.singular, answers.plural}
        if shared and each.group == answers.group:
            raise KitError(
                f"both {each.kind} and {kind} would be called {shared.pop()}; choose another kind"
            )
    texts = _code(before, answers) | _descriptions(before, answers)
    _write(texts, folder)
    return sorted(texts)


def olm(folder: Path) -> list[Path]:
    """Add the files of OLM; return those that are written. Raise KitError if any exists."""
    before = repository.read(folder)
    first, *others = (replace(each, olm=True) for each in before.kinds)
    files = repository.files(first)
    texts = {path: text for path, text in files.items() if path.parts[0] == repository.OLM}
    if there := [folder / path for path in texts if (folder / path).exists()]:
        raise KitError(f"{there[0]} exists already: this repository has the files of OLM")
    for each in others:
        texts[_CSV] += _described(each)
    _write(texts, folder)
    return sorted(texts)


def workflow(folder: Path) -> list[Path]:
    """Add the workflow that releases an adopted operator; return its file.

    Raise KitError if it exists, or if `kopf-kit new` wrote the repository, which has one.
    """
    if (folder / _WORKFLOW).exists():
        raise KitError(f"{folder / _WORKFLOW} exists already; it stays as it is")
    adopted = paths.read(folder, dict[str, Any]).get("plugins", {}).get(paths.PLAIN)
    if adopted is None:
        raise KitError(f"{folder} is not of an operator that `kopf-kit adopt` packages")
    required = adopted.get("requirements") or "requirements.txt"
    needed = f"-r {required}" if (folder / required).is_file() else "."
    own = f"uv venv && uv pip install {needed}"
    if not adopted.get("requirements") and (folder / "uv.lock").is_file():
        own = "uv sync --frozen"
    template = (repository.TEMPLATES / f"{_WORKFLOW}.in").read_text()
    begin = template.partition(_COMMAND)[0].replace("make release", "kopf-kit release")
    _, action, attest = template.rpartition(_ACTION)
    text = begin + _STEPS.format(own=own, kit=repository.version()) + action + attest
    _write({_WORKFLOW: text}, folder)
    return [_WORKFLOW]


def _write(texts: Mapping[Path, str | None], folder: Path) -> None:
    """Write all of these texts into a repository, or remove what has none; else raise KitError."""
    with reading.all_or_none() as write:
        for name, text in texts.items():
            write(folder / name, text)


def _code(before: Record, answers: Answers) -> dict[Path, str]:
    """Return the texts of the operator's module, of the kind's test, and of its sample."""
    module = _text(before, before.module)
    names = _names(_parsed(module, before.module))
    if missing := [name for name in _USED if name not in names]:
        raise KitError(
            f"{before.module} has no {missing[0]}, which the code of a kind uses; declare it there"
        )
    module = _with_imports(module, [text for name, text in _IMPORTS.items() if name not in names])
    own = answers.kind, f"{answers.kind}Spec"
    for name in (*own, f"desired_{answers.singular}", f"{answers.singular}_controller"):
        if name in names:
            raise KitError(f"{before.module} has a {name} already; choose another kind")
    sample = repository.fill("templates/examples/sample.yaml.in", answers)
    # Of the same name, the objects of both kinds would want the same ConfigMap.
    sample = sample.replace("name: sample\n", f"name: {answers.singular}-sample\n")
    new = {
        Path("tests", "unit", f"test_{answers.singular}.py"): "kind/test.py.in",
        _sample(answers): "",
    }
    for path in new:
        if (before.folder / path).exists():
            raise KitError(f"{path} exists already; choose another kind, or rename the file")
    texts = {path: repository.fill(name, answers) if name else sample for path, name in new.items()}
    code = repository.fill("kind/operator.py.in", answers)
    return {**texts, before.module: module.rstrip("\n") + "\n" + code}


def _with_imports(code: str, missing: list[str]) -> str:
    """Return a module's code with further imports, after that of the runtime if it has one."""
    lines, nodes = code.splitlines(), ast.parse(code).body
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    ends = [node.end_lineno or 0 for node in imports]
    runtime = [end for end in ends if lines[end - 1] == _IMPORTS["kr"]]
    end = (runtime or ends or [0])[-1]
    return "\n".join((*lines[:end], *missing, *lines[end:])) + "\n"


def _descriptions(before: Record, answers: Answers) -> dict[Path, str]:
    """Return the texts of the files in YAML that list the kinds."""
    files = repository.files(answers)
    project, chart = Path("PROJECT"), Path(_CHART.format(answers.name))
    sample = f"      {answers.kind}: {_sample(answers).as_posix()}\n"
    text = _text(before, project)
    text = _inserted(text, _SAMPLES, sample, project)
    text = _inserted(text, _RESOURCES, _lines(files[project], _RESOURCES), project)
    texts = {project: text}
    if [each["kind"] for each in documents.load(text)["resources"]] != [
        *(each.kind for each in before.kinds),
        answers.kind,
    ]:
        raise KitError(f"{project}: add the kind {answers.kind} to `resources` by hand")
    if (before.folder / chart).is_file() and _CRDS.search(_text(before, chart)):
        crds = _lines(files[chart], _CRDS)
        texts[chart] = _inserted(_text(before, chart), _CRDS, crds, chart)
    if answers.olm:
        text = _text(before, _CSV).rstrip("\n") + "\n" + _described(answers)
        if answers.kind not in (documents.load(text).get("kinds") or {}):
            raise KitError(f"{_CSV}: `kinds` must be its last section; move it to the end")
        texts[_CSV] = text
    return texts


def _described(answers: Answers) -> str:
    """Return what olm/csv.yaml says of a kind."""
    return repository.files(answers)[_CSV].partition("\nkinds:\n")[2]


def _sample(answers: Answers) -> Path:
    return Path("examples", f"{answers.singular}.yaml")


def _lines(text: str, pattern: re.Pattern[str]) -> str:
    """Return the lines below the first one of what a pattern finds."""
    match = pattern.search(text)
    assert match is not None, pattern
    return match[0].partition("\n")[2]


def _inserted(text: str, after: re.Pattern[str], lines: str, path: Path) -> str:
    match = after.search(text)
    if match is None:
        begin = after.pattern[1:].partition(r"\n")[0].replace("\\", "").strip()
        raise KitError(
            f"{path} lacks the section `{begin}` in the form of `kopf-kit new`, into which this "
            f"belongs; add it, with: {lines!r}"
        )
    return text[: match.end()] + lines + text[match.end() :]


def _text(before: Record, path: Path) -> str:
    return reading.text(before.folder / path)


def _parsed(code: str, file: Path) -> list[ast.stmt]:
    """Return the statements of a module; raise KitError."""
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError) as error:
        raise KitError(f"{file} is not Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise KitError(f"{file} has code that is nested too deep to be read") from error


def _names(body: list[ast.stmt]) -> set[str]:
    """Return what the statements of a module give a name to, at its top."""
    names = set[str]()
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case _:
                names |= {
                    each.id
                    for each in ast.walk(node)
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                }
    return names


def remove_kind(folder: Path, kind: str) -> list[Path]:
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
    samples = _samples_of(reading.text(folder / "PROJECT"))
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
    if _samples_of(texts[Path("PROJECT")]) != {k: v for k, v in samples.items() if k != kind}:
        raise KitError(f"PROJECT: remove the kind {kind} from `samples` by hand, then repeat this")
    own = [path for path in own if (folder / path).is_file()]
    _write({**texts, **dict.fromkeys(own)}, folder)
    return sorted({*texts, *own})


def _samples_of(project: str) -> dict[str, Any]:
    return {**(next(iter(documents.load(project)["plugins"].values())).get("samples") or {})}


def _without(code: str, file: Path, gone: Answers) -> str:
    """Return a module's code without the classes, the controller and the functions of a kind.

    Raise KitError where a statement is about another kind, too.
    """
    lines = code.splitlines(keepends=True)
    controller = f"{gone.singular}_controller"
    own = {controller, gone.kind, f"{gone.kind}Spec"}
    body = _parsed(code, file)
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
