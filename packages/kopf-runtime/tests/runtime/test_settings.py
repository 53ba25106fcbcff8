from dataclasses import dataclass, fields

import pytest

import kopf_runtime as kr
from kopf_runtime.declaring import settings
from kopf_runtime.declaring.settings import Program
from runtime.support import labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Own(kr.Settings):
    """An operator's own settings."""

    greeting: str = kr.flag("hello", "what is said")
    count: int = kr.flag("3", "how often", kr.at_least(1, int), "N")


PROGRAM = Program("widget-operator", "1.2.3", "Makes widgets")


def parse(argv: list[str], env: dict[str, str]) -> Own:
    return settings.parse(PROGRAM, Own, argv, env)


def test_without_flags_all_namespaces_are_watched_with_production_defaults() -> None:
    found = parse([], {})

    assert found.namespaces == ()
    assert found.workers == 16
    assert found.metrics_bind_address == ("", 8080)
    assert found.leader_elect is False
    assert (found.greeting, found.count) == ("hello", 3)


MANY = {"WIDGET_OPERATOR_WORKERS": "3", "WIDGET_OPERATOR_LEADER_ELECT": "true"}
OLM = "WATCH_NAMESPACE"


@pytest.mark.parametrize(
    ("argv", "env", "name", "value"),
    [
        ("--greeting=hi", {"WIDGET_OPERATOR_COUNT": "5"}, "greeting", "hi"),
        ("", {"WIDGET_OPERATOR_COUNT": "5"}, "count", 5),
        ("-n one --namespace=two,three -n one", {}, "namespaces", ("one", "two", "three")),
        ("", {OLM: ""}, "namespaces", ()),
        ("", {OLM: "a,b"}, "namespaces", ("a", "b")),
        ("", {OLM: " a , b "}, "namespaces", ("a", "b")),
        ("-A", {OLM: "a"}, "namespaces", ()),
        ("", MANY, "workers", 3),
        ("", MANY, "leader_elect", True),
        ("--workers=4", MANY, "workers", 4),
        ("--leader-elect=false", MANY, "leader_elect", False),
        ("--leader-elect", {}, "leader_elect", True),
        ("", {}, "lease_name", "widget-operator"),
        ("", {"POD_NAMESPACE": "mine"}, "lease_namespace", "mine"),
        ("--lease-namespace=other", {"POD_NAMESPACE": "mine"}, "lease_namespace", "other"),
        ("", {"POD_NAME": "widget-operator-abc"}, "identity", "widget-operator-abc"),
        ("--metrics-bind-address=:9", {}, "metrics_bind_address", ("", 9)),
        ("--metrics-bind-address=0", {}, "metrics_bind_address", None),
        ("--metrics-bind-address=127.0.0.1:80", {}, "metrics_bind_address", ("127.0.0.1", 80)),
        ("--metrics-bind-address=[::1]:80", {}, "metrics_bind_address", ("::1", 80)),
    ],
)
def test_each_flag_has_a_variable_and_wins_over_it(
    argv: str, env: dict[str, str], name: str, value: object
) -> None:
    assert getattr(parse(argv.split(), env), name) == value


@pytest.mark.parametrize("selector", labels.VALID)
def test_namespaces_may_be_selected_by_their_labels(selector: str) -> None:
    assert parse([f"--namespace-selector={selector}"], {}).namespace_selector == selector
    assert parse(["-A"], {"WIDGET_OPERATOR_NAMESPACE_SELECTOR": selector}).namespaces == ()


@pytest.mark.parametrize("selector", labels.INVALID)
def test_what_is_no_label_selector_is_refused(selector: str) -> None:
    with pytest.raises(SystemExit):
        parse([f"--namespace-selector={selector}"], {})


@pytest.mark.parametrize(
    ("argv", "env", "complaint"),
    [
        (["--workers=0"], {}, "--workers: '0' is not a whole number of at least 1"),
        (["--workers=1001"], {}, "'1001' is not a whole number of at least 1 and at most 1000"),
        (["--workers=４"], {}, "--workers: '４' is not a whole number"),
        (["--workers=1_0"], {}, "--workers: '1_0' is not a whole number"),
        (["--request-timeout=1e300"], {}, "of at least 1 and at most 3600"),
        (["--lease-duration=1e300"], {}, "of at least 1 and at most 3600"),
        (["--lease-name=My Lease"], {}, "--lease-name: 'My Lease' is not a valid name"),
        (["--lease-namespace=a.b"], {}, "--lease-namespace: 'a.b' is not a valid namespace"),
        (["-n", ""], {}, "'' names no namespace; name one, or use --all-namespaces"),
        (["--namespace=,"], {}, "',' names no namespace; name one, or use --all-namespaces"),
        (["--workers=many"], {}, "--workers: 'many' is not a whole number"),
        (["--count=0"], {}, "--count: '0' is not a whole number of at least 1"),
        (["--resync-period=nan"], {}, "--resync-period: 'nan' is not a number"),
        (["--resync-period=inf"], {}, "--resync-period: 'inf' is not a number"),
        (["--namespace=Not_One"], {}, "'Not_One' is not a valid namespace"),
        (["-A", "-n", "one"], {}, "not allowed with"),
        (["--metrics-bind-address=8080"], {}, "'8080' is not a valid [HOST]:PORT"),
        (["--metrics-bind-address=:99999"], {}, "':99999' is not a valid [HOST]:PORT"),
        (["--log-level=loud"], {}, "'loud' is not one of debug, info, warning, error"),
        (["--lease-duration=5"], {}, "must be in this order"),
        (["--nonsense"], {}, "--nonsense"),
        (["--log=info"], {}, "--log"),  # no abbreviations: a later flag would break them
        ([], {"WIDGET_OPERATOR_WORKERS": "-1"}, "WIDGET_OPERATOR_WORKERS: '-1' is not a whole"),
        ([], {"WIDGET_OPERATOR_LEADER_ELECT": "1"}, "is not true or false"),
        (["--namespace-selector=a=b c"], {}, "'a=b c' is not a valid label selector"),
        (["-n", "one", "--namespace-selector=a"], {}, "are both set; leave one out"),
        (["--namespace-selector=a"], {"WATCH_NAMESPACE": "a"}, "are both set; leave one out"),
        ([], {"WATCH_NAMESPACE": "A"}, "WATCH_NAMESPACE: 'A' is not a valid namespace"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    argv: list[str], env: dict[str, str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(argv, env)

    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_variable_that_no_flag_has_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    env = {
        "WIDGET_OPERATOR_WORKER": "4",
        "WIDGET_OPERATOR_WORKERS": "4",
        "WIDGET_OPERATOR_SERVICE_HOST": "10.0.0.1",  # Kubernetes sets these for a Service
        "WIDGET_OPERATOR_METRICS_SERVICE_PORT_HTTP": "8080",
        "WIDGET_OPERATOR_PORT_8080_TCP_ADDR": "10.0.0.1",
        "OTHER": "x",
    }

    settings.warn_of_unknown(PROGRAM, Own, env)

    (line,) = caplog.messages
    assert "The environment variable WIDGET_OPERATOR_WORKER sets nothing" in line


def test_the_help_explains_each_flag_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})

    text = " ".join(capsys.readouterr().out.split())
    for field in fields(Own):
        if field.name not in {"namespaces", "own_namespace", "identity", "pod_uid"}:
            assert f"--{field.name.replace('_', '-')}" in text
    assert "(default: 16)" in text
    assert "empty: all (default: empty)" in text
