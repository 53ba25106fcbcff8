"""The documents: the tests that they name exist, and the manifests fit."""

import re
import subprocess
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import yaml
from kopf_kit.kubectl import advice
from kopf_kit.release import packed
from kopf_kit.rig import versions

from etcd_operator import backups, manifests, restores
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


#: No reason, the kit's own, and those of what needs no advice.
FINE = {"", "Paused", "Serving", "Complete"}


def test_the_plugin_has_advice_on_each_reason_and_event() -> None:
    source = "".join(file.read_text() for file in (ROOT / "operator").rglob("*.py"))
    given = (
        r"(?:return (?:False|done), |kr\.Wait\(|self\.refused = |reason(?:: Reason)?(?:, text)? = )"
        r'"(\w+)"(?: if [^\n]* else "(\w+)")?'
    )
    reasons = {"Hibernated", *get_args(restores.Phase), *sum(re.findall(given, source), ())}
    told = r'(?:context\.event\(|Do\.\w+: \(|^ +[A-Z_]+ = \d+, .*, )"([A-Z]\w+)"'
    events = set(re.findall(told, source, re.MULTILINE))
    own = packed.advice(ROOT / "advice.yaml", alerts=())
    written = yaml.safe_load((ROOT / "advice.yaml").read_text())["reasons"]
    named = {entry["alert"] for entry in written if "alert" in entry}

    assert reasons >= {"QuorumLost", "MemberUnreachable", "BackupMissing", "PasswordRefused"}
    assert events >= {"MemberAdded", "MemberDoesNotRun", "BackupComplete"}
    every = *own.events, *own.reasons
    for words, entries in ((reasons - FINE, own.reasons), (events, every)):
        assert {w for w in words if not any(advice.is_called(e, w) for e in entries)} == set()
    alerts = re.findall(r"^## EtcdOperator(\w+)", (ROOT / "docs/runbooks.md").read_text(), re.M)
    assert named <= {*alerts}


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_what_the_page_types_makes_objects_of_files_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    files = set(re.findall(r"examples/[\w-]+\.(?:yaml|py)", text))
    made = re.findall(r"^\$ (sed .+) \| kubectl apply -f -$", text, re.MULTILINE)
    kinds = {"EtcdBackup": backups.EtcdBackup, "EtcdRestore": restores.EtcdRestore}

    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert f'"version": "{versions.ETCD.removeprefix("v")}"' in text
    sources = []
    for command in made:
        printed = subprocess.check_output(["/bin/bash", "-c", command], cwd=ROOT, text=True)
        thing = yaml.safe_load(printed)
        thing["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
        spec = msgspec.convert(thing, kinds[thing["kind"]]).spec
        sources.append(getattr(spec, "source", None) or spec.schedule)
    once, again, survivor = sources
    assert (once, again.backup.name, survivor.survivor.member) == (None, "now", "")
