"""Another operator by OLM, on plain kopf: its own tests pass with what a Subscription installs."""

import pytest

from kopf_kit.cli import e2e
from tests.e2e.test_beside import NOTES


@pytest.mark.usefixtures("hack_made")
def test_the_operator_on_plain_kopf_is_installed_by_a_subscription() -> None:
    assert e2e.run_pytest(f"{NOTES}/tests/e2e", "--by-olm", PROJECT=NOTES) == 0
