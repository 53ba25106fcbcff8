"""`make scan` fails for a vulnerable package, and where it could not look one up."""

import socket
from pathlib import Path

import pytest

from hack.commands import scan
from hack.rig.run import HackError
from tests.support.osv import Package, database

HASH = f" \\\n    --hash=sha256:{'0' * 64}\n"
OURS = ("kopf", "1.45.2")


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "operator.txt"
    file.write_text(f"aiohttp==3.14.5{HASH}kopf==1.45.2{HASH}")
    return file


@pytest.mark.parametrize(
    ("vulnerable", "code", "last_lines"),
    [
        ([scan.KNOWN], 0, ["operator.txt: 2 packages looked up", "vulnerabilities: 0"]),
        (
            [scan.KNOWN, OURS],
            1,
            [
                "operator.txt: 2 packages looked up",
                "operator.txt: kopf 1.45.2: GHSA-of-kopf, fixed in 99.0",
                "vulnerabilities: 1",
            ],
        ),
    ],
    ids=["none", "one"],
)
def test_a_vulnerable_package_is_told_with_its_lock_and_the_version_that_mends_it(
    vulnerable: list[Package],
    code: int,
    last_lines: list[str],
    lock: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with database(vulnerable) as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)

        assert scan.scan([lock]) == code

    assert capsys.readouterr().out.splitlines() == last_lines


def test_a_database_that_knows_nothing_is_no_good_news(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database([]) as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)

        with pytest.raises(HackError, match=r"knows of no vulnerability in django 1\.11"):
            scan.scan([lock])


def test_a_database_that_refuses_fails_the_scan(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database([scan.KNOWN], status=403) as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)

        with pytest.raises(HackError, match="could not be looked up"):
            scan.scan([lock])


def test_a_database_out_of_reach_fails_the_scan(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:  # and it does not listen
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"http://127.0.0.1:{bound.getsockname()[1]}")

        with pytest.raises(HackError, match="could not be looked up"):
            scan.scan([lock])


def test_a_lock_that_cannot_be_read_fails_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "operator.txt"
    lock.write_text(f"kopf==not-a-version{HASH}")
    with database([scan.KNOWN]) as url:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", url)

        with pytest.raises(HackError, match="could not be looked up"):
            scan.scan([lock])
