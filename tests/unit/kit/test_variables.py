"""A variable of `make` with a value that means nothing ends in one line that says so."""

import os
import re
import socket
import subprocess
import sys

import pytest

from hack import docs, own_tiers
from kopf_kit.__main__ import VARIABLES
from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError


@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", "inf"])
def test_minutes_that_are_none_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINUTES", value)

    with pytest.raises(HackError, match=f"^MINUTES={value} is not valid. Use a number of minutes"):
        own_tiers.minutes()


@pytest.mark.parametrize(
    ("command", "variable", "code", "said"),
    [
        (["soak"], "x", 1, "error: MINUTES=x is not valid."),
        (
            ["docs-serve", "--port=99999"],
            "",
            2,
            "error: Invalid value for '--port': 99999 is not in",
        ),
    ],
)
def test_it_ends_in_one_line(command: list[str], variable: str, code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack", *command],
        cwd=paths.CHECKOUT,
        capture_output=True,
        env={**os.environ, "MINUTES": variable},
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == code
    assert done.stderr.strip().startswith(said)
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(HackError, match=f"^PORT={port} cannot be listened on: .+ in use"):
            docs._server(port)


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ([], []),
        (["IMAGES=pull", "KIND_CLUSTER_NAME=other", "MINUTES=1", "ARGS=-k a", "PORT=1"], []),
        (["IMAGE=pull", "IMAGES=pull", "REGISTERY=a b"], ["IMAGE", "REGISTERY"]),
    ],
)
def test_a_misspelt_variable_is_warned_of(given: list[str], unknown: list[str]) -> None:
    done = subprocess.run(
        ["make", *given],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    assert sorted(done.stderr.splitlines()) == [
        f"make: warning: no command here has a variable {name}; it only goes into the environment"
        for name in unknown
    ]


#: Those that the kit reads as every program does, or for itself.
OF_OTHERS = {
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "CLOCK", "DOCKER_HOST", "KUBEBUILDER_ASSETS", "KUBECONFIG"),
    *("PATH", "PYTHONPATH", "UV_PUBLISH_URL", "XDG_CACHE_HOME"),
}


def test_the_help_of_the_program_names_each_variable_that_the_kit_reads() -> None:
    code = "".join(file.read_text() for file in sorted(paths.KIT.rglob("*.py")))
    read = {*re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', code)}
    named = {*re.findall(r"[A-Z_]{3,}", " ".join(VARIABLES))}

    assert read - OF_OTHERS - named == set()
    assert {name for name in named - {"NODE_IMG"} if f'"{name}"' not in code} == set()
