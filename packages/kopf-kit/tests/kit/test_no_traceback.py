"""On whatever is in a repository, each command ends with a sentence, and leaves nothing half.

Each case is a good repository with one thing wrong in it. The variable SEED repeats a walk.
"""

import itertools
import os
import random
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit import drawn
from kit.called import adopt, commit, notes
from kit.forked import Kit
from kopf_kit import __main__
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers

SEED = os.environ.get("SEED") or "67"  # each night draws others
_PAGE = ("--home", "https://github.com/acme/notes-operator")
_CHART = "charts/cache-operator"
#: The files that are changed in each repository; what is not there is added.
FILES = {
    "own": (
        *("PROJECT", "PROJECT", "PROJECT", "olm/csv.yaml", "examples/sample.yaml", "README.md"),
        *(f"{_CHART}/{name}" for name in ("Chart.yaml", "README.md.in", "values.own.yaml")),
        *(f"{_CHART}/templates/_operator.tpl", "olm/values.own.yaml", "olm/description.md"),
        *("docs/icon.svg", "docs/runbooks.md", "CHANGELOG.md", "catalog/bundles/v0.0.1.yaml"),
        *(f"operator/cache_operator{name}" for name in ("", "/__init__.py", "/operator.py")),
        *("pyproject.toml", "uv.lock", "charts"),
    ),
    "adopted": (
        *("PROJECT", "PROJECT", "crd.yaml", "crd.yaml", "role.yaml", "sample.yaml", "main.py"),
        *("requirements.txt", "Dockerfile", "pyproject.toml", "uv.lock"),
        "charts/notes-operator/Chart.yaml",
    ),
    "plain": (
        *("crd.yaml", "crd.yaml", "role.yaml", "sample.yaml", "requirements.txt", "main.py"),
        *("Dockerfile", "pyproject.toml", "more.yaml", "setup.cfg"),
    ),
}
_ADOPT = ("adopt", "--no-run", *_PAGE)
COMMANDS = {
    "own": (
        *(("generate",), ("verify",), ("bump", "0.2.0"), ("bump", "v1")),
        *(("new", "kind", "Bucket"), ("new", "olm"), ("remove", "kind", "Cache"), ("tool", "helm")),
        *(("rights", "record"), ("slowest",), ("release", "bundle", "0.1.0")),
        *(("release", "0.2.0"), ("release", "keys"), ("push",), ("push", "chart"), ("plugin",)),
        *(("image", "build"), ("image", "push"), ("cluster", "up"), ("olm", "up"), ("install",)),
        *(("uninstall",), ("deploy",), ("undeploy",), ("run",), ("e2e",), ("e2e-olm",)),
        ("new", "workflow"),
        *((tiers, "--list") for tiers in ("check", "test", "test-all")),
    ),
    "plain": (
        (*_ADOPT, "--rights", "role.yaml"),
        _ADOPT,
        (*_ADOPT, "--crd", "crd.yaml", "--sample", "sample.yaml"),
    ),
}
COMMANDS["adopted"] = COMMANDS["own"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good repositories: one of `new`, one to adopt, and one adopted."""
    folder = tmp_path_factory.mktemp("good")
    answers = Answers("cache-operator", "Cache", "cache.example.com", olm=True)
    repository.write(answers, folder / "own", lock=False)
    for name in ("plain", "adopted"):
        notes(folder / name, "*.md")
    code, said = adopt(folder / "adopted", "--no-run", *_PAGE, "--rights", "role.yaml")
    assert not code, said
    for name in ("own", "adopted"):
        commit(folder / name)
        shutil.rmtree(folder / name / ".git" / "hooks")
    return folder


def case(kit: Kit, good: Path, folder: Path, seed: str) -> str:
    """Run one command on one repository; return what is wrong with how it ended."""
    rng = random.Random(seed)  # noqa: S311
    which = rng.choice(("own", "own", "adopted", "plain"))
    here = drawn.copy(good / which, folder / rng.choice(("r", "한 글", "a b")))
    words, name = rng.choice(COMMANDS[which]), rng.choice(FILES[which])
    if rng.random() < 0.2:
        name = rng.choice(sorted(drawn.state(here)))
    if (here / ".git").exists() and rng.random() < 0.1:
        name, done = ".git", drawn.history(rng, here)
    else:
        done = drawn.change(rng, here / name)
    before = drawn.state(here)

    code, said = kit.answer(here, *words)

    told = f"{seed}: {' '.join(words)} in {which} where {name}: {done}: {code}: {said[-600:]}"
    if code not in (0, 1, 2) or "Traceback" in said or (code and not said.strip()):
        return told
    if code and (changed := drawn.state(here)) != before:
        odd = [path for path in {*before, *changed} if before.get(path) != changed.get(path)]
        return f"{told}: changed {sorted(odd)[:5]}"
    return ""


def walk(good: Path, folder: Path, cases: int, threads: int = 3) -> Iterator[str]:
    """Yield what is wrong with how commands ended."""
    numbers, lock = iter(range(cases)), threading.Lock()

    def work(thread: int) -> list[str]:
        kit, found = Kit(), list[str]()
        try:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return found
                found.append(case(kit, good, folder / str(thread), f"{SEED}-{number}"))
        finally:
            kit.end()

    with ThreadPoolExecutor(threads) as threaded:
        told = itertools.chain(*threaded.map(work, range(threads)))
    yield from filter(None, told)


def test_each_command_ends_with_a_sentence_whatever_is_there(good: Path, tmp_path: Path) -> None:
    print(f"SEED={SEED}")

    assert not "\n".join(walk(good, tmp_path, 10))


@pytest.mark.long
def test_each_command_ends_with_a_sentence_in_many_repositories(good: Path, tmp_path: Path) -> None:
    print(f"SEED={SEED}")

    assert not "\n".join(walk(good, tmp_path, 2000))


def test_each_command_that_is_listed_is_among_those_that_are_drawn() -> None:
    drawn_ones = {words[0] for commands in COMMANDS.values() for words in commands}

    # It runs the operator under faults, and reads PROJECT as `test` does.
    assert {*__main__.COMMANDS} - drawn_ones == {"faults"}
