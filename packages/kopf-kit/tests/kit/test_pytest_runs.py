"""Several runs of pytest, of `make e2e` and the tier `matrix`, end with one exit code."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kopf_kit.cli import e2e, push
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm, paths
from kopf_kit.rig.run import KitError


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
    assert e2e.result(codes) == result


def test_an_operator_without_tests_has_its_samples_applied_and_without_those_of_olm_helms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(*words: str, **_: str) -> int:
        ran.extend(words)
        return 0

    cluster = SimpleNamespace(existing=False, kubeconfig=tmp_path / "kubeconfig")
    monkeypatch.setattr(clusters, "up", lambda _: cluster)
    monkeypatch.setattr(olm, "up", lambda _: cluster)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(e2e, "_TESTS", tmp_path / "tests")
    monkeypatch.setattr(e2e, "PROJECT", msgspec.structs.replace(PROJECT, root=tmp_path))
    monkeypatch.setattr(e2e, "run_pytest", run)

    assert e2e.run(["-x"]) == 0
    own, by_olm = tmp_path / "tests" / "e2e", tmp_path / "tests" / "olm"
    own.mkdir(parents=True)
    assert e2e.run([]) == 0
    assert e2e.run_olm([]) == 0
    by_olm.mkdir()
    assert e2e.run_olm([]) == 0

    assert ran[0].endswith("/kopf_kit/testing/smoke.py")
    assert ran[2:] == ["-x", *map(str, (own, own, "--by-olm", by_olm))]


def test_a_repository_without_files_of_olm_is_told_what_adds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "PROJECT", msgspec.structs.replace(PROJECT, root=tmp_path))

    with pytest.raises(KitError, match="`kopf-kit new olm` adds them"):
        e2e.run_olm([])
