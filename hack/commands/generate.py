"""Files that are made of others: `make generate` writes them, `make verify` finds the stale ones.

Each says in its first lines what it is made by.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from hack.pack import bundle, catalog, chart_dashboard, chart_docs, manifests
from hack.rig import paths
from hack.rig.run import HackError


def _of_the_chart_s_sources() -> dict[Path, str]:
    return {
        chart_docs.CHART / "values.schema.json": chart_docs.schema(),
        chart_docs.CHART / "README.md": chart_docs.readme(),
        chart_dashboard.FILE: chart_dashboard.dashboard(),
    }


def _of_the_rendered_chart() -> dict[Path, str]:
    return {**bundle.files(), **catalog.files(), **manifests.files()}


#: Each is made once the files of those before it are written: Helm renders with the schema.
STAGES = (_of_the_chart_s_sources, _of_the_rendered_chart)


def generated() -> dict[Path, str]:
    """Return what is generated: each file's text."""
    return {file: text for stage in STAGES for file, text in stage().items()}


def stale(stage: Callable[[], dict[Path, str]] = generated) -> dict[Path, str]:
    """Return those that are missing, or differ from what would be generated."""
    return {
        file: text
        for file, text in stage().items()
        if not file.exists() or file.read_text() != text
    }


def main(arguments: list[str]) -> int:
    """Write what is stale, or, with `--check`, only name it; give the exit code."""
    check = "--check" in arguments
    outdated = 0
    try:
        for stage in STAGES:
            found = stale(stage)
            outdated += len(found)
            for file, text in found.items():
                _tell(file) if check else _write(file, text)
    except HackError as error:
        print(f"error: {error}")
        return 1
    return 1 if check and outdated else 0


def _tell(file: Path) -> None:
    name = file.relative_to(paths.CHECKOUT)
    print(f"{name} differs from what it is generated from: run `make generate`")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(f"{file.relative_to(paths.CHECKOUT)} written")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
