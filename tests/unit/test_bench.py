"""The benchmark's bookkeeping: what it watches, and how it judges."""

import json
import re
from typing import Any

import pytest

from bench import peers, report, run
from bench.examples import Progress
from bench.world import World
from kopf_kit.rig import paths, versions

DOCS = paths.CHECKOUT / "docs"


def _message(name: str, generation: int = 1, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    return {"metadata": metadata, "status": status}


def _pod(name: str, text: str, uid: str, owner: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"msg-{name}", "uid": uid, "ownerReferences": [{"uid": owner}]},
        "spec": {"containers": [{"env": [{"name": "MESSAGE_TEXT", "value": text}]}]},
    }


def _see(world: World, kind: str, raw: dict[str, Any], at: float) -> None:
    take = world.take_pod if raw["metadata"]["name"].startswith("msg-") else world.take_message
    take(kind, raw, at)


def test_a_message_is_right_with_its_own_pod_and_the_status_of_its_generation() -> None:
    world = World()
    world.want({"a": "new"})

    _see(world, "ADDED", _message("a", generation=2, phase="Processed", observedGeneration=1), 1)
    _see(world, "ADDED", _pod("a", "old", "p1", "uid-a"), 2)
    assert world.podless == {"a"}

    _see(world, "DELETED", _pod("a", "old", "p1", "uid-a"), 3)
    _see(world, "ADDED", _pod("a", "new", "p2", "uid-of-a-former-a"), 4)
    assert world.podless == {"a"}

    _see(world, "ADDED", _pod("a", "new", "p3", "uid-a"), 5)
    assert world.podless == set()
    assert world.last_pod == 5
    assert world.untold == {"a"}

    done = _message("a", generation=2, phase="Processed", observedGeneration=2)
    _see(world, "MODIFIED", done, 6)
    assert world.untold == set()
    assert world.last_status == 6


def test_a_pod_that_is_lost_again_counts_from_its_return() -> None:
    world = World()
    world.want({"a": "text"})
    _see(world, "ADDED", _message("a"), 1)
    _see(world, "ADDED", _pod("a", "text", "p1", "uid-a"), 2)

    _see(world, "DELETED", _pod("a", "text", "p1", "uid-a"), 3)
    _see(world, "ADDED", _pod("a", "text", "p2", "uid-a"), 4)

    assert world.last_pod == 4


def _memcached(name: str, **conditions: str) -> dict[str, Any]:
    told = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": told}}


def test_a_memcached_is_well_when_its_operator_says_so_and_not_before() -> None:
    progress = Progress(["a", "b"], "/memcacheds")

    progress.take("MODIFIED", _memcached("a", Ready="False"), 1)
    progress.take("MODIFIED", _memcached("b", Available="Unknown"), 2)
    assert progress.unwell == {"a", "b"}

    progress.take("MODIFIED", _memcached("a", Ready="True"), 3)
    progress.take("MODIFIED", _memcached("b", Available="True"), 4)
    progress.take("MODIFIED", _memcached("b", Available="True"), 5)
    assert (progress.unwell, progress.last_status) == (set(), 4)


def test_the_pages_have_the_tables_of_the_data() -> None:
    data = json.loads((DOCS / "benchmarks.json").read_text())

    for name, text in report.written(data).items():
        assert (paths.CHECKOUT / name).read_text() == text
    korean = report.first(data, report.PAGES["README.ko.md"])["first"].splitlines()[2:]
    assert [row for row in korean if not re.search("[가-힣]", row.split("|")[1])] == []


def test_quick_fails_if_our_cpu_grew_relative_to_gos(capsys: pytest.CaptureFixture[str]) -> None:
    before, slightly, much = (
        _data(
            ours={"backlog_cpu": [2.0 * grown], "edit_cpu": [3.0]},
            controller_runtime_10={"backlog_cpu": [2.0], "edit_cpu": [2.0]},
        )
        for grown in (1.0, 1.1, 1.2)
    )

    assert [run.compared(before, now) for now in (slightly, much)] == [0, 1]
    assert "CPU of the start and the backlog: 1.20 times Go's, 1.00 on the page" in (
        capsys.readouterr().err
    )


def _data(**numbers: dict[str, list[Any]]) -> report.Data:
    known = json.loads((DOCS / "benchmarks.json").read_text())
    return {
        **known,
        "runs": [
            {"peer": peer.replace("_", "-"), "repeat": repeat, "numbers": {name: value}}
            for peer, all_of in numbers.items()
            for name, found in all_of.items()
            for repeat, value in enumerate(found)
        ],
    }


def test_a_ratio_is_one_of_the_same_repeat() -> None:
    data = _data(ours={"edit_pod": [1, 20]}, controller_runtime_1={"edit_pod": [4, 40]})

    assert report.ratios(data, "edit_pod", "controller-runtime-1") == [0.25, 0.5]


def test_a_ratio_is_judged_by_its_median_and_a_limit_by_the_worst() -> None:
    data = _data(
        ours={"edit_pod": [1, 3, 9], "failover_sigterm": [1.0, 2.5]},
        controller_runtime_1={"edit_pod": [4, 4, 9]},
        memcached={"convert_p99": [0.004, 0.0051]},
    )

    met = {(goal.measure, goal.at_most): goal.met for goal in report.goals(data)}

    edits = ("1,000 edits: last correct Pod", "0.75× controller-runtime, 1 worker")
    assert met[edits] is True
    assert met["failover after SIGTERM", "2 s"] is False
    assert met["conversion of 100 objects, p99", "5 ms"] is False
    assert met["memory, no Message", "45 MB"] is None


def test_growth_is_judged_by_what_each_message_more_takes() -> None:
    data = _data(
        ours={
            "rss_10000": [100.0],
            "rss_100000": [550.0],
            "start_ready_10000": [2.0],
            "start_ready_100000": [21.0],
        }
    )

    met = {goal.measure: goal.met for goal in report.goals(data)}

    assert met["memory for each Message beyond 10,000, relative to those before"] is True
    assert met["start time for each Message beyond 10,000, relative to those before"] is False


def test_the_peers_are_built_with_the_libraries_of_our_programs() -> None:
    """So that what they share is compiled once."""
    for peer in peers.IN_GO.values():
        text = (peer.folder / "go.mod").read_text()
        libraries = re.findall(r"k8s\.io/(?:api|apimachinery|client-go) (\S+)", text)

        assert {*libraries} == {versions.KUBERNETES.replace("v1.", "v0.")}
