"""Several runs of pytest, of `make e2e` and the tier `matrix`, end with one exit code."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kopf_kit.commands import e2e, pytest_runs
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import cluster as clusters


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([0, 5], 0),
        ([5, 1], 1),
        ([5, 5], 5),
        ([-9, 0, 0], 137),
        ([-15, 5], 143),
    ],
)
def test_a_run_that_fails_or_is_killed_fails_all_and_one_without_tests_does_not(
    codes: list[int], result: int
) -> None:
    assert pytest_runs.result(codes) == result


def test_an_operator_without_tests_of_its_own_has_its_samples_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(*words: str, **_: str) -> int:
        ran.extend(words)
        return 0

    cluster = SimpleNamespace(existing=False, kubeconfig=tmp_path / "kubeconfig")
    monkeypatch.setattr(clusters, "up", lambda _: cluster)
    monkeypatch.setattr(e2e, "PROJECT", msgspec.structs.replace(PROJECT, root=tmp_path))
    monkeypatch.setattr(pytest_runs, "run", run)

    assert e2e.run(["-x"]) == 0
    (tmp_path / "tests" / "e2e").mkdir(parents=True)
    assert e2e.run([]) == 0

    assert ran[0].endswith("/kopf_kit/testing/samples.py")
    assert ran[2:] == ["-x", str(tmp_path / "tests" / "e2e")]
