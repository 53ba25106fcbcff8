"""The site as its reader gets it: served by `make docs ARGS=serve`, seen in a browser."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import docs
from kopf_kit.rig import debian
from tests.site.browser import Browser, browser

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of the site, which is built for the tests."""
    with subprocess.Popen(
        ["make", "docs", "ARGS=serve", "PORT=0"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as served:
        assert served.stdout is not None
        try:
            first = served.stdout.readline()
            assert first.startswith("http://"), "`make docs ARGS=serve` failed: see above"
            yield first.split()[0]
        finally:
            os.killpg(served.pid, signal.SIGTERM)


@pytest.fixture(scope="session")
def folder(address: str) -> Path:
    """The folder of the site that is served."""
    return docs.SITE


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser; on Debian it is installed where it is missing, elsewhere the error says how."""
    debian.install("Chromium", ["chromium", "chromium-driver"], needs=("chromedriver",))
    with browser() as started:
        yield started
