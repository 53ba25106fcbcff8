"""When the alerts fire and end, and for which release: promtool tells."""

import itertools
import re
from pathlib import Path

import pytest

from chart.monitored import (
    ALERTS,
    RELEASES,
    Release,
    expect,
    firing,
    promtool,
    rule_file,
    rules,
    series,
)


def test_promtool_finds_nothing_in_the_rules(tmp_path: Path) -> None:
    promtool("check", "rules", rule_file(tmp_path))


#: For each alert the series that drive it, a sample a minute: two hours of trouble, then two well.
WELL = {
    "up": "1x240",  # of whatever else is scraped of the Pod
    "widget_operator_build_info": "1x240",
    "widget_operator_leader": "1x240",
    'controller_runtime_reconcile_total{result="success"}': "0+60x240",
    "workqueue_depth": "0x240",
    'rest_client_requests_total{code="200"}': "0+60x240",
    "process_start_time_seconds": "1000x240",
    "widget_operator_last_resync_timestamp_seconds": "0+60x240",
    'widget_operator_unserved{resource="pods",watched_namespace="team"}': "0x240",
    'widget_operator_unreadable_objects{resource="pods"}': "0x240",
}
TROUBLE: dict[str, dict[str, str]] = {
    "WidgetOperatorDown": {"widget_operator_build_info": "_x120 1x120"},
    "WidgetOperatorRestarting": {"process_start_time_seconds": "0+60x120 7200x120"},
    "WidgetOperatorNoLeader": {"widget_operator_leader": "0x120 1x120"},
    "WidgetOperatorReconcileErrors": {
        'controller_runtime_reconcile_total{result="error"}': "0+1x120 120x120"
    },
    "WidgetOperatorQueueStuck": {
        "workqueue_depth": "5x120 0x120",
        'controller_runtime_reconcile_total{result="success"}': "7x120 7+60x120",
    },
    "WidgetOperatorApiErrors": {'rest_client_requests_total{code="503"}': "0+60x120 7200x120"},
    "WidgetOperatorForbidden": {'rest_client_requests_total{code="403"}': "0+1x120 120x120"},
    "WidgetOperatorWatchMisses": {
        'widget_operator_resync_repairs_total{resource="pods"}': "0+1x120 120x120"
    },
    "WidgetOperatorResyncsFail": {
        "widget_operator_last_resync_timestamp_seconds": "60x120 7260+60x119"
    },
    "WidgetOperatorUnserved": {
        'widget_operator_unserved{resource="pods",watched_namespace="team"}': "1x120 0x120"
    },
    "WidgetOperatorUnreadableObjects": {
        'widget_operator_unreadable_objects{resource="pods"}': "2x120 0x120"
    },
}


def test_every_alert_fires_in_trouble_and_ends_after_it(tmp_path: Path) -> None:
    assert TROUBLE.keys() == ALERTS.keys()
    one = Release()
    tests = [
        {
            "name": alert,
            "input_series": [series(one, *item) for item in {**WELL, **trouble}.items()],
            # Only that alert, and no other; at the end none.
            "promql_expr_test": [
                *(firing(name, 115, *([one] if name == alert else [])) for name in ALERTS),
                *(firing(name, 235) for name in ALERTS),
            ],
        }
        for alert, trouble in TROUBLE.items()
    ]

    expect(tmp_path, tests, one)


def test_an_alert_fires_for_the_release_in_trouble_and_for_no_other(tmp_path: Path) -> None:
    one, *others = RELEASES  # of which one has its name, and one its namespace
    tests = [
        {
            "name": f"{alert}: {troubled}",
            "input_series": [
                series(release, *item)
                for release in RELEASES
                for item in {**WELL, **(trouble if release in troubled else {})}.items()
            ],
            "promql_expr_test": [firing(alert, 115, *troubled), firing(alert, 235)],
        }
        for (alert, trouble), troubled in itertools.product(TROUBLE.items(), ([one], others))
    ]

    expect(tmp_path, tests, *RELEASES)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ('watched_namespace="team",', "pods in the namespace team cannot be listed"),
        ("", "pods cannot be listed"),  # the operator serves all namespaces
    ],
)
def test_what_is_not_served_is_told_in_words(tmp_path: Path, labels: str, text: str) -> None:
    (rule,) = (rule for rule in rules() if rule["alert"] == "WidgetOperatorUnserved")
    description = rule["annotations"]["description"]
    shown = re.sub(
        r"{{ \$labels.resource }}{{ with .*?{{ end }}", text.partition(" cannot")[0], description
    )
    annotations = {**rule["annotations"], "description": shown}
    exposed = f'widget_operator_unserved{{{labels}resource="pods"}}'
    alert = {
        "exp_labels": {
            **rule["labels"],
            "resource": "pods",
            **({"watched_namespace": "team"} if labels else {}),
        },
        "exp_annotations": annotations,
    }
    test = {
        "input_series": [series(Release(), exposed, "1x60")],
        "alert_rule_test": [
            {"alertname": "WidgetOperatorUnserved", "eval_time": "30m", "exp_alerts": [alert]}
        ],
    }

    expect(tmp_path, [test], Release())


def test_what_was_never_served_is_no_resync_that_failed(tmp_path: Path) -> None:
    unserved = {"widget_operator_last_resync_timestamp_seconds": "0x240"}
    test = {
        "input_series": [series(Release(), *item) for item in {**WELL, **unserved}.items()],
        "promql_expr_test": [firing("WidgetOperatorResyncsFail", minute) for minute in (30, 235)],
    }

    expect(tmp_path, [test], Release())
