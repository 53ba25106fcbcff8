"""`kubectl message` on a cluster with the operator in it: what it says when something is broken.

What it says of an API server's refusals is tested in tests/faults/test_plugin.py, of an image that
cannot be pulled and of an operator that is stopped in test_operator.py, and of a namespace that is
not served in chart/test_scenarios.py.
"""

from message_operator import __version__
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until
from tests.support.plugin import Plugin

KOREAN = "ko_KR.UTF-8"


def test_all_is_well(namespace: Namespace, operator: Operator, plugin: Plugin) -> None:
    here = ("-n", namespace.name)
    namespace.create("hello", "안녕하세요, 오퍼레이터!").wait_until_ready()
    leader = wait_until("somebody to lead", operator.leader, bool)

    # The namespaces of other tests may be on their way out, and Messages in them.
    doctor = wait_until(
        "all to be well",
        lambda: plugin("doctor"),
        lambda told: told.out.endswith("All is well.\n"),
    )
    korean = wait_until(
        "all to be well, in Korean",
        lambda: plugin("doctor", LANG=KOREAN),
        lambda told: told.out.endswith("모두 정상입니다.\n"),
    )
    why, log = plugin("why", "hello", *here), plugin("logs", "hello", "--tail=1", *here)

    lines = doctor.out.splitlines()
    assert [line[:15].rstrip() for line in lines[:8]] == [
        f"✓ {title}"
        for title in (
            "Cluster", "Kind", "Operator", "Ready", "Leader", "Rights", "Namespaces", "Messages"
        )
    ], doctor.out  # fmt: skip
    assert lines[1].endswith(f"messages.myorg.dev/v1 ({__version__})")
    assert lines[2].endswith(f"{operator.namespace}/{operator.name} ({__version__})")
    assert lines[4].endswith(f"{leader} leads")
    assert (doctor.code, korean.code) == (0, 0)
    assert (why.code, why.out) == (0, "hello prints: its text, every 10 s, by Pod msg-hello.\n")
    assert (log.code, log.out) == (0, "안녕하세요, 오퍼레이터!\n")
