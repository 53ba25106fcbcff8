"""What the kit reads and writes as YAML, beside kubectl, which is asked each time."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kit.drawn_texts import Texts
from kopf_kit.project import documents
from kopf_kit.rig import tools
from kopf_kit.rig.reading import UnreadableError
from kopf_runtime.working.diff import diff

#: What kubectl reads, and the kit refuses with what to write instead.
REFUSED = re.compile("quote it|write it without")
SEED = os.environ.get("SEED") or "67"  # each night draws others
NOTE = "apiVersion: example.com/v1\nkind: Note\nmetadata: {{name: '{}'}}\n"
#: What may make a number, a boolean, a date or an indicator of an unquoted text.
_CONFUSING = "+-.0123456789_eExXoObBfaTtZ:ynYN~=<>!%#&*?|'\" \n\t,[]{}가😀\x85\u2028\ufeff"
_NUMBERS = ("08", "0777", "0o17", "1_000", "1:30", "22:30:15", "1e999", "0b11", "-0x1F")
_WORDS = ("yes", "No", "on", "OFF", "null", "~", "=", "<<", "true", "2026-11-29", *_NUMBERS)
texts = st.one_of(
    st.sampled_from((*_WORDS, "", ".inf", "-.INF", ".nan")),
    st.text(_CONFUSING, max_size=12),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
)
scalars = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(-(2.0**53), 2.0**53),  # of larger ones, Go rounds the last digits
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def typed(value: Any) -> str:
    """Return a value as JSON, in which 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


def integer(digits: str) -> float:
    """Return a number that kubectl writes; one that no int64 holds is a float for it, too."""
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


def read_by_kubectl(*written: str) -> list[list[Any] | None]:
    """Return what kubectl reads in each text, or None for what it takes for no YAML."""
    with tempfile.TemporaryDirectory() as name:
        for number, text in enumerate(written):
            Path(name, f"{number}.yaml").write_bytes(text.encode())
        command = [str(tools.path("kubectl")), "annotate", "--local", "a=b", "-ojson", "-f", name]
        answer = subprocess.run(command, capture_output=True, check=False, text=True)
    objects: dict[int, list[Any] | None] = {number: [] for number, _ in enumerate(written)}
    decoder, at = json.JSONDecoder(parse_int=integer), 0
    while at < len(answer.stdout):
        value, at = decoder.raw_decode(answer.stdout, at)
        at += 1  # the end of the line
        read = objects[int(value["metadata"]["name"])]
        assert read is not None
        read.append(value["spec"])
    for refused in re.finditer(
        r"(?:error parsing|unable to decode) \S*?(\d+)\.yaml", answer.stderr
    ):
        objects[int(refused[1])] = None
    return [*objects.values()]


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(values, min_size=40, max_size=80))
def test_b3_what_is_written_reads_the_same_for_kubectl(spec: list[Any]) -> None:
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "0"}}
    text = documents.text({**note, "spec": spec})

    assert read_by_kubectl(text) == [[spec]]
    assert documents.load(text)["spec"] == spec
    assert yaml.safe_load(text)["spec"] == spec  # the tools of Python's users


def disagreements(seed: str, count: int) -> Iterator[str]:
    """Draw texts; yield each that reads otherwise here than for kubectl, with the answers."""
    drawn = []
    for number in range(count):
        one = Texts(f"{seed}-{number}")
        heads = [NOTE.format(number)] * one.rng.choice((1, 1, 2))
        drawn.append(one.stream(*heads))
    answers = read_by_kubectl(*drawn)
    assert count / 4 < answers.count(None) < count / 2, "most can be read, some cannot"
    for number, (text, answer) in enumerate(zip(drawn, answers, strict=True)):
        ours = None
        try:
            ours = [each["spec"] for each in documents.load_all(text)]
        except UnreadableError as error:
            if REFUSED.search(str(error)) or r"\'" in text:
                continue
        # Of keys that are the same for JSON, such as 1 and "1", Go takes any.
        again = (
            read_by_kubectl(text.replace(f"name: '{number}'", "name: '0'"))[0] for _ in range(9)
        )
        if typed(ours) != typed(answer) and typed(ours) not in map(typed, again):
            yield f"{seed}-{number}: {text!r}: {ours}, and kubectl: {answer}"


