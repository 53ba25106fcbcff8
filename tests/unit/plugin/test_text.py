"""The tables are straight in Korean, too, and colours go to terminals only."""

import io

import pytest

from kubectl_message import text
from kubectl_message.text import Cell, Text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("word", "columns"),
    [
        ("abc", 3),
        ("안녕", 4),
        ("\u1112\u1161\u11ab", 2),  # 한, as macOS writes it: three characters
        ("e\u0301", 1),
        ("🎉", 2),
        ("…", 1),
    ],
)
def test_a_text_takes_the_columns_that_a_terminal_gives_it(word: str, columns: int) -> None:
    assert text.width(word) == columns


def test_a_long_text_is_cut_between_characters() -> None:
    assert text.cut("안녕하세요, 오퍼레이터!", 12) == "안녕하세요,…"
    assert text.width(text.cut("안녕하세요", 6)) <= 6
    assert text.cut("short", 5) == "short"


def test_the_columns_of_a_table_begin_below_each_other() -> None:
    rows = [
        [Cell("hello"), Cell("안녕", "green"), Cell("1")],
        [Cell("가나다라"), Cell("b"), Cell("2")],
    ]

    lines = text.table(["NAME", "텍스트", "N"], rows)

    ends = [text.width(line[: len(line) - 1]) for line in lines]
    assert len(set(ends)) == 1, lines


@pytest.mark.parametrize(
    ("env", "language"),
    [
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_locale_chooses_the_language(env: dict[str, str], language: str) -> None:
    assert text.language(env) == language


def test_a_text_is_said_in_the_language_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Text("Hello, {name}.", "안녕하세요, {name}.").format(name="kim")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)

    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    assert str(said) == "안녕하세요, kim."
    monkeypatch.setenv("LANG", "C")
    assert str(said) == "Hello, kim."


def test_colours_are_for_terminals_unless_no_color_is_set() -> None:
    assert text.colored(Terminal(), {})
    assert not text.colored(io.StringIO(), {})
    assert not text.colored(Terminal(), {"NO_COLOR": "1"})
    assert not text.colored(Terminal(), {"TERM": "dumb"})


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (90000, "1d"), (200000, "2d")],
)  # fmt: skip
def test_ages_are_as_kubectl_writes_them(seconds: float, age: str) -> None:
    assert text.ago(seconds) == age


def test_what_would_steer_the_terminal_is_left_out() -> None:
    assert text.printable("a\x1b[31m\nb") == "a [31m b"
