"""The documents: the tests that they name exist, and the manifests fit."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from etcd_operator import manifests
from etcd_operator.kinds import EtcdCluster

ROOT = Path(__file__).parents[2]


SOURCES = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
TESTS = set(re.findall(r"def (test_\w+)\(", SOURCES))


@pytest.mark.parametrize("page", ["comparison.md", "comparison.ko.md"])
def test_f12_each_row_of_the_comparison_has_a_test_and_a_source_in_each_operator(page: str) -> None:
    rows = numbers(r"^\| (\d+) \|", (ROOT / "docs" / page).read_text())
    inventory = (ROOT / "tests" / "README.md").read_text()
    _, here, level, *others = re.split(r"^\*\*", inventory, flags=re.MULTILINE)

    assert set(re.findall(r"`(test_\w+)`", here + level)) <= TESTS
    assert numbers(r"^\| ([1-3]):", level) == {*"123"}
    assert numbers(r"^\| ([\d, ]+) \|", here) == rows
    assert [numbers(r"\(([\d, ]+)\)", other) for other in others] == 4 * [rows]


def numbers(pattern: str, text: str) -> set[str]:
    """Return the numbers in what a pattern finds."""
    return {number for row in re.findall(pattern, text, re.MULTILINE) for number in row.split(", ")}


@pytest.mark.parametrize("page", ["tls.md", "tls.ko.md"])
def test_the_certificates_of_the_page_are_those_that_the_cluster_needs(page: str) -> None:
    issued = [*yaml.safe_load_all((ROOT / "examples" / "cert-manager.yaml").read_text())]
    [tls] = re.findall(r"`(tls: {.*})`", (ROOT / "docs" / page).read_text())
    sample = yaml.safe_load((ROOT / "examples" / "sample.yaml").read_text())
    sample["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    sample["spec"] |= yaml.safe_load(tls)
    cluster = msgspec.convert(sample, EtcdCluster)
    authority, leaf = (thing["spec"] for thing in issued if thing["kind"] == "Certificate")
    issuers = {t["metadata"]["name"]: t["spec"] for t in issued if t["kind"] == "Issuer"}

    assert cluster.spec.tls is not None
    assert leaf["secretName"] == cluster.spec.tls.peer_secret
    assert issuers[leaf["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert leaf["dnsNames"] == [manifests.host(cluster, "*"), "sample-client.default.svc"]
    assert {"server auth", "client auth"} <= set(leaf["usages"])
    assert "commonName" not in leaf
