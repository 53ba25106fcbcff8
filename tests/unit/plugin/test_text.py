"""Sentences and tables are right in Korean, too, and colours go to terminals only."""

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.kubectl import text
from kopf_kit.kubectl.text import Cell, Text
from kubectl_message import why

#: Particles whose form depends on how the word before them ends, right behind a value.
PARTICLE = re.compile(
    r"\}[`'\")]*\(?(이|가|은|는|을|를|과|와|으?로|이?라는|이?라고|이?나|이?며|이?고)(?![가-힣])"
)


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
)
def test_ages_are_as_kubectl_writes_them(seconds: float, age: str) -> None:
    assert text.ago(seconds) == age


def test_what_would_steer_the_terminal_is_left_out() -> None:
    assert text.printable("a\x1b[31m\nb") == "a [31m b"


def strings(folder: Path) -> Iterator[str]:
    """Yield all strings of the modules in a folder, with {} for each value of an f-string."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize(
    ("sentence", "depends"),
    [
        ("파드 {pod}가 출력합니다", True),
        ("Message {name}이(가) 없습니다", True),
        ("{pod}(이)라는 이름", True),
        ("`kubectl message why {name}`로 확인하십시오", True),
        ("파드 {pod}에서 출력합니다", False),
        ("이름이 {name}인 Message", False),
        ("{it} 네임스페이스를 처리합니다", False),
    ],
)
def test_a_particle_that_depends_on_a_name_is_known(sentence: str, depends: bool) -> None:
    assert bool(PARTICLE.search(sentence)) == depends


def test_no_sentence_has_a_particle_that_depends_on_a_name() -> None:
    found = [*strings(Path(text.__file__).parent), *strings(Path(why.__file__).parent)]

    assert "파드 {pod}에서 {s}초마다 출력합니다" in found
    assert [sentence for sentence in found if PARTICLE.search(sentence)] == []
