"""What is public of the distributions stays within a minor version, as docs/policy.md says."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.pack import catalog, history
from message_operator import __version__

CHECKOUT = Path(__file__).parents[3]
#: The lists of public names: of the runtime, and of the kit's program.
LISTS = {
    "packages/kopf-runtime/src/kopf_runtime/__init__.py": "__all__",
    "packages/kopf-kit/src/kopf_kit/__main__.py": "COMMANDS",
}


def names(source: str, variable: str) -> set[str]:
    """Return the texts in a list, or the keys of a mapping, that a module assigns."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            given = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
            return {ast.literal_eval(each) for each in given}
    raise LookupError(f"{variable} is not assigned")


def removed(repository: Path, version: str) -> Iterator[str]:
    """Yield the public names of a release of this minor version that are gone."""
    same = [tag for tag in history.tagged(repository) if minor(tag) == minor(version)]
    if not same:
        return
    released = max(same, key=catalog.order)
    for path, variable in LISTS.items():
        before = history.git(repository, "show", f"v{released}:{path}").stdout.decode()
        now = (repository / path).read_text()
        yield from sorted(names(before, variable) - names(now, variable))


def minor(version: str) -> tuple[int, ...]:
    return catalog.order(version)[:2] if catalog.VERSION.fullmatch(version) else ()


@pytest.mark.parametrize(("path", "variable"), LISTS.items())
def test_what_is_public_is_listed(path: str, variable: str) -> None:
    assert len(names((CHECKOUT / path).read_text(), variable)) > 10


def test_no_name_of_a_release_of_this_minor_version_is_gone() -> None:
    assert list(removed(CHECKOUT, __version__)) == []


@pytest.mark.parametrize(
    ("version", "gone"), [("1.2.1", ["Gone", "old"]), ("1.3.0", []), ("2.2.0", [])]
)
def test_a_name_that_a_patch_removes_is_found(
    tmp_path: Path, version: str, gone: list[str]
) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com")
    library, program = (tmp_path / path for path in LISTS)
    for file, text in ((library, '__all__ = ["Gone", "Kept"]'), (program, 'COMMANDS = {"old": 1}')):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1.2.0"]):
        subprocess.run([*git, *command], check=True, timeout=60)
    library.write_text('__all__ = ["Kept", "New"]')
    program.write_text('COMMANDS = {"new": 1}')

    assert list(removed(tmp_path, version)) == gone
