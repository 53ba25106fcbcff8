"""What only the kit's own repository publishes: the runtime as packages, and kubectl's plugin.

A repository that `make new` wrote has the runtime as source. The same sources make the same bytes:
uv's own builder gives every file one date. Used by `hack.pack.publication.files`.
"""

import functools
import json
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin

from hack.pack import plugin, site_text
from hack.pack.project import REFERENCE
from hack.pack.publication import statements
from hack.rig import paths
from hack.rig.run import output

_RUNTIME = "kopf_runtime"
_PAGE = "docs/runtime.md"
_DESCRIPTION = "Level-triggered reconciling for operators on kopf"


def write(folder: Path) -> None:
    """Write these files of a release into a folder."""
    build(folder)
    (folder / plugin.MANIFEST).write_text(plugin.manifest())
    (folder / plugin.ARCHIVE).write_bytes(plugin.archive())
    (folder / plugin.PROGRAM).write_bytes(plugin.program())


def build(folder: Path) -> list[Path]:
    """Write the wheel and the source archive into a folder; return their paths."""
    sources = folder / ".runtime"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(
        paths.CHECKOUT / "operator" / _RUNTIME,
        sources / _RUNTIME,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(paths.CHECKOUT / "LICENSE", sources)
    (sources / "README.md").write_text(readme())
    (sources / "pyproject.toml").write_text(_pyproject())
    output(
        [
            *(Path(sys.executable).with_name("uv"), "build", "--quiet", "--offline", "--no-config"),
            *("--sdist", "--wheel", "--out-dir", folder / ".built", sources),
        ],
        timeout=120,
    )
    archives = sorted((folder / ".built").glob(f"{_RUNTIME}-*"))
    built = [file.replace(folder / file.name) for file in archives]
    for scratch in (sources, folder / ".built"):
        shutil.rmtree(scratch)
    return built


def readme() -> str:
    """Return the runtime's page, with links that lead to the files of this version."""
    address = f"{statements.home()}/blob/v{REFERENCE.version}/{_PAGE}"
    text = (paths.CHECKOUT / _PAGE).read_text()
    return site_text.with_links(text, functools.partial(urljoin, address))


def _pyproject() -> str:
    """Return the project's description, with what the checkout's own says of the runtime."""
    ours = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())["project"]
    project = {
        "name": _RUNTIME.replace("_", "-"),
        "version": REFERENCE.version,
        "description": _DESCRIPTION,
        "readme": "README.md",
        "license": ours["license"],
        "license-files": ["LICENSE"],
        "requires-python": ours["requires-python"],
        "dependencies": ours["dependencies"],
    }
    return "".join(
        (
            _table("build-system", {"requires": ["uv_build>=0.9,<1"], "build-backend": "uv_build"}),
            _table("project", project),
            _table("tool.uv.build-backend", {"module-root": "", "module-name": _RUNTIME}),
        )
    )


def _table(name: str, values: Mapping[str, object]) -> str:
    """Return a table of TOML; strings and lists of strings are written as in JSON."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines, ""])
