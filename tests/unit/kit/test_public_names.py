"""What is public of the distributions stays within a minor version, as docs/policy.md says."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.pack import catalog, history
from message_operator import __version__

CHECKOUT = Path(__file__).parents[3]
#: The lists of public names: of the runtime with its members, and of the kit's commands.
LISTS = ("packages/kopf-runtime/public.txt", "packages/kopf-kit/src/kopf_kit/__main__.py")


def names(text: str, path: str) -> set[str]:
    """Return the names in a list: `Child`, `Child.key`, or the keys of COMMANDS."""
    if not path.endswith(".py"):
        found, outer = set(), ""
        for line in text.splitlines():
            name = line.strip().partition("(")[0]
            outer = outer if line.startswith(" ") else name
            found.add(f"{outer}.{name}" if line.startswith(" ") else name)
        return found
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name("COMMANDS")], value=ast.Dict(keys=keys)):
                return {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    raise LookupError(f"{path} assigns no COMMANDS")


def removed(repository: Path, version: str) -> Iterator[str]:
    """Yield the public names of a release of this minor version that are gone."""
    same = [tag for tag in history.tagged(repository) if minor(tag) == minor(version)]
    if not same:
        return
    released = max(same, key=catalog.order)
    for path in LISTS:
        before = history.git(repository, "show", f"v{released}:{path}").stdout.decode()
        now = (repository / path).read_text()
        yield from sorted(names(before, path) - names(now, path))


def minor(version: str) -> tuple[int, ...]:
    return catalog.order(version)[:2] if catalog.VERSION.fullmatch(version) else ()


@pytest.mark.parametrize("path", LISTS)
def test_what_is_public_is_listed(path: str) -> None:
    assert len(names((CHECKOUT / path).read_text(), path)) > 10


def test_no_name_of_a_release_of_this_minor_version_is_gone() -> None:
    assert list(removed(CHECKOUT, __version__)) == []


@pytest.mark.parametrize(
    ("version", "gone"),
    [("1.2.1", ["Gone", "Gone.key", "Kept.old", "dev"]), ("1.3.0", []), ("2.2.0", [])],
)
def test_a_name_that_a_patch_removes_is_found(
    tmp_path: Path, version: str, gone: list[str]
) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com")
    library, program = (tmp_path / path for path in LISTS)
    texts = ("Gone\n    key\nKept(a)\n    old(b)\n    stays\n", 'COMMANDS = {"dev": 1, "e2e": 2}\n')
    for file, text in zip((library, program), texts, strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1.2.0"]):
        subprocess.run([*git, *command], check=True, timeout=60)
    library.write_text("Kept(a, c=...)\n    stays\nNew\n")
    program.write_text('COMMANDS = {"e2e": 2}\n')

    assert list(removed(tmp_path, version)) == gone
