"""Each command that `make` lists is run by CI or by a test, and no document names another."""

import ast
import os
import pty
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.console import commands, section

CHECKOUT = Path(__file__).parents[2]
TESTS = CHECKOUT / "tests"
MAKEFILE = (CHECKOUT / "Makefile").read_text()
#: The documented targets, each with those that it runs first.
TARGETS = {
    match[1]: match[2].split()
    for match in re.finditer(r"^([a-z0-9-]+):(.*?)## ", MAKEFILE, re.MULTILINE)
}


def run_by_ci() -> set[str]:
    """Return the targets of .ci/run and of GitHub's workflows, and those that they run first."""
    script = (CHECKOUT / ".ci" / "run").read_text()
    pending = re.findall(r"^make ([a-z0-9-]+)", script, re.MULTILINE)
    for file in (CHECKOUT / ".github" / "workflows").glob("*.yaml"):
        pending += re.findall(r"run: make ([a-z0-9-]+)", file.read_text())
        for listed in re.findall(r"target: \[([a-z0-9, -]+)\]", file.read_text()):
            pending += listed.split(", ")
    targets: set[str] = set()
    while pending:
        target = pending.pop()
        targets.add(target)
        pending.extend(TARGETS.get(target, []))
    return targets & TARGETS.keys()


def run_by_tests() -> set[str]:
    """Return the targets that tests call `make` with, and that must succeed there."""
    targets = run_by_readers()
    tests = (
        *TESTS.glob("make/test_*.py"),
        *TESTS.glob("new/test_*.py"),
        *TESTS.glob("release/*.py"),
    )
    for file in tests:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and not is_refusal(node.func):
                words = {a.value for a in typed_by(node) if isinstance(a, ast.Constant)}
                targets.update(TARGETS.keys() & words)
    return targets


def run_by_readers() -> set[str]:
    """Return the targets in those sections of the guide that tests/make follows."""
    guide = (CHECKOUT / "docs" / "olm.md").read_text()
    test = (CHECKOUT / "tests" / "make" / "test_guide.py").read_text()
    typed = [
        command
        for heading in re.findall(r'reader\.follow\("(.+)"\)', test)
        for command in commands(section(guide, heading))
    ]
    words = {word for line in typed if line.startswith("make ") for word in line.split()}
    return words & TARGETS.keys()


def typed_by(call: ast.Call) -> list[ast.expr]:
    """Return the words that a call has, or that a list in it has."""
    lists = [argument.elts for argument in call.args if isinstance(argument, ast.List)]
    return [*call.args, *(word for words in lists for word in words)]


def is_refusal(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "refused"


def test_each_target_is_run_by_ci_or_by_a_test() -> None:
    assert TARGETS.keys() - run_by_ci() - run_by_tests() == set()


DOCUMENTS = sorted(
    str(file.relative_to(CHECKOUT))
    for folder in (CHECKOUT, CHECKOUT / "docs")
    for file in folder.glob("*.md")
)


def named(document: str) -> set[str]:
    """Return the targets that a document names."""
    text = (CHECKOUT / document).read_text()
    commands = re.findall(r"`make ([^`]+)`|^\$ make ([^#\n]+)", text, re.MULTILINE)
    typed = (re.sub(r'"[^"]*"', "", "".join(command)) for command in commands)
    words = {word for command in typed for word in command.split()}
    return {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_targets_that_there_are(document: str) -> None:
    assert named(document) <= TARGETS.keys()


@pytest.mark.parametrize("language", ["", ".ko"])
def test_the_first_page_names_the_two_commands(language: str) -> None:
    others = {"check", "bench"}  # in the repository of `kopf-kit new`; in the mark of a table
    assert named(f"README{language}.md") - others == {
        "demo",
        "test",
        "docker-build",
        "docker-push",
    }
    assert named(f"docs/development{language}.md") >= {"check", "test", "test-all", "run"}


def test_make_alone_lists_them_all() -> None:
    listed = subprocess.check_output(["make"], cwd=CHECKOUT, text=True, timeout=300)

    assert {name for name in TARGETS if f"\n  {name:<15} " in listed} == TARGETS.keys()
    assert len(TARGETS) <= 30  # what is not for most people is an option of these


def test_make_alone_has_colours_on_a_terminal_only() -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["make"], cwd=CHECKOUT, stdout=theirs, check=True, timeout=300)
    os.close(theirs)

    assert b"\x1b[36mdemo           \x1b[0m" in os.read(ours, 10_000)
    os.close(ours)
    assert b"\x1b" not in subprocess.check_output(["make"], cwd=CHECKOUT, timeout=300)


@pytest.mark.parametrize("goal", ["generate", "verify"])
def test_of_several_operators_the_first_that_fails_fails_the_command(
    goal: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$2" = kopf_kit ] || exit 0\necho "$PROJECT"; test "$PROJECT" = last\n'
    )
    python.chmod(0o755)
    command = ["make", goal, f"PY={python}", "PROJECTS=first last", "READY="]

    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "first\n")


class Ignorant(BaseHTTPRequestHandler):
    """A database that knows of no vulnerability, or a proxy in its place."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


def test_a_database_that_knows_nothing_is_no_good_news() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ignorant) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/query"
        ended = subprocess.run(
            ["make", "scan"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PIP_AUDIT_OSV_URL": url, "no_proxy": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        server.shutdown()

    assert ended.returncode != 0
    assert "nothing was looked up" in ended.stderr
