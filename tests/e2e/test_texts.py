"""Whatever the text or the name, the Pod prints the same bytes, and nothing in them is run."""

import secrets

import pytest

from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing.installed import namespace as made_namespace
from tests.e2e.messages import PART_OF, RESTRICTED, Namespace
from tests.e2e.release import Operator

LARGEST = 32768  # bytes, the CRD's bound


def every_character(first: int, last: int) -> str:
    """Return all characters in a range of code points, but for NUL and surrogates."""
    surrogates = range(0xD800, 0xE000)
    return "".join(chr(c) for c in range(max(1, first), last + 1) if c not in surrogates)


def every_byte() -> str:
    """Return a text whose UTF-8 has every byte value that valid UTF-8 can have, NUL aside."""
    leads = [0x80, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFD]
    two = [lead << 6 for lead in range(0x02, 0x20)]
    three = [lead << 12 | 0x800 for lead in range(0x0D)] + [0xD000, 0xE000, 0xF000]
    four = [lead << 18 | 0x10000 for lead in range(0x04)] + [0x100000]
    rest = "".join(chr(code) for code in sorted({*leads, *two, *three, *four}))
    return every_character(0x01, 0xFF) + rest


#: Texts that are as hard in the middle of another one.
ANYWHERE = {
    "korean": "하늘 천, 땅 지, 검을 현, 누를 황 — 옛한글 ᄒᆞᆫ글, 자모로 나뉜 한글",
    "right to left": "שלום עולם \u202eمرحبا\u202c \u200f‏",
    "joined emoji": "👩‍🚀 👨‍👩‍👧‍👦 🏳️‍🌈 🇰🇷 ❤️ 👍🏽",
    "combining marks": "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘ e\u0301 é",
    "ansi escapes": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x1bc \x9b31m \x08\x7f",
    "kubelet variables": "$(HOME) $$(HOME) $$$(HOME) $(MESSAGE_TEXT) $(MESSAGE_INTERVAL) $$ $ $$$",
    "shell variables": "${HOME} $HOME $0 $@ $? ${#} $((1+1)) \"$HOME\" '$HOME' ~ ~root",
    "command substitution": "`id` $(id) \\`id\\` <(id)",
    "shell commands": "'; rm -rf / # \"; reboot & | > /dev/null && exit 1 || true",
    "printf directives": "%s %d %n %c %% %*d %b %q 100%",
    "backslashes": "\\n \\t \\\\ \\0 \\c \\x41 \\u0041 \\033[31m \\",
    "patterns": "* ? [a-z] {a,b} !! !$ ^a^b",
    "carriage returns": "one\rtwo\r three\r\r.",
    "separators": "a\u0085b\u2028c\u2029d\u000be\u000cf\u001cg",
    "not quite characters": "\ufffd \ufffe \uffff \U0001fffe \U0010ffff \ue000",
    "every byte": every_byte(),
    "control characters": every_character(0x01, 0x1F) + "\x7f" + every_character(0x80, 0x9F),
}
#: Texts whose ends or length are what is hard.
WHOLE = {
    "all of these": "\n".join(ANYWHERE.values()),
    "empty": "",
    "a space": " ",
    "leading option": "-n",
    "leading double dash": "--",
    "leading options": "-e -E -n\n-v x -- -",
    "line ends": "\n\nfirst\n\n  second\t\n",
    "trailing blanks": "text  \t ",
    "byte order mark": "\ufefftext\ufeff",
    "yaml and json": '---\nnull\n~\ntrue\n1e3\n{"a": [1]}\n# no comment\n&a *a !!str |-',
    "one long line": "x" * LARGEST,
    "as many dollars as may be": "$" * LARGEST,
    "as much korean as may be": "가" * (LARGEST // 3),
    "as many emoji as may be": "🚀" * (LARGEST // 4),
    "as many lines as may be": "\n" * LARGEST,
}


def test_every_text_is_printed_byte_for_byte(namespace: Namespace) -> None:
    possible = {byte for byte in range(1, 256) if byte not in {0xC0, 0xC1, *range(0xF5, 0x100)}}
    assert set(every_byte().encode()) == possible
    expect_printed(namespace, WHOLE)


@pytest.mark.long
def test_every_text_is_printed_alone(namespace: Namespace) -> None:
    expect_printed(namespace, ANYWHERE)


def expect_printed(namespace: Namespace, texts: dict[str, str]) -> None:
    for number, text in enumerate(texts.values()):  # each is printed once, for a day
        namespace.create(f"text-{number}", text, interval=86400)

    wrong = []
    for number, (title, text) in enumerate(texts.items()):
        message = namespace.message(f"text-{number}")
        message.wait_until_ready()
        log = message.wait_for_log(text.encode() + b"\n")
        if log != text.encode() + b"\n" or (message.get() or {})["spec"]["text"] != text:
            wrong.append((title, log[:200]))
    assert not wrong


def test_line_ends_of_windows_reach_the_pod_and_a_hostile_text_no_event(
    namespace: Namespace,
) -> None:
    text = "one\r\ntwo\r\n"
    message = namespace.create("windows", text, interval=86400)

    former = message.wait_until_ready()

    shell = ("exec", "msg-windows", "--", "/bin/sh", "-c", 'printf %s "$MESSAGE_TEXT"')
    assert namespace.output(*shell) == text.encode()
    # What the Pod prints goes through the node's container runtime, and containerd drops a
    # carriage return right before a line feed when it splits a log into lines.
    log = message.wait_for_log(b"one")
    assert log.replace(b"\r\n", b"\n") == b"one\ntwo\n\n"

    message.edit(text="\x1b[2Jnew\r\n")

    message.wait_until_ready(instead_of=former)
    assert message.wait_for_event("Replaced")["message"].isprintable()


#: The CRD's bound, so that <namespace>_msg-<name>_<uid>, a directory, has at most 255 bytes.
LONGEST = 150


NAMES = (
    "a",
    "0",
    "hello.example.com",
    "msg-msg-hello",  # the prefix itself
    # The host name is the Pod's, cut to 63 characters: it must not end with a dot or a dash.
    "a" * 58 + ".b.c",
    "a" * 57 + "--b",
    "l" * 64,  # longer than a label
    "x" * 52 + ".0." + "y" * 60,
    # These begin alike.
    "s" * 120 + "-1",
    "s" * 120 + "-2",
)


def test_a_message_may_have_any_name_and_those_that_begin_alike_do_not_mix(
    namespace: Namespace,
) -> None:
    messages = [namespace.create(name, f"{number}") for number, name in enumerate(NAMES)]

    pods = [message.wait_until_ready() for message in messages]

    assert [pod["metadata"]["name"] for pod in pods] == [f"msg-{name}" for name in NAMES]
    instances = {pod["metadata"]["labels"]["app.kubernetes.io/instance"] for pod in pods}
    assert len(instances) == len(NAMES)
    for number, message in enumerate(messages):
        message.wait_for_log(f"{number}\n".encode())


def test_the_longest_name_runs_in_a_namespace_with_the_longest_name(
    e2e_cluster: Cluster, operator: Operator
) -> None:
    name = f"{secrets.token_hex(3)}-".ljust(63, "n")
    with made_namespace(e2e_cluster, name, PART_OF, RESTRICTED, wait=False) as kubectl:
        message = Namespace(kubectl).create("m" * LONGEST, "hello")

        message.wait_until_ready()

        message.wait_for_log(b"hello\n")
        assert message.wait_for_event("Created")["involvedObject"]["name"] == message.name
