"""The examples as repositories of their own: copied out, with the packages of an index."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.packages.test_index import Author, served
from tests.unit.test_examples import EXAMPLES, SOURCES

__all__ = ["served"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_that_is_copied_out_passes_its_check(
    tmp_path: Path, served: str, example: Path
) -> None:
    author = Author(tmp_path, served)
    left = shutil.ignore_patterns("build", ".venv", "uv.lock", "*_cache", "__pycache__")
    author.home = shutil.copytree(example, tmp_path / "copy", ignore=left)
    file = author.home / "pyproject.toml"
    file.write_text(SOURCES.sub("", file.read_text()))
    # The Go programs that its tests need are built once.
    author.environment["XDG_CACHE_HOME"] = os.environ.get(
        "XDG_CACHE_HOME", str(Path.home() / ".cache")
    )

    said = author.types("uv", "run", "kopf-kit", "check")

    assert re.search(r"^0 of \d+ tiers failed", said, re.MULTILINE), said
    sources = {package["name"]: package["source"] for package in author.lock["package"]}
    for name in ("kopf-runtime", "kopf-kit"):
        assert sources[name]["registry"].rstrip("/") == served.rstrip("/")
