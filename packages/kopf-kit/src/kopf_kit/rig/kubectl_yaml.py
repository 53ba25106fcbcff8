"""Reads YAML as kubectl does: as sigs.k8s.io/yaml, a Go library for version 1.1, with JSON's types.

libyaml parses it, and what Go makes of its events is here: it has no number of base 60, but it has
octal ones; dates are texts; of two fields with one name, and of two anchors, the later one counts.
What kubectl takes and nobody writes is refused in a sentence: a type as a tag, a fraction as a key,
an escaped apostrophe, more than one object of JSON.
"""

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import yaml

#: Depth of lists and objects.
_DEEPEST = 200
_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep; write it with less nesting"
#: Values that aliases may stand for.
_ALIASED = 100_000

_TAG = "tag:yaml.org,2002:"
_WORDS = {
    **{
        form: value
        for value, words in (
            (True, ("y", "yes", "true", "on")),
            (False, ("n", "no", "false", "off")),
        )
        for word in words
        for form in (word, word.capitalize(), word.upper())
    },
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
#: The tags of types of values.
_TYPES = {f"{_TAG}{name}" for name in ("binary", "bool", "float", "int", "null", "timestamp")}
#: The tag of a text whatever it looks like, of which libyaml says nothing.
_UNTYPED = re.compile(r"(&\S+\s+)?!(\s|$)")
#: An escape that libyaml reads and Go does not.
_SLASH = re.compile(r"(?<!\\)(\\\\)*\\/")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Where no underscore may be; in a number that begins with a digit, it may be anywhere.
_STRAY = re.compile(r"_(?![0-9])|(?<![0-9])_")
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
#: In JSON: of surrogates, only a pair is a character; Go reads U+FFFD in place of another one.
_ESCAPE = re.compile(
    r"(\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\[^u]|\\u(?![dD][89a-fA-F]))|\\u\w{4}"
)
_OCTAL = re.compile(r"^([-+]?)0(?=[0-7])")


def values(text: str) -> Iterator[Any]:
    """Yield the documents of a text as kubectl does: what begins as JSON may go on as YAML."""
    text = text.removeprefix(_MARK)
    begin = len(text) - len(text.lstrip(_SPACE))
    if text.startswith(_OPENING, begin):
        paired = _ESCAPE.sub(lambda found: found[1] or r"\ufffd", text)
        try:
            value, end = _JSON.raw_decode(paired, begin)
        except ValueError:
            pass  # it is YAML
        else:
            _limit(value, _DEEPEST)
            yield value
            text = "\n" * text.count("\n", 0, end) + text[end:]
            if text.lstrip(_SPACE).startswith(_OPENING):
                raise _error("after an object of JSON comes another one", None)
    for before, chunk in _chunks(text):
        try:
            value = _document(chunk)
        except yaml.MarkedYAMLError as error:
            error.context_mark = _moved(error.context_mark, before)
            error.problem_mark = _moved(error.problem_mark, before)
            raise
        yield value


def _moved(mark: Any, lines: int) -> yaml.Mark | None:
    return mark and yaml.Mark(mark.name, mark.index, mark.line + lines, mark.column, None, 0)


def _document(text: str) -> Any:
    text = text.removeprefix(_MARK)
    if found := _STRAY_MARK.search(text):
        at = found.start()
        mark = yaml.Mark("<unicode string>", at, text.count("\n", 0, at), 0, None, 0)
        raise _error("a line begins with a byte order mark, which is not seen: remove it", mark)
    return _Document(text).read()


def _number(digits: str) -> Any:
    if isinstance(value := plain(digits), str):
        raise _error(f"{digits[:40]} is too large for a number", None)
    return value


def _constant(word: str) -> Any:
    raise ValueError(word)


_JSON = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_constant)
_MARK = "\ufeff"
_SPACE, _OPENING = " \t\r\n", ("{", "[")
#: Go takes it for a letter, and libyaml skips it.
_STRAY_MARK = re.compile(f"^{_MARK}", re.MULTILINE)


def _limit(value: Any, left: int) -> None:
    if isinstance(value, dict | list):
        if not left:
            raise _error(_TOO_DEEP, None)
        for part in value.values() if isinstance(value, dict) else value:
            _limit(part, left - 1)


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a text, each with the number of lines before it."""
    lines, before = list[str](), 0
    whole = text.replace("\r\n", "\n").removesuffix("\n")
    for number, line in enumerate(whole.split("\n")):
        if line.startswith("---"):
            if (after := line[3:].strip()) and after[0] != "#":
                raise _error(f"line {number + 1}: `---` is followed by {after[:40]!r}", None)
            if lines:
                yield before, "\n".join((*lines, ""))
                lines, before = [], number + 1
                continue
        lines.append(line)
    yield before, "\n".join((*lines, ""))


def _error(why: str, mark: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, why, mark)


def plain(written: str) -> Any:
    """Return what kubectl takes an unquoted text for; raise OverflowError where JSON cannot."""
    return _in_json(resolved(written))


def _in_json(value: Any) -> Any:
    """Return a value of Go's as JSON has it: a number without a fraction is an integer there."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError(f"{value} is no number of JSON")
        if value.is_integer() and abs(value) < 2**63:
            return int(Decimal(repr(value)))
    elif isinstance(value, int) and value >= 2**63:
        return float(value)  # as the API server stores it
    return value


