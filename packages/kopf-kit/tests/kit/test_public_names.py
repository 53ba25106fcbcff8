"""What is public of the distributions stays within a minor version, as docs/policy.md says.

python packages/kopf-kit/tests/kit/test_public_names.py >packages/kopf-kit/public.txt
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import griffe
import msgspec
import pytest

from kit.called import commit
from kopf_kit.__main__ import COMMANDS, PROGRAM
from kopf_kit.olm import catalog
from kopf_kit.project import definition, releases
from kopf_kit.testing import plugin
from message_operator import __version__

CHECKOUT = Path(__file__).parents[4]
#: The public names of the runtime with their members and parameters, and those of the kit.
RUNTIME, KIT = (f"packages/{name}/public.txt" for name in ("kopf-runtime", "kopf-kit"))


def lines() -> Iterator[str]:
    """Yield what is public of the kit: commands, fields of PROJECT, options and fixtures."""
    context = click.Context(PROGRAM, info_name="kopf-kit", resilient_parsing=True)
    for name in COMMANDS:
        command = PROGRAM.get_command(context, name)
        assert command
        yield from _usage(f"kopf-kit {name}", command)
    yield from _fields("PROJECT:", msgspec.inspect.type_info(definition._File))
    parser = Mock()
    plugin.pytest_addoption(parser)
    yield from (f"pytest {call.args[0]}" for call in parser.addoption.call_args_list)
    fixture = type(plugin.here)
    for name, value in vars(plugin).items():
        if isinstance(value, fixture) and f"\n{name} " in str(plugin.__doc__):
            yield f"fixture {name}"


def _usage(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, resilient_parsing=True)
    yield " ".join([name, *command.collect_usage_pieces(context)[1:]])
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{name} {'/'.join([*option.opts, *option.secondary_opts])}"
    for part, further in getattr(command, "commands", {}).items():
        yield from _usage(f"{name} {part}", further)


def _fields(where: str, type_: Any) -> Iterator[str]:
    for field in getattr(type_, "fields", ()):
        yield f"{where} {field.encode_name}"
        yield from _fields(f"{where} {field.encode_name}", field.type)
    parts = (getattr(type_, part, None) for part in ("item_type", "value_type"))
    for part in (*getattr(type_, "types", ()), *filter(None, parts)):
        yield from _fields(where, part)


def module(text: str) -> griffe.Module:
    """Return a list of the runtime's as a module without classes, which griffe compares."""
    code, outer = "", ""
    for line in text.splitlines():
        name, bracket, parameters = line.strip().partition("(")
        outer = outer if line.startswith(" ") else name
        name = f"{outer}__{name}" if line.startswith(" ") else name
        code += f"def {name}({parameters}: ...\n" if bracket else f"{name} = ...\n"
    return griffe.visit("kopf_runtime", Path(RUNTIME), code)


def broken(repository: Path, version: str) -> Iterator[str]:
    """Yield what a release of this minor version had that is gone, or is called in another way."""
    same = [tag for tag in releases.tagged(repository) if minor(tag) == minor(version)]
    if not same:
        return
    tag = f"v{max(same, key=catalog.order)}"

    def texts(path: str) -> tuple[str, str]:
        before = releases.git(repository, "show", f"{tag}:{path}").stdout.decode()
        return before, (repository / path).read_text()

    for breakage in griffe.find_breaking_changes(*map(module, texts(RUNTIME))):
        yield f"{breakage.obj.name.replace('__', '.')}: {breakage}"
    before, now = texts(KIT)
    yield from sorted({*before.splitlines()} - {*now.splitlines()})


def minor(version: str) -> tuple[int, ...]:
    return catalog.order(version)[:2] if catalog.VERSION.fullmatch(version) else ()


def test_what_is_public_of_the_kit_changes_only_in_sight_of_a_review() -> None:
    assert "\n".join(lines()) + "\n" == (CHECKOUT / KIT).read_text()


def test_nothing_of_a_release_of_this_minor_version_is_gone() -> None:
    assert list(broken(CHECKOUT, __version__)) == []


GONE = [
    "Gone: Public object was removed",
    "Gone.key: Public object was removed",
    "Kept: Parameter is now required",
    "Kept.old: Parameter was removed",
    "kopf-kit run --port",
]


@pytest.mark.parametrize(("version", "gone"), [("1.2.1", GONE), ("1.3.0", []), ("2.2.0", [])])
def test_what_a_patch_breaks_is_found(tmp_path: Path, version: str, gone: list[str]) -> None:
    runtime, kit = (tmp_path / path for path in (RUNTIME, KIT))
    for file in (runtime, kit):
        file.parent.mkdir(parents=True)
    runtime.write_text("Gone\n    key\nKept(a=...)\n    old(self, b)\n    stays\n")
    kit.write_text("kopf-kit run\nkopf-kit run --port\n")
    commit(tmp_path, "v1.2.0")
    runtime.write_text("Kept(a, c=...)\n    old(self, d=...)\n    stays\nNew\n")
    kit.write_text("kopf-kit run\nkopf-kit e2e\n")

    assert list(broken(tmp_path, version)) == gone


if __name__ == "__main__":
    print("\n".join(lines()))
