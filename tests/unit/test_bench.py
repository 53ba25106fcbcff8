"""The benchmark's bookkeeping: what it watches, and how it judges."""

import hashlib
import json
from typing import Any

from bench import korean, report
from bench.examples import Progress
from bench.world import World
from kopf_kit.rig import paths

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


def test_only_a_deployment_of_the_wanted_size_counts() -> None:
    progress = Progress(["a"], "/memcacheds")

    progress.take_deployment("ADDED", {"metadata": {"name": "a"}, "spec": {"replicas": 2}}, 1)
    assert progress.childless == {"a"}

    progress.take_deployment("MODIFIED", {"metadata": {"name": "a"}, "spec": {"replicas": 1}}, 2)
    assert (progress.childless, progress.last_child) == (set(), 2)


def test_the_examples_have_tables_once_they_were_measured() -> None:
    data = _data(memcached={"memcached_writes": [3.0]}, memcached_in_go={"memcached_writes": [7.5]})
    data["settings"] |= {
        "messages": 1000,
        "creates": 500,
        "beside": 60,
        "stuck": 100,
        "idle": 330.0,
    }

    assert "Memcached" not in report.tables({**data, "measured": {}})

    data["settings"] |= {"memcacheds": 1000}
    tables = report.tables({**data, "measured": {"memcached": {}}})
    assert "| backlog of 1,000 Memcacheds: start to last Deployment | — | — |" in tables
    assert "| writes per Memcached | 3.00 | 7.50 |" in tables
    assert "FlightTicket" not in tables


def test_each_label_of_the_tables_has_its_korean() -> None:
    asked: list[str] = []

    def say(label: str) -> str:
        asked.append(label)
        return korean.said(label)

    data = json.loads((DOCS / "benchmarks.json").read_text())
    for example in ("memcached", "flightticket"):
        data["measured"][example] = {"when": "2026-11-22", "load": [1.0]}
    grown = {"rss_10000": 1.0, "rss_100000": 9.0, "start_ready_10000": 1, "start_ready_100000": 9}
    data["runs"].append({"peer": "ours", "repeat": 0, "numbers": grown})

    assert "FlightTicket" in report.tables(data, say)
    assert "부하 평균" in report.told(data, say)
    examples = {"examples/memcached", "examples/flightticket"}
    same = {label for label in asked if korean.said(label) == label}
    assert same == {"", " s", " MB", "… p99", "… CPU", "message-operator", *examples}


def test_the_pages_have_the_tables_of_the_data() -> None:
    data = json.loads((DOCS / "benchmarks.json").read_text())

    for name, text in report.written(data).items():
        assert (DOCS / name).read_text() == text


def test_the_picture_is_drawn_from_the_data() -> None:
    digest = hashlib.sha256((DOCS / "benchmarks.json").read_bytes()).hexdigest()

    assert digest.encode() in (DOCS / "benchmarks.png").read_bytes()


def _data(**numbers: dict[str, list[float]]) -> report.Data:
    return {
        "settings": {"churn": 3},
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
    )

    met = {(goal.measure, goal.at_most): goal.met for goal in report.goals(data)}

    assert met["live edits, to the last correct Pod", "0.75 × controller-runtime, 1 worker"] is True
    assert met["failover, SIGTERM", "2 s"] is False
    assert met["memory, no Message", "60 MB"] is None


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

    assert met["memory per additional Message, from 10,000 to 100,000"] is True
    assert met["start time per additional Message, from 10,000 to 100,000"] is False