def resolved(written: str) -> Any:
    """Return what Go's reader of YAML makes of an unquoted text."""
    if written in _WORDS:
        return _WORDS[written]
    if _INFINITE.fullmatch(written):
        return float(written.replace(".", ""))
    if written[0] not in "+-.0123456789" or (written[0] == "." and _STRAY.search(written)):
        return written
    digits = re.sub("^0b([-+])", r"\g<1>0b", written.replace("_", ""))
    # A decimal number of more digits is none of 64 bits, and takes Python long.
    if (match := _INTEGER.fullmatch(digits)) and (len(digits) < 30 or match[1][0] == "0"):
        number = int(_OCTAL.sub(r"\g<1>0o", digits), 0)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(digits) and abs(value := float(digits)) != math.inf:
        return value
    return written


def _key(value: Any) -> str | None:
    """Return a key as JSON has it, or None for what cannot be one."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str) or (type(value) is int and value < 2**63) else None


class _Anchored:
    """What an anchor names: its value, once it is read, and how many values it is for Go."""

    value: Any = None
    size = 0


class _Document:
    """Reads the first document of a text from the events of libyaml, as kubectl does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._events = yaml.parse(text, yaml.CSafeLoader)
        self._anchors: dict[str, _Anchored] = {}
        self._depth = self._flow = self._count = self._aliased = 0

    def read(self) -> Any:
        """Return the value of the document, or None."""
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events))
        next(self._events)  # the document ends
        return value

    def _value(self, event: Any) -> Any:
        try:
            return _in_json(self._node(event))
        except OverflowError as error:
            raise _error(f"{error}: quote it", event.start_mark) from None

    def _node(self, event: Any) -> Any:
        """Return a value as Go has it."""
        self._count += 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before, named = self._count, _Anchored()
        if event.anchor is not None:  # from here on, whatever had this name before
            self._anchors[event.anchor] = named
        in_flow = isinstance(event, yaml.CollectionStartEvent) and bool(event.flow_style)
        self._depth, self._flow = self._depth + 1, self._flow + in_flow
        if self._depth > _DEEPEST:
            raise _error(_TOO_DEEP, event.start_mark)
        if isinstance(event, yaml.SequenceStartEvent):
            named.value = [self._value(each) for each in self._until(yaml.SequenceEndEvent)]
        elif isinstance(event, yaml.MappingStartEvent):
            named.value = self._mapping()
        else:
            named.value = self._scalar(event)
        self._depth, self._flow = self._depth - 1, self._flow - in_flow
        named.size = self._count - before + 1
        return named.value

    def _scalar(self, event: Any) -> Any:
        if event.tag in _TYPES:
            why = f"its tag names the type {event.tag.removeprefix(_TAG)}: write it without"
            raise _error(why, event.start_mark)
        begin, end = event.start_mark.index, event.end_mark.index
        if event.style == '"' and _SLASH.search(self._text, begin, end):
            raise _error(r"there is no escape \/", event.start_mark)
        if not event.style and self._flow and "?" in event.value:
            raise _error("within brackets, what has a `?` must be quoted", event.start_mark)
        is_plain = event.implicit[0] and not _UNTYPED.match(self._text, begin, end)
        return resolved(event.value) if is_plain and event.tag is None else event.value

    def _alias(self, event: Any) -> Any:
        named = self._anchors.get(event.anchor)
        if named is None or not named.size:
            why = "which contains itself" if named else "which no anchor has"
            raise _error(f"the alias is of {event.anchor}, {why}", event.start_mark)
        self._count += named.size
        self._aliased += named.size
        if self._aliased > _ALIASED:
            why = "its aliases stand for too much; write it without them"
            raise _error(why, event.start_mark)
        return named.value

    def _until(self, end: type[yaml.Event]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _mapping(self) -> Any:
        """Return an object; what `<<` names is in its place, and of two fields the later counts."""
        result: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            given = self._node(event)
            is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<"
            if is_merge and (event.implicit[0] or event.tag == f"{_TAG}merge"):
                event = next(self._events)
                value = self._node(event)
                parts = value if isinstance(event, yaml.SequenceStartEvent) else [value]
                for part in reversed(parts):
                    if not isinstance(part, dict):
                        why = "`<<` takes an object, or a list of objects"
                        raise _error(why, event.start_mark)
                    result |= part
                continue
            if (key := _key(given)) is None:
                raise _error("a key must be a text: quote it", event.start_mark)
            result[key] = self._value(next(self._events))
        return result
