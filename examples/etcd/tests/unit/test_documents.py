"""The documents: the tests and the fields that they name exist."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kopf_kit.crd import generated
from kopf_runtime.declaring.declaration import declared

from etcd_operator import manifests
from etcd_operator.backups import EtcdBackup
from etcd_operator.kinds import EtcdCluster
from etcd_operator.restores import EtcdRestore

ROOT = Path(__file__).parents[2]


SOURCES = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
TESTS = set(re.findall(r"def (test_\w+)\(", SOURCES))


def test_each_point_of_the_level_has_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "capabilities.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| [1-3]: ", line)]

    assert {row[2] for row in rows} == {"1", "2", "3"}
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= TESTS, row


@pytest.mark.parametrize("page", ["comparison.md", "comparison.ko.md"])
def test_f12_each_row_of_the_comparison_has_a_test_and_a_source_in_each_operator(page: str) -> None:
    rows = numbers(r"^\| (\d+) \|", (ROOT / "docs" / page).read_text())
    inventory = (ROOT / "tests" / "README.md").read_text()
    _, here, *others = re.split(r"^\*\*", inventory, flags=re.MULTILINE)

    assert set(re.findall(r"`(test_\w+)`", here)) <= TESTS
    assert numbers(r"^\| ([\d, ]+) \|", here) == rows
    assert [numbers(r"\(([\d, ]+)\)", other) for other in others] == 4 * [rows]


def numbers(pattern: str, text: str) -> set[str]:
    """Return the numbers in what a pattern finds."""
    return {number for row in re.findall(pattern, text, re.MULTILINE) for number in row.split(", ")}


@pytest.mark.parametrize("page", ["classic.md", "classic.ko.md"])
@pytest.mark.parametrize("kind", [EtcdCluster, EtcdBackup, EtcdRestore])
def test_what_replaces_a_classic_field_is_a_field_of_the_kind(page: str, kind: Any) -> None:
    text = (ROOT / "docs" / page).read_text()
    (section,) = re.findall(
        rf"^## {kind.__name__}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    replacements = [line.split(" | ")[1] for line in section.splitlines() if line.startswith("| ")]
    named = re.findall(r"`((?:spec|status)\.[\w.]+)`", " ".join(replacements))

    assert named
    assert [path for path in named if not is_field(kind, path)] == []


@pytest.mark.parametrize("page", ["tls.md", "tls.ko.md"])
def test_the_certificates_on_the_page_are_those_that_the_cluster_needs(page: str) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    *issued, last = [manifest for block in blocks for manifest in yaml.safe_load_all(block)]
    last["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    cluster = msgspec.convert(last, EtcdCluster)
    authority, leaf = (thing["spec"] for thing in issued if thing["kind"] == "Certificate")
    issuers = {t["metadata"]["name"]: t["spec"] for t in issued if t["kind"] == "Issuer"}

    assert cluster.spec.tls is not None
    assert leaf["secretName"] == cluster.spec.tls.peer_secret
    assert issuers[leaf["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert leaf["dnsNames"] == [manifests.host(cluster, "*"), "sample-client.default.svc"]
    assert {"server auth", "client auth"} <= set(leaf["usages"])
    assert "commonName" not in leaf


def is_field(kind: Any, path: str) -> bool:
    """Tell whether a kind has a field."""
    (version,) = generated.definition(declared(kind))["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True
