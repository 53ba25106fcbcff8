"""`python -m hack.pack.rules`, of `make verify`: what is wrong with bundle/ and catalog/ in git.

Two arguments name another bundle and catalog.
"""

import sys
from pathlib import Path

from hack.pack import bundle, catalog
from hack.pack.rules import problems


def main(arguments: list[str]) -> int:
    """Print it; give the exit code."""
    bundle_, catalog_ = [Path(x) for x in arguments] or [bundle.BUNDLE, catalog.CATALOG]
    found = problems(bundle_, catalog_)
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
