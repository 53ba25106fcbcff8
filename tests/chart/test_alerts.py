"""The Message's own alerts and panel, beside those of the kit's chart: promtool tells."""

from pathlib import Path

import pytest

from chart.monitored import RELEASES, Release, expect, firing, series
from kopf_kit.chart import dashboard as chart_dashboard
from kopf_kit.project.definition import PROJECT


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_an_alert_fires_while_messages_are_in_a_phase_and_ends_after_it(
    tmp_path: Path, phase: str
) -> None:
    one = Release()
    count = f'message_operator_messages{{phase="{phase}"}}'
    # Two hours of trouble, then two well.
    test = {
        "input_series": [series(one, count, "1x120 0x120")],
        "promql_expr_test": [
            firing(f"MessageOperatorMessages{phase}", 115, one),
            firing(f"MessageOperatorMessages{phase}", 235),
        ],
    }

    expect(tmp_path, [test], one)


def test_messages_of_all_releases_are_added_up_and_replicas_count_them_once(tmp_path: Path) -> None:
    (query,) = (panel.query for panel in PROJECT.panels if panel.title == "Messages by phase")
    count = 'message_operator_messages{phase="Failed"}'
    one, two, _ = (series(release, count, "3x5") for release in RELEASES)
    standby = {**one, "series": one["series"].replace("x2x4z", "aaaaa")}
    test = {
        "input_series": [one, standby, two],
        "promql_expr_test": [
            {
                "expr": chart_dashboard.complete(query, selector=""),
                "eval_time": "5m",
                "exp_samples": [{"labels": '{phase="Failed"}', "value": 6}],
            }
        ],
    }

    expect(tmp_path, [test], Release())
