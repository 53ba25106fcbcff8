"""The Grafana dashboard: one for each release, and each can show them all."""

import json
import re

from chart.helm import FULLNAME, Manifest, find, render
from chart.monitored import RELEASES
from kopf_kit.chart import dashboard as chart_dashboard


def dashboards(**metrics: Manifest) -> list[tuple[str, Manifest]]:
    """Return the dashboard of each release, with the name of its file."""
    found = []
    for release in RELEASES:
        manifests = release.render(dashboard={"enabled": True}, **metrics)
        (config_map,) = (m for m in manifests if m["kind"] == "ConfigMap")
        ((file, content),) = config_map["data"].items()
        found.append((file, json.loads(content)))
    return found


def test_the_dashboard_is_a_config_map_that_grafana_finds() -> None:
    manifests = render({"metrics": {"dashboard": {"enabled": True}}})
    config_map = find(manifests, "ConfigMap", f"{FULLNAME}-dashboard")

    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (content,) = config_map["data"].values()
    written, generated = json.loads(content), json.loads(chart_dashboard.dashboard())
    assert written["panels"] == generated["panels"]
    assert written.keys() == generated.keys()


def test_every_release_has_a_dashboard_of_its_own() -> None:
    """Grafana keeps them apart by uid and, in a folder, by title; its sidecar by file."""
    found = dashboards()

    for own in (
        [file for file, _ in found],
        *([d[key] for _, d in found] for key in ("uid", "title")),
    ):
        assert len(set(own)) == len(RELEASES)
    for file, dashboard in found:
        assert re.fullmatch("[a-zA-Z0-9-]{1,40}", dashboard["uid"])
        assert file.endswith(".json")


def test_a_dashboard_opens_with_its_release_and_can_show_all() -> None:
    for release, (_, dashboard) in zip(
        RELEASES, dashboards(monitor={"enabled": True}), strict=True
    ):
        variables = {v["name"]: v for v in dashboard["templating"]["list"]}

        assert [*variables] == ["datasource", "cluster", "namespace", "operator", "pod"]
        assert variables["namespace"]["current"]["value"] == [release.namespace]
        assert variables["operator"]["current"]["value"] == [release.operator]
        assert variables["cluster"]["current"]["value"] == ["$__all"]
        for name in ("cluster", "namespace", "operator", "pod"):
            assert variables[name]["includeAll"]


def test_without_a_monitor_of_the_chart_the_dashboard_does_not_ask_for_its_label() -> None:
    _, dashboard = dashboards()[0]

    (operator,) = (v for v in dashboard["templating"]["list"] if v["name"] == "operator")
    assert operator["current"]["value"] == ["$__all"]


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(chart_dashboard.dashboard())["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= chart_dashboard.WIDTH
        taken |= cells
