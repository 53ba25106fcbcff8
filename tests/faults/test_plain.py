"""A plain kopf operator passes what it can, and fails what docs/testing.md says that it fails."""

import re
import runpy

import pytest

from kopf_kit.rig import paths
from kopf_kit.testing.conformance.walks import test_there_and_back_again  # noqa: F401

_TESTS = paths.CHECKOUT / "examples" / "plain-kopf" / "tests" / "faults"
NOTES = runpy.run_path(str(_TESTS / "test_operator.py"))
SUBJECTS = NOTES["SUBJECTS"]


@pytest.mark.parametrize("page", ["testing.md", "testing.ko.md"])
def test_the_table_has_each_test_that_the_plain_operator_fails(page: str) -> None:
    rows = re.findall(
        r"^\| `(test_\S+)` \| (.+) \|$", (paths.CHECKOUT / "docs" / page).read_text(), re.MULTILINE
    )

    assert [name for name, _ in rows] == list(NOTES["Notes"].fails)
    if page == "testing.md":
        assert dict(rows) == NOTES["Notes"].fails
