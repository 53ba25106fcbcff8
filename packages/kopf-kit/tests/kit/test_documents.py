"""What the kit reads and writes as YAML, beside kubectl, which is asked each time."""

import json
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kopf_kit.project import documents
from kopf_kit.rig import reading, tools
from kopf_runtime.working.diff import diff

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
#: Where an integer becomes a float, for one reader or the other.
_EDGES = [
    sign * (2**bits + beyond) for sign in (1, -1) for bits in (53, 63, 64) for beyond in (-1, 0, 1)
]
#: Unquoted texts: those of a list in brackets end at a comma or a bracket.
unquoted = st.one_of(
    st.sampled_from(_WORDS),
    st.from_regex(r"[-+]?[0-9._]{1,6}([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[-+]?0[xXoObB]?[0-9a-fA-F_]{1,6}", fullmatch=True),
    st.from_regex(r"[0-9]{1,4}([-:][0-9]{1,2}){2}([T ][0-9]{1,2}:[0-9]{2}Z?)?", fullmatch=True),
    st.text("yYnNtTrRuUeEfFaAlLsSoO", min_size=1, max_size=5),
    st.sampled_from([f"{n:{form}}" for n in _EDGES for form in ("d", "#x", ".1f")]),
)


_TAGGED = (
    *("!!binary YWJj", "!note 1", "!!str 1", "!!map 5", "!!seq 5", "!!set 5", "a"),
    *map("!!{} {{x: 1}}".format, ("int", "str", "set", "seq", "timestamp", "merge", "binary")),
    *map("!!{} [x: 1]".format, ("float", "null", "omap", "map", "pairs", "timestamp", "bool")),
)


@st.composite
def anchored(draw: st.DrawFn) -> str:
    """Draw objects that have or merge former ones, and values with tags."""
    text = ""
    for number in range(draw(st.integers(3, 6))):
        former = st.sampled_from([f"*a{n}" for n in range(number)] or ["{}"])
        merged = former | st.lists(former, max_size=3).map(lambda some: f"[{', '.join(some)}]")
        field = st.tuples(st.sampled_from("xz"), st.sampled_from(_TAGGED) | former)
        pair = merged.map("<<: {}".format) | field.map(": ".join)
        text += f"  a{number}: &a{number} {{{', '.join(draw(st.lists(pair, max_size=4)))}}}\n"
    return text


def typed(value: Any) -> str:
    """Return a value as JSON, in which 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


def integer(digits: str) -> float:
    """Return a number that kubectl writes; one that no int64 holds is a float for it, too."""
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


def read_by_kubectl(text: str) -> Any:
    command = [str(tools.path("kubectl")), "annotate", "--local", "-f", "-", "a=b", "-o", "json"]
    answer = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    assert not answer.returncode, answer.stderr.decode()
    return json.loads(answer.stdout, parse_int=integer)["spec"]


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(values, min_size=40, max_size=80))
def test_b3_what_is_written_reads_the_same_for_kubectl(spec: list[Any]) -> None:
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "note"}}
    text = documents.text({**note, "spec": spec})

    assert read_by_kubectl(text) == spec
    assert documents.load(text)["spec"] == spec
    assert yaml.safe_load(text)["spec"] == spec  # the tools of Python's users


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(unquoted, min_size=60, max_size=120, unique=True))
def test_b3_b8_b9_what_people_write_is_read_as_kubectl_reads_it(items: list[str]) -> None:
    note = "apiVersion: example.com/v1\nkind: Note\nmetadata: {name: note}\nspec:\n"
    # Of keys that are the same for JSON, Go takes any; what is no text or integer is refused.
    keys = {str(reading.plain(item)).lower(): item for item in items if not _refused(item)}
    text = note + "".join(f"- {item}\n" for item in items) + "- a: 1\n"
    text += "".join(f"  ? {item}\n  : 1\n" for item in keys.values())

    assert typed(documents.load(text)["spec"]) == typed(read_by_kubectl(text))


@settings(max_examples=30, deadline=None, phases=[Phase.generate])
@given(anchored())
def test_b9_anchors_merges_and_tags_are_read_as_kubectl_reads_them(spec: str) -> None:
    text = f"apiVersion: example.com/v1\nkind: Note\nmetadata: {{name: note}}\nspec:\n{spec}"

    assert typed(documents.load(text)["spec"]) == typed(read_by_kubectl(text))


@pytest.mark.parametrize("escaped", ["", "x", r"\\", "\\t", r"\ude00", r"\ud83dx", r"\u00e9"])
def test_b6_b9_json_is_read_as_kubectl_reads_it_whatever_it_escapes(escaped: str) -> None:
    """Of surrogates, only a pair is a character; another one cannot be written again."""
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "note"}}
    written = json.dumps({**note, "spec": {"a": "\U0001f600", "b": 1.0, "c": 2**63}})
    text = written.replace(r"\ud83d", rf"{escaped}\ud83d{escaped}\ud83d")

    assert typed(documents.load(text)["spec"]) == typed(read_by_kubectl(text))
    assert documents.load(f"[{text}]".encode()) == [documents.load(text)]


def _refused(key: str) -> bool:
    try:
        documents.load(f"? {key}\n: 1")
    except yaml.YAMLError:
        return True
    return False


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(unquoted, min_size=60, max_size=120, unique=True))
def test_what_dry_run_prints_of_an_object_reads_the_same_for_kubectl(items: list[str]) -> None:
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "note"}}
    spec = {"items": items, **dict.fromkeys(items, 1)}

    lines = diff(None, {**note, "spec": spec}, "manager").splitlines()[3:]

    assert documents.load("\n".join(line[1:] for line in lines))["spec"] == spec


@pytest.mark.parametrize(
    "text", ["a: .inf", "1.5: a", "~: a", "[a]: b", "a: [", "a: " + "[" * 2000]
)
def test_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        documents.load(text)