def test_b3_b8_b9_any_text_is_read_as_kubectl_reads_it() -> None:
    print(f"SEED={SEED}")

    assert not [*disagreements(SEED, 1500)]


@pytest.mark.long
def test_b3_b8_b9_any_of_many_texts_is_read_as_kubectl_reads_it() -> None:
    print(f"SEED={SEED}")

    assert not [one for part in range(40) for one in disagreements(f"{SEED}-{part}", 2500)]


@pytest.mark.parametrize("escaped", ["", "x", r"\\", "\\t", r"\ude00", r"\ud83dx", r"\u00e9"])
def test_b6_b9_json_is_read_as_kubectl_reads_it_whatever_it_escapes(escaped: str) -> None:
    """Of surrogates, only a pair is a character; another one cannot be written again."""
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "0"}}
    written = json.dumps({**note, "spec": {"a": "\U0001f600", "b": 1.0, "c": 2**63}})
    text = written.replace(r"\ud83d", rf"{escaped}\ud83d{escaped}\ud83d")

    assert [[documents.load(text)["spec"]]] == read_by_kubectl(text)
    assert documents.load(f"[{text}]".encode()) == [documents.load(text)]


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": "\\/", HEAD}\n...\n', '{"a": "\\/", HEAD}\n---\n# c\n', "\n{HEAD} # c\n"),
        *('---\n{"a": "\\/", HEAD}\n', "---\n{HEAD}\n", "{HEAD}\n...\nspec: [\n", "{a: 1, HEAD}"),
        *("{HEAD, a: [b?c]}", "{HEAD, a?: b}", "{HEAD, a: '?', b: \"?\"}", "{HEAD}\n---\n{HEAD}"),
    ],
)
def test_b6_json_and_what_looks_like_it_is_read_as_kubectl_reads_it(text: str) -> None:
    head = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "0"}, "spec": 1}
    text = text.replace("HEAD", json.dumps(head)[1:-1])
    ours = None
    with contextlib.suppress(UnreadableError):
        ours = [each["spec"] for each in documents.load_all(text)]

    assert [ours] == read_by_kubectl(text)


def test_a_mistake_is_told_with_its_line() -> None:
    with pytest.raises(UnreadableError, match="line 5, column 4"):
        documents.load_all("a: 1\n---\n\n---\na: *b\n")
    with pytest.raises(UnreadableError) as error:
        documents.load('{"a": ' + "7" * 4000 + "}")
    assert len(str(error.value)) < 150


@pytest.mark.parametrize("before", ["# c\n", "\n", "---\n", "a: 1\n---\n# c\n", "a: 1\n"])
def test_a_byte_order_mark_within_a_text_is_refused(before: str) -> None:
    """For kubectl, it is a letter of the first key; libyaml leaves out what follows that field."""
    with pytest.raises(UnreadableError, match=f"mark.*line {before.count(chr(10)) + 1}, column 1"):
        documents.load_all(f"{before}\ufeffkind: Role\nspec: 1\n")


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(texts, min_size=60, max_size=120, unique=True))
def test_what_dry_run_prints_of_an_object_reads_the_same_for_kubectl(items: list[str]) -> None:
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "0"}}
    spec = {"items": items, **dict.fromkeys(items, 1)}

    lines = diff(None, {**note, "spec": spec}, "manager").splitlines()[3:]

    assert documents.load("\n".join(line[1:] for line in lines))["spec"] == spec


@pytest.mark.parametrize(
    "text",
    [
        *("a: .inf", "~: a", "[a]: b", "a: [", "a: " + "[" * 2000, "\x00", '{"a": 1e999}'),
        *("a: !!int 1", "1.5: a", '"\\\'": a', "{}\n{}", "a: !!binary YQ=="),
    ],
)
def test_what_json_cannot_say_or_nobody_writes_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        documents.load(text)
