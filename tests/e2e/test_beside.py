"""Another operator in the same cluster, on plain kopf: its own tests pass beside the Message's."""

import pytest

from kopf_kit.cli import e2e
from kopf_kit.rig.cluster import Cluster

NOTES = "examples/plain-kopf"


def test_the_operator_on_plain_kopf_is_installed_beside_it(hack_made: Cluster) -> None:
    if hack_made.existing:
        pytest.skip("its image is built for the tests' own cluster alone")
    assert e2e.run_pytest(f"{NOTES}/tests/e2e", PROJECT=NOTES) == 0
