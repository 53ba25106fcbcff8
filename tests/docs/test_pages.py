"""Every command of the pages succeeds, in the page's order, and prints what the page shows."""

import re
import subprocess
import sys

import pytest

from kopf_kit.rig import paths
from tests.docs.reader import CHECKOUT, Reader, named_as_of_the_user
from tests.docs.readings import AFTER_DEMO, WITHOUT_OPERATOR, Reading
from tests.faults.test_testing import TESTS
from tests.support.console import includes


def follow(reader: Reader, reading: Reading) -> None:
    reader.prepares(*reading.given)
    try:
        for block in reading.blocks():
            reader.follow(block.steps, reading.words, f"{reading.page}:{block.line}")
    finally:
        reader.prepares(*reading.afterwards)


@pytest.mark.usefixtures("without_operator")
@pytest.mark.parametrize("reading", WITHOUT_OPERATOR, ids=str)
def test_a_page_that_installs_the_operator_is_as_it_says(reader: Reader, reading: Reading) -> None:
    follow(reader, reading)


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("reading", AFTER_DEMO, ids=str)
def test_a_page_is_as_it_says(reader: Reader, reading: Reading) -> None:
    follow(reader, reading)


def test_the_first_page_shows_what_the_demo_prints(demo: str) -> None:
    lines = re.findall(r"<text [^>]*>(.+)</text>", (CHECKOUT / "docs" / "demo.svg").read_text())

    assert len(lines) == 8
    assert includes("\n".join(lines), named_as_of_the_user(demo)), demo


def test_the_cluster_of_the_page_about_tests() -> None:
    (listing,) = [test for test in TESTS if "(cluster)" in test]
    file = paths.BUILD / "test_cluster.py"
    file.write_text(listing)
    command = (sys.executable, "-m", "pytest", "-q", "--noconftest", file)

    done = subprocess.run(command, cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=1500)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
