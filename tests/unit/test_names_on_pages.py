"""Paths, commands, flags, variables and values that a page names exist."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kopf_kit.__main__ import PROGRAM
from message_operator.settings import Settings

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for folder in ("", "docs", "charts/*", "examples/*", "packages/*")
    for page in CHECKOUT.glob(f"{folder}/*.md".removeprefix("/"))
    if page.name != "CHANGELOG.md"  # it names what there was
)
#: Folders that paths begin in. A new operator's own repository is as examples/memcached.
ROOTS = (
    "",
    "examples/memcached",
    "charts/message-operator",
    "packages/kopf-runtime/src/kopf_runtime",
)
FOLDERS = r"\.github|bench|charts|docs|examples|hack|operator|packages|templates|tests|working"


def sources(*files: str) -> str:
    return "\n".join((CHECKOUT / file).read_text() for file in files)


def kit_help(program: click.Group) -> Iterator[str]:
    """Yield the help of each command, and of each of its parts."""
    context = click.Context(program, resilient_parsing=True)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command
        yield command.get_help(click.Context(command, info_name=name, max_content_width=1000))
        if isinstance(command, click.Group):
            yield from kit_help(command)


KIT, PLUGIN = (
    "\n".join(kit_help(PROGRAM)),
    sources("packages/kopf-kit/src/kopf_kit/kubectl/__main__.py"),
)
FIELDS = [field.name for field in dataclasses.fields(Settings) if field.metadata]
VARIABLES = {f"MESSAGE_OPERATOR_{name.upper()}" for name in FIELDS}
FLAGS = "\n".join(f"--{name.replace('_', '-')}" for name in FIELDS)
#: What has flags of ours that are not declared as fields.
MORE = sources(
    "bench/run.py",
    "examples/flightticket/charts/flightticket-operator/templates/_operator.tpl",
    "packages/kopf-kit/src/kopf_kit/testing/plugin.py",
    "packages/kopf-runtime/src/kopf_runtime/declaring/settings.py",
)
OURS = set(re.findall(r"--[a-z][a-z-]+", FLAGS + KIT + PLUGIN + MORE))
#: Flags of other programs that a page names without the program, and one that it makes up.
OTHERS = {
    *("--all-pods", "--prune-allowlist", "--cascade", "--existing-resource-policy"),
    *("--atomic", "--force-conflicts", "--kube-version", "--reuse-values", "--rollback-on-failure"),
    *("--take-ownership", "--verify", "--key", "--insecure-ignore-tlog", "--certificate-identity"),
    *("--certificate-oidc-issuer", "--greeting"),
}
#: A command of ours, or a flag alone.
OWN = re.compile(
    r"(?:(?:`|\$ |uv run |uvx |bin/)kopf-kit|kubectl message|python -m \w+_operator|ARGS=)"
    r"[^`\n#|]*"
    r"|(?<=`)--[a-z][a-z-]+"
)
CHARTS = sources("charts/message-operator/README.md")
VALUES = set(re.findall(r"^\| `([\w.]+)` \|", CHARTS, re.MULTILINE))
#: A file, and names in an author's code, that look like values.
CODE = {
    "crds.yaml",
    "controller.index",
    "controller.reads",
    "controller.session",
    "controller.watches",
}

each = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))


@each
def test_its_paths_exist(page: Path) -> None:
    paths = re.findall(rf"(?<![\w./:@-])(?:{FOLDERS})/[\w./-]*\w", page.read_text())
    folders = [page.parent, *(CHECKOUT / root for root in ROOTS)]

    gone = {path for path in paths if not any((folder / path).exists() for folder in folders)}
    assert gone == set()


@each
def test_its_commands_and_flags_are_ours(page: Path) -> None:
    typed = OWN.findall(page.read_text().replace("\\\n", " "))
    flags = {flag for code in typed for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)}
    commands = re.findall(r"(?:`|\$ |uv run |uvx |bin/)kopf-kit ([a-z][\w-]+)", page.read_text())
    of_the_plugin = re.findall(r"(?:`|\$ )kubectl message ([a-z][\w-]+)", page.read_text())

    assert flags - OURS - OTHERS == set()
    assert {*commands} - PROGRAM.entries.keys() == set()
    assert {*of_the_plugin} - {*re.findall(r"^  ([a-z-]+) ", PLUGIN, re.MULTILINE)} == set()


@each
def test_its_variables_and_values_exist(page: Path) -> None:
    text = page.read_text()
    variables = set(re.findall(r"MESSAGE_OPERATOR_[A-Z_]+", text))
    tops = {value.partition(".")[0] for value in VALUES}
    values = set(re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:\.\*|[=:][^`]*)?`", text)) - CODE

    assert variables - VARIABLES == set()
    if "examples" not in page.parts:  # they have charts of their own
        gone = {value for value in values if value.partition(".")[0] in tops and not _is_one(value)}
        assert gone == set()


def _is_one(value: str) -> bool:
    """Return whether the chart has a value, values in it, or one that it is in."""
    return any(
        f"{known}.".startswith(f"{value}.") or value.startswith(f"{known}.") for known in VALUES
    )
