"""Files that are made of others: `make generate` writes them, `make verify` finds the stale ones.

Each says in its first lines what it is made by.
"""

import sys
from pathlib import Path

from hack import bundle, catalog, chart_dashboard, chart_docs, paths
from hack.run import HackError


def generated() -> dict[Path, str]:
    """Return what is generated: each file's text."""
    return {
        chart_docs.CHART / "values.schema.json": chart_docs.schema(),
        chart_docs.CHART / "README.md": chart_docs.readme(),
        chart_dashboard.FILE: chart_dashboard.dashboard(),
        **bundle.files(),
        **catalog.files(),
    }


def stale() -> dict[Path, str]:
    """Return those that are missing, or differ from what would be generated."""
    return {
        file: text
        for file, text in generated().items()
        if not file.exists() or file.read_text() != text
    }


def main(arguments: list[str]) -> int:
    """Write what is stale, or, with `--check`, only name it; give the exit code."""
    try:
        found = stale()
    except HackError as error:
        print(f"error: {error}")
        return 1
    for file, text in found.items():
        name = file.relative_to(paths.CHECKOUT)
        if "--check" in arguments:
            print(f"{name} differs from what it is generated from: run `make generate`")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            print(f"{name} written")
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
