"""Files that are made of others: `make generate` writes them, `make verify` finds the stale ones.

Each is made by a function that returns its text, and says in its first lines what it is made by.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from hack import chart_dashboard, chart_docs, paths

GENERATED: dict[Path, Callable[[], str]] = {
    chart_docs.CHART / "values.schema.json": chart_docs.schema,
    chart_docs.CHART / "README.md": chart_docs.readme,
    chart_dashboard.FILE: chart_dashboard.dashboard,
}


def stale() -> list[Path]:
    """Return the files that are missing, or differ from what would be generated."""
    return [
        file for file, make in GENERATED.items() if not file.exists() or file.read_text() != make()
    ]


def main(arguments: list[str]) -> int:
    """Write what is stale, or, with `--check`, only name it; give the exit code."""
    found = stale()
    for file in found:
        name = file.relative_to(paths.CHECKOUT)
        if "--check" in arguments:
            print(f"{name} differs from what it is generated from: run `make generate`")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(GENERATED[file]())
            print(f"{name} written")
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
