"""The part of `requirements.txt` that some packages or groups need, with its hashes.

`# via` names who needs a package: other packages, and groups of `pyproject.toml`. The distributions
of the workspace are not in the lock, but they are named, so this prints what the image installs:

    python3 packages/kopf-kit/src/kopf_kit/rig/locked.py kopf-runtime <requirements.txt
    python3 packages/kopf-kit/src/kopf_kit/rig/locked.py kopf-runtime pyproject.toml:dev
    <requirements.txt

It stands alone, because the Makefile and the Dockerfile run it before anything is installed.
"""

import re
import sys

_PACKAGE = re.compile(
    r"^(?P<pinned>(?P<name>[\w.-]+)==.*\n(?:    --hash=.*\n)+)    # via (?P<via>.+)\n", re.MULTILINE
)


def part(lock: str, *askers: str) -> str:
    """Return the lines of the packages that the askers need, each with the askers that need it.

    Raises ValueError where an asker needs nothing, or the lock cannot be read.
    """
    packages = list(_PACKAGE.finditer(lock))
    if "".join(package[0] for package in packages) != lock:
        raise ValueError("requirements.txt is not as `make lock` writes it; run `make lock`")
    needed = set(askers)
    if unknown := needed.difference(*({package["name"], *_via(package)} for package in packages)):
        raise ValueError(
            f"requirements.txt has nothing for {', '.join(sorted(unknown))}; run `make lock`"
        )
    while more := {pin["name"] for pin in packages if needed & _via(pin).keys()} - needed:
        needed |= more
    return "".join(
        f"{package['pinned']}    # via {', '.join(by) or 'its name'}\n"
        for package in packages
        if (by := [described for asker, described in _via(package).items() if asker in needed])
        or package["name"] in askers
    )


def _via(package: re.Match[str]) -> dict[str, str]:
    """Return who needs a package: `operator (pyproject.toml:dev)` by the name in the brackets."""
    return {asker.rpartition(" ")[2].strip("()"): asker for asker in package["via"].split(", ")}


if __name__ == "__main__":
    sys.stdout.write(part(sys.stdin.read(), *sys.argv[1:]))
