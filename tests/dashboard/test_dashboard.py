"""The dashboard's picture: the operator under faults, scraped by a Prometheus, panel by panel.

The tier `dashboard` runs it. All that is in docs/dashboard.png was measured here: two replicas
under constant changes meet the faults of the fault suite, one after the other. Each panel of the
chart's dashboard is then queried as Grafana would, and drawn.
"""

import asyncio
import contextlib
import itertools
import json
import random
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from signal import Signals
from typing import Any

from kopf_kit.pack import chart_dashboard
from kopf_kit.pack.chart_panels import ROWS
from kopf_kit.rig import paths, pythons
from kopf_kit.rig.run import output
from kopf_kit.testing import calls
from kopf_kit.testing.process import Operator, free_port
from kopf_kit.testing.world import ELECT, World
from tests.chart import prometheus_server
from tests.chart.prometheus_server import Prometheus
from tests.faults.conftest import cluster, subject, subjects

__all__ = ["cluster", "subject", "subjects"]

PICTURE = paths.CHECKOUT / "docs" / "dashboard.png"
MESSAGES = 150
#: Seconds that each part of the run lasts, between two changes, and between two points.
PART, PAUSE, STEP = 60.0, 0.3, 3


async def test_the_dashboard_is_drawn_from_a_run_under_faults(here: World, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    leader, _ = [
        await here.start(*ELECT, f"--metrics-bind-address=127.0.0.1:{port}", "--resync-period=90")
        for port in ports
    ]
    began = time.time()
    with prometheus_server.running(tmp_path, _configuration(ports)) as prometheus:
        async with _changes(here):
            faults = [(when - began) / 60 async for when in _faults(here, leader)]
        rows = _measured(prometheus, began, time.time())

    assert [panel["title"] for row in rows for panel in row["panels"] if not panel["series"]] == []
    source = paths.BUILD / "dashboard.json"
    source.parent.mkdir(exist_ok=True)
    source.write_text(json.dumps({"faults": faults, "rows": rows}))
    drawing = (pythons.python("plotting-python", "bench"), "-m", "tests.dashboard.drawing")
    output([*drawing, source, PICTURE], timeout=120, cwd=paths.CHECKOUT)


def _configuration(ports: list[int]) -> dict[str, Any]:
    """Scrape the replicas under the labels that they have in a cluster."""
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {
                "namespace": "message-operator",
                "operator": "message-operator",
                "pod": f"message-operator-{number}",
            },
        }
        for number, port in enumerate(ports, 1)
    ]
    return {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "operator", "static_configs": targets}],
    }


async def _faults(here: World, leader: Operator) -> AsyncIterator[float]:
    """Meet one fault after the other; yield when each began. docs/monitoring.md names them."""
    await asyncio.sleep(PART)
    yield time.time()
    leader.send(Signals.SIGKILL)
    await asyncio.sleep(PART)

    yield time.time()
    for proxy in here.proxies:
        fault = calls.refuse(500, "InternalError")
        proxy.arm(_some_writes, fault, float("inf"), may_miss=True)
    await asyncio.sleep(PART / 2)
    for proxy in here.proxies:
        proxy.disarm()
    await asyncio.sleep(PART / 2)

    yield time.time()
    for number in range(5):
        foreign = here.parent.foreign(f"taken-{number}")
        await here.cluster.ask("POST", here.children, foreign)
        await here.create("다섯", f"taken-{number}")
    await asyncio.sleep(PART)

    yield time.time()
    for proxy in here.proxies:
        proxy.drop_connections()
    await asyncio.sleep(PART)


def _some_writes(call: calls.Call) -> bool:
    return call.writes and not call.lease and random.random() < 0.5  # noqa: S311


@contextlib.asynccontextmanager
async def _changes(here: World) -> AsyncIterator[None]:
    """Have users who create, edit and delete Messages, and Pods that get lost, all the time."""
    changing = asyncio.create_task(_change(here))
    try:
        yield
    finally:
        changing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await changing


async def _change(here: World) -> None:
    names = [f"m{number}" for number in range(MESSAGES)]
    for name in names:
        await here.create("하나", name)
        await asyncio.sleep(PAUSE / 3)
    for number in itertools.count(MESSAGES):
        edited, lost, gone = random.sample(names, 3)
        await here.edit(f"글 {number}", edited)
        await here.cluster.remove(here.child(lost), grace=0)
        await here.delete(gone)
        names[names.index(gone)] = f"m{number}"
        await here.create("새 글", f"m{number}")
        await asyncio.sleep(PAUSE)


def _measured(prometheus: Prometheus, begin: float, end: float) -> list[dict[str, Any]]:
    """Return the dashboard's rows, with what Prometheus answers to each panel."""
    queries = iter(chart_dashboard.queries(interval=f"{STEP * 5}s"))
    return [
        {
            "title": title,
            "panels": [
                {
                    "title": panel.title,
                    "kind": panel.kind,
                    "unit": panel.unit,
                    "width": panel.width,
                    "series": [
                        series
                        for legend, _ in panel.queries
                        for series in _series(prometheus, next(queries), legend, begin, end)
                    ],
                }
                for panel in panels
            ],
        }
        for title, panels in ROWS.items()
    ]


def _series(
    prometheus: Prometheus, query: str, legend: str, begin: float, end: float
) -> list[dict[str, Any]]:
    answer = prometheus.get(
        "query_range", query=query, start=str(begin), end=str(end), step=str(STEP)
    )
    return [
        {
            "legend": _named(legend, found["metric"]),
            "points": [[(when - begin) / 60, float(value)] for when, value in found["values"]],
        }
        for found in answer["result"]
    ]


def _named(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], ""), legend).strip()
