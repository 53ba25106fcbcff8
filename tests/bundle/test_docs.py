"""Each row of the checklist names a test, and no rule is left out.

`tests/unit/test_documents.py` looks for the tests.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from kopf_kit.olm import bundle
from kopf_kit.olm.verdict import RULES
from kopf_kit.project import documents
from kopf_kit.rig import paths

GUIDE = (paths.CHECKOUT / "docs" / "olm.md").read_text()
TEXT = Path(__file__).with_name("README.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line, following in pairwise([*TEXT.splitlines(), ""])
    if line.startswith("| ") and not following.startswith("|--")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("| "))
def test_every_row_names_a_test(row: list[str]) -> None:
    named = re.fullmatch(r"`[\w/-]+\.py::test_\w+(?:\[(\w+)\])?`", row[-1])

    assert named, f"{row[-1]} names no test"
    assert named[1] is None or named[1] in RULES


def test_every_rule_has_a_row() -> None:
    named = set(re.findall(r"\[(\w+)\]`", TEXT))

    assert set(RULES) == named


def test_the_guide_names_the_first_openshift_that_has_the_kubernetes_that_is_needed() -> None:
    (file,) = (bundle.BUNDLE / "manifests").glob("*.clusterserviceversion.yaml")
    needed = documents.load(file.read_text())["spec"]["minKubeVersion"]
    minor = int(needed.split(".")[1])
    # OpenShift 4.3 had Kubernetes 1.16, and each minor of the one has had one of the other since.
    first = f"4.{minor - 13}"

    assert f"Kubernetes 1.{minor} (`minKubeVersion`)" in GUIDE
    assert f"OpenShift {first} is the first version with it" in GUIDE
