"""What is used of kopf: its public names, and a few private ones in one module."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import kopf
import pytest

from kopf_runtime.process import kopf_registry

SOURCES = Path(kopf_registry.__file__).parents[1]
#: Each private name of kopf's, with the module that it is in.
PRIVATE = {
    ("kopf._cogs.clients", "scanning"),
    ("kopf._cogs.clients", "watching"),
    ("kopf._cogs.clients.errors", "APIError"),
    ("kopf._cogs.clients.errors", "APIForbiddenError"),
    ("kopf._cogs.clients.watching", "WatchingError"),
    ("kopf._cogs.structs.references", "Insights"),
    ("kopf._cogs.structs.references", "Resource"),
    ("kopf._core.engines.admission", "MemoGetter"),
    ("kopf._core.engines.admission", "build_webhooks"),
    ("kopf._core.engines.admission", "serve_admission_request"),
    ("kopf._core.reactor", "observation"),
}
#: What is replaced there.
REPLACED = {
    ("kopf._cogs.clients.scanning", "_read_version"),
    ("kopf._cogs.clients.watching", "continuous_watch"),
    ("kopf._core.reactor.observation", "revise_resources"),
}


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("module", "name"), sorted(PRIVATE | REPLACED))
def test_kopf_has_a_private_name_where_it_was(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_one_module_alone_uses_private_names_of_kopf() -> None:
    imported, using = set[tuple[str, str]](), set[str]()
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kopf._"):
                imported |= {(str(node.module), alias.name) for alias in node.names}
                using.add(file.stem)
    assert using == {"kopf_private"}
    assert imported == PRIVATE


MOVED = """
import sys
import kopf
import kopf_runtime as kr
manager = kr.Manager("moved", kr.Settings)
{handler}
for name in [name for name in sys.modules if name.startswith("kopf._")]:
    sys.modules[name] = None
print(manager.beside.has_handlers())
manager.beside.forgive()
"""


def test_an_operator_without_handlers_needs_no_private_name_of_kopf() -> None:
    done = run(MOVED.format(handler=""))
    assert (done.returncode, done.stdout) == (0, "False\n")


def test_an_operator_with_handlers_names_what_kopf_has_moved() -> None:
    done = run(MOVED.format(handler="kopf.on.event('pods')(lambda **_: None)"))
    assert done.stdout == "True\n"
    assert "has moved what its handlers need here" in done.stderr
    assert "install one that kopf-runtime supports" in done.stderr


def test_if_no_handler_is_found_there_may_be_any() -> None:
    """Then kopf has moved them, and an operator that lost its Lease must end."""
    registry = kopf.OperatorRegistry()
    assert kopf_registry.acts(registry)
    kopf.on.startup(registry=registry)(lambda **_: None)
    assert not kopf_registry.acts(registry)
    kopf.on.validate("pods", registry=registry)(lambda **_: None)
    assert not kopf_registry.acts(registry)
    kopf.index("pods", registry=registry)(lambda **_: None)
    assert kopf_registry.acts(registry)
