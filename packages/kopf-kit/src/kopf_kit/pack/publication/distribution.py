"""What only the kit's own repository publishes: its Python packages, and kubectl's plugin.

The same sources make the same bytes: uv's own builder gives every file one date. Used by
`kopf_kit.pack.publication.files`.
"""

import functools
import shutil
import sys
from pathlib import Path
from urllib.parse import urljoin

from kopf_kit.pack import plugin, site_text
from kopf_kit.pack.project import REFERENCE
from kopf_kit.pack.publication import statements
from kopf_kit.rig import paths
from kopf_kit.rig.run import output

_PAGE = "docs/runtime.md"


def write(folder: Path) -> None:
    """Write these files of a release into a folder."""
    build(folder)
    (folder / plugin.MANIFEST).write_text(plugin.manifest())
    (folder / plugin.ARCHIVE).write_bytes(plugin.archive())
    (folder / plugin.PROGRAM).write_bytes(plugin.program())


def build(folder: Path) -> list[Path]:
    """Write wheels and source archives into a folder; return their paths."""
    scratch = folder / ".distributions"
    shutil.rmtree(scratch, ignore_errors=True)
    for package in sorted((paths.CHECKOUT / "packages").iterdir()):
        sources = scratch / package.name
        shutil.copytree(package, sources, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(paths.CHECKOUT / "LICENSE", sources)
        if package.name == "kopf-runtime":
            (sources / "README.md").write_text(readme())
        uv = Path(sys.executable).with_name("uv")
        options = ("--quiet", "--offline", "--no-config", "--sdist", "--wheel")
        output([uv, "build", *options, "--out-dir", scratch / "built", sources], timeout=120)
    archives = sorted((scratch / "built").glob("kopf_*"))
    built = [file.replace(folder / file.name) for file in archives]
    shutil.rmtree(scratch)
    return built


def readme() -> str:
    """Return the runtime's page, with links that lead to the files of this version."""
    address = f"{statements.home()}/blob/v{REFERENCE.version}/{_PAGE}"
    text = (paths.CHECKOUT / _PAGE).read_text()
    return site_text.with_links(text, functools.partial(urljoin, address))
