"""The tier `matrix` runs the same tests on each Kubernetes, and ends with a table."""

from pathlib import Path

import pytest

from hack import own_tiers
from kopf_kit.rig import control_plane, paths, versions
from kopf_kit.rig.run import KitError

REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the tests: those on the newest Kubernetes fail. Return what they ran on."""
    runs: list[str] = []
    monkeypatch.setattr(own_tiers, "_FAULTS", {"operator": Path("tests/faults")})

    def fake(minor: str, report: Path, folder: Path, _: list[str]) -> int:
        runs.append(f"{minor} {folder.parent.name}")
        failed = int(minor == versions.NEWEST)
        cases = ["<testcase/>"] * (9 - failed) + ["<testcase><failure/></testcase>"] * failed
        report.write_text(REPORT.format("".join(cases)))
        return failed

    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(own_tiers, "_build", lambda _: None)
    monkeypatch.setattr(own_tiers, "_on", fake)
    monkeypatch.delenv("KUBERNETES", raising=False)
    return runs


def test_each_version_has_a_line_and_one_failure_fails_them_all(
    runs: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert own_tiers.matrix([]) == 1

    lines = capfd.readouterr().err.partition("Kubernetes  server    tests\n")[2].splitlines()
    assert runs == [f"{minor} tests" for minor in versions.PROVED]
    assert [line.split()[:2] for line in lines] == [list(pair) for pair in versions.PROVED.items()]
    assert "9 passed in" in lines[0]
    assert "8 passed, 1 failed in" in lines[-1]


@pytest.mark.usefixtures("runs")
def test_a_run_that_is_killed_fails_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([-9, *[0] * (len(versions.PROVED) - 1)])
    monkeypatch.setattr(own_tiers, "_on", lambda *_: next(codes))

    assert own_tiers.matrix([]) == 137


def test_one_version_can_be_picked(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES", versions.NEWEST)

    own_tiers.matrix([])

    assert runs == [f"{versions.NEWEST} tests"]


def test_a_version_that_there_is_not_is_refused_with_those_that_there_are(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES", "1.20")

    with pytest.raises(KitError, match=f"KUBERNETES=1.20 .* use .*or {versions.NEWEST}"):
        own_tiers.matrix([])
    with pytest.raises(KitError):
        control_plane.chosen()
    assert runs == []
