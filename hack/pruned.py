"""Removes the hashes of files that nobody installs here from requirements.txt, for `make lock`.

    python -m hack.pruned PATH-OF-UV

`uv pip compile` writes the hashes of all files of a release, most of them for Windows, for other
processors, for PyPy or for a free-threaded Python. `uv lock` can be limited to environments, and
names the files. Its lock also names the package registry, so it goes to a temporary folder.
docs/decisions/packages.md explains why.
"""

import re
import sys
import tempfile
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.rig.run import output

_PACKAGE = re.compile(r"^([\w.-]+==[^\\\n]+?) *\\\n((?:    --hash=.*\n)+)", re.MULTILINE)
#: What uv says of the distributions that are in this repository themselves.
_OWN = re.compile(r"\n# The following packages were excluded.*", re.DOTALL)
_FILE = re.compile(r'/([^/"]+)", hash = "(sha256:\w+)"')
_ELSEWHERE = re.compile(r"-pp\d+-|-cp\d+t-|[-_]ios_|wasm32")
_ENVIRONMENTS = (
    "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "sys_platform == 'linux' and platform_machine == 'aarch64'",
    "sys_platform == 'darwin'",
)


def pruned(lock: str, files: str) -> str:
    """Return a lock without the hashes of files that uv's lock of the same packages lacks.

    A package that it lacks, which no environment installs, keeps its hashes.
    """
    kept = {hashed for name, hashed in _FILE.findall(files) if not _ELSEWHERE.search(name)}

    def package(match: re.Match[str]) -> str:
        hashes = re.findall(r"sha256:\w+", match[2])
        chosen = [sha256 for sha256 in hashes if sha256 in kept] or hashes
        return " \\\n    --hash=".join([match[1], *chosen]) + "\n"

    return _PACKAGE.sub(package, _OWN.sub("", lock))


def _files(lock: str, uv: str) -> str:
    """Return what uv locks for the packages and versions of a lock, for our environments."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(
            '[project]\nname = "locked"\nversion = "0"\nrequires-python = ">=3.11"\n'
            f"dependencies = {[match[0] for match in _PACKAGE.findall(lock)]}\n"
            f"[tool.uv]\npackage = false\nenvironments = {list(_ENVIRONMENTS)}\n"
        )
        output(
            [Path(uv).resolve(), "lock", "--quiet", "--system-certs"], cwd=Path(folder), timeout=600
        )
        return Path(folder, "uv.lock").read_text()


if __name__ == "__main__":
    text = paths.LOCK.read_text()
    paths.LOCK.write_text(pruned(text, _files(text, sys.argv[1])))
