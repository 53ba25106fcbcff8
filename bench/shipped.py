"""Our operator as it ships: the image's own Python and packages, run as a plain process.

Users never run the Python of a developer's machine, which may be half as fast as a distribution's,
depending on how it was compiled. A container would add the engine's start to the measurement. So
the image's files are unpacked here, and its own loader starts its program. The floor uses the same
Python. Used by `peers` and `measures`.
"""

import functools
import json
import platform
import shutil
from pathlib import Path

from kopf_kit.image import build
from kopf_kit.rig import engine, paths
from kopf_kit.rig.run import output
from kopf_kit.rig.steps import step

_ROOT = paths.BUILD / "bench" / "image"
_SAYS = _ROOT.with_name("image.id")


@functools.cache
def root() -> Path:
    """Unpack the files of the image, which is built if it is out of date; return their folder."""
    reference = build.build()
    identity = engine.docker("image", "inspect", "-f", "{{.Id}}", reference).strip()
    if not (_ROOT.is_dir() and _SAYS.is_file() and _SAYS.read_text() == identity):
        shutil.rmtree(_ROOT, ignore_errors=True)
        _ROOT.mkdir(parents=True)
        with step("The image's files") as work:
            container = engine.docker("create", reference).strip()
            archive = _ROOT.with_name("image.tar")
            try:
                work.run(["docker", "export", "-o", archive, container], timeout=120)
                work.run(
                    ["tar", "-x", "--no-same-owner", "--exclude=dev/*", "-f", archive, "-C", _ROOT],
                    timeout=120,
                )
            finally:
                engine.remove_container(container)
                archive.unlink(missing_ok=True)
        _SAYS.write_text(identity)
    return _ROOT


def python() -> list[str | Path]:
    """Return the command that runs the image's Python."""
    libraries = root() / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    (loader,) = libraries.glob("ld-linux-*.so.*")
    return [loader, "--library-path", libraries, root() / "usr" / "bin" / "python3"]


def environment(*more: Path) -> dict[str, str]:
    """Return the environment of the image; `more` are further folders with packages."""
    files = root()
    config = engine.docker("image", "inspect", "-f", "{{json .Config.Env}}", _SAYS.read_text())
    declared = dict(pair.split("=", 1) for pair in json.loads(config) if pair.startswith("PYTHON"))
    return declared | {
        "PYTHONHOME": str(files / "usr"),
        "PYTHONPATH": ":".join(map(str, (files / "app", *more))),
    }


@functools.cache
def version() -> str:
    """Return the version of the image's Python."""
    return output([*python(), "--version"], timeout=30).split()[1]
