"""Which tiers passed, by the content of the checkout: build/tested/TREE/TIER.

TREE is git's hash of all files that git knows or would add, so it stays the same when what was
tested is committed, and changes with every edit.
"""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.rig.run import answer, output

#: Variables with which the tests are others than those for a release; so are those in _IMG.
LIMITS = ("KUBERNETES", "PROJECT", "IMG", "MINUTES", "NUMBER")


def tree(checkout: Path = paths.CHECKOUT) -> str:
    """Return git's hash of the checkout's content, or an empty text where git knows none."""
    path = answer(["git", "-C", str(checkout), "rev-parse", "--git-path", "index"])
    if path is None:
        return ""
    index = checkout / path
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "index")
        if index.is_file():
            shutil.copy2(index, copy)
        ours = {"GIT_INDEX_FILE": str(copy), "GIT_OPTIONAL_LOCKS": "0"}
        output(["git", "add", "--all"], cwd=checkout, env=ours, timeout=120)
        return output(["git", "write-tree"], cwd=checkout, env=ours).strip()


def passed(build: Path, content: str) -> set[str]:
    """Return the names of the tiers that passed for a content."""
    folder = build / "tested" / content
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def record(build: Path, content: str, tier: str, seconds: float, tests: str) -> None:
    """Keep that a tier passed."""
    folder = build / "tested" / content
    folder.mkdir(parents=True, exist_ok=True)
    result = {"seconds": round(seconds, 1), "tests": tests, "ended": round(time.time())}
    (folder / tier).write_text(json.dumps(result) + "\n")


def forget(build: Path, content: str, tier: str) -> None:
    """Remove the record of a tier that has failed now."""
    (build / "tested" / content / tier).unlink(missing_ok=True)


def may_record() -> bool:
    """Return whether the environment leaves the tests as they are for a release."""
    limits = (*LIMITS, *(name for name in os.environ if name.endswith("_IMG")))
    return not any(map(os.environ.get, limits)) and os.environ.get("CLUSTER") != "existing"
