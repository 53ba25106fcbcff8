import pytest

from message_operator import settings
from message_operator.settings import parse


def test_without_flags_all_namespaces_are_watched_with_production_defaults() -> None:
    found = parse([], {})

    assert found.namespaces == ()
    assert found.workers == 16
    assert found.message_image == "docker.io/library/busybox:1.37"
    assert found.metrics_bind_address == ("", 8080)
    assert found.leader_elect is False


def test_namespaces_may_be_repeated_or_listed() -> None:
    found = parse(["-n", "one", "--namespace=two,three", "-n", "one"], {})

    assert found.namespaces == ("one", "two", "three")


@pytest.mark.parametrize(
    ("listed", "watched"), [("", ()), ("a,b", ("a", "b")), (" a , b ", ("a", "b"))]
)
def test_olm_lists_the_namespaces_in_a_variable(listed: str, watched: tuple[str, ...]) -> None:
    assert parse([], {"WATCH_NAMESPACE": listed}).namespaces == watched


def test_a_flag_for_all_namespaces_wins_over_the_variable() -> None:
    assert parse(["-A"], {"WATCH_NAMESPACE": "a"}).namespaces == ()


def test_each_flag_has_a_variable_and_wins_over_it() -> None:
    env = {"MESSAGE_OPERATOR_WORKERS": "3", "MESSAGE_OPERATOR_LEADER_ELECT": "true"}

    assert parse([], env).workers == 3
    assert parse([], env).leader_elect is True
    assert parse(["--workers=4", "--leader-elect=false"], env).workers == 4
    assert parse(["--leader-elect=false"], env).leader_elect is False


@pytest.mark.parametrize(
    ("text", "address"),
    [(":9", ("", 9)), ("0", None), ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:80", ("::1", 80))],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse([f"--metrics-bind-address={text}"], {}).metrics_bind_address == address


@pytest.mark.parametrize(
    ("argv", "env", "complaint"),
    [
        (["--workers=0"], {}, "--workers: '0' is no whole number of at least 1"),
        (["--workers=many"], {}, "--workers: 'many' is no whole number"),
        (["--sweep-period=nan"], {}, "--sweep-period: 'nan' is no number"),
        (["--sweep-period=inf"], {}, "--sweep-period: 'inf' is no number"),
        (["--namespace=Not_One"], {}, "'Not_One' is no namespace"),
        (["-A", "-n", "one"], {}, "not allowed with"),
        (["--metrics-bind-address=8080"], {}, "'8080' is no [HOST]:PORT"),
        (["--metrics-bind-address=:99999"], {}, "':99999' is no [HOST]:PORT"),
        (["--message-pull-policy=Often"], {}, "'Often' is none of Always, IfNotPresent, Never"),
        (["--message-pull-secrets=a,B"], {}, "'B' is no Secret's name"),
        (["--message-user=root"], {}, "--message-user: 'root' is no whole number"),
        (["--log-level=loud"], {}, "'loud' is none of debug, info, warning, error"),
        (["--lease-duration=5"], {}, "must grow"),
        (["--nonsense"], {}, "--nonsense"),
        (["--log=info"], {}, "--log"),  # no abbreviations: a later flag would break them
        ([], {"MESSAGE_OPERATOR_WORKERS": "-1"}, "MESSAGE_OPERATOR_WORKERS: '-1' is no whole"),
        ([], {"MESSAGE_OPERATOR_LEADER_ELECT": "1"}, "neither true nor false"),
        ([], {"WATCH_NAMESPACE": "A"}, "WATCH_NAMESPACE: 'A' is no namespace"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    argv: list[str], env: dict[str, str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(argv, env)

    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_help_explains_each_flag_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})

    text = " ".join(capsys.readouterr().out.split())
    for name in settings.Settings.__dataclass_fields__:
        if name not in {"namespaces", "identity"}:
            assert f"--{name.replace('_', '-')}" in text
    assert "(default: 16)" in text


def test_the_lease_lives_in_the_operators_own_namespace() -> None:
    assert parse([], {"POD_NAMESPACE": "mine"}).lease_namespace == "mine"
    assert parse(["--lease-namespace=other"], {"POD_NAMESPACE": "mine"}).lease_namespace == "other"


def test_a_replica_is_named_after_its_pod() -> None:
    assert parse([], {"POD_NAME": "message-operator-abc"}).identity == "message-operator-abc"
