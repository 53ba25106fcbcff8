"""Reads the files that people write, and writes several files or none of them.

Texts, JSON, TOML, and YAML with the types that kubectl reads; what cannot be read is refused with
its place. A command that fails leaves a repository as it was.
"""

import contextlib
import json
import re
import stat
import tomllib
from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from kopf_kit.rig.run import KitError

#: What is larger is no file that somebody writes: etcd takes 1.5 MiB, and a catalog has a few.
_LARGEST = 32 * 2**20
#: Depth of lists and objects, and values beyond those that are written, which aliases may add.
_DEEPEST, _ALIASED = 200, 100_000

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
#: What is no number of JSON.
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

_Content = TypeVar("_Content")


class UnreadableError(KitError, yaml.YAMLError):
    """A file that cannot be read, or is not in the language that it should be in."""


def text(file: Path, hint: str = "") -> str:
    """Return the text of a file; raise KitError, with the hint, if it cannot be read."""
    try:
        return content(file, hint).decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"{file} is not a text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error


def content(file: Path, hint: str = "") -> bytes:
    """Return the bytes of a file; raise KitError, with the hint, if it cannot be read."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait
            raise UnreadableError(f"{file} is not a file{_then(hint)}")
        if status.st_size > _LARGEST:
            raise UnreadableError(
                f"{file} has {status.st_size >> 20} MiB, which is too much to be read"
            )
        return file.read_bytes()
    except OSError as error:
        raise UnreadableError(f"{file}: {error.strerror}{_then(hint)}") from error


def _then(hint: str) -> str:
    return f"; {hint}" if hint else ""


def document(file: Path, shape: type[_Content], hint: str = "") -> _Content:
    """Return what is in a file of YAML with one document; raise KitError if it has another shape.

    The shape is a type that msgspec knows; fields that it does not name stay.
    """
    return shaped(load(text(file, hint), file), shape, file)


def documents(file: Path, hint: str = "") -> list[Any]:
    """Return the documents of a file that are not empty."""
    return load_all(text(file, hint), file)


def toml(file: Path) -> dict[str, Any]:
    """Return what is in a file of TOML; raise KitError."""
    try:
        return tomllib.loads(text(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableError(f"{file} is not TOML: {error}") from error


def shaped(value: Any, shape: type[_Content], source: Path | str) -> _Content:
    """Return a value as it is; raise KitError, which names the field, if it has another shape."""
    converted(value, shape, source)
    same: _Content = value
    return same


def converted(value: Any, type_: type[_Content], source: Path | str) -> _Content:
    """Return a value as a type; raise KitError, which names the field that has another one."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise KitError(f"{source}: {' '.join(str(error).split()).replace('`$.', '`')}") from error


def load(written: str | bytes, source: Path | str) -> Any:
    """Return the one document of a text in YAML; raise KitError, which names the source."""
    everything = _loaded(lambda: _all(written), source) or [None]
    if len(everything) > 1:
        raise UnreadableError(f"{source} has {len(everything)} documents of YAML; write one")
    return everything[0]


def load_all(written: str | bytes, source: Path | str) -> list[Any]:
    """Return the documents of a text in YAML that are not empty; raise KitError."""
    everything = _loaded(lambda: _all(written), source)
    return [each for each in everything if each is not None]


def _all(written: str | bytes) -> list[Any]:
    if written.lstrip()[:1] in ("{", "[", b"{", b"["):  # JSON has escapes that YAML has not
        with contextlib.suppress(ValueError):
            encoded = written if isinstance(written, str) else written.decode()
            paired = _ESCAPE.sub(lambda found: found[1] or r"\ufffd", encoded)
            return [json.loads(paired, parse_int=plain, parse_float=plain, parse_constant=plain)]
    return list(yaml.load_all(written, _Loader))


def _loaded(read: Callable[[], Any], source: Path | str) -> Any:
    try:
        value = read()
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    if why := _excess(value):
        raise UnreadableError(f"{source} {why}; write it without the aliases or the nesting")
    return value


def _excess(value: Any) -> str:
    """Return what is wrong with a value that would not end, or that no program of Go's takes."""
    seen, sizes = 0, dict[int, int]()

    def size(part: Any, depth: int) -> int:
        nonlocal seen
        if not isinstance(part, dict | list):
            return 1
        if depth > _DEEPEST:
            raise OverflowError(f"is nested more than {_DEEPEST} levels deep, or contains itself")
        if (known := sizes.get(id(part))) is None:
            seen += 1 + len(part)
            parts = part.values() if isinstance(part, dict) else part
            known = sizes[id(part)] = 1 + sum(size(each, depth + 1) for each in parts)
        return known

    try:
        if size(value, 0) > 2 * seen + _ALIASED:
            return "has aliases that stand for too much"
    except OverflowError as error:
        return str(error)
    return ""


def plain(written: str) -> Any:
    """Return what kubectl takes an unquoted text for; raise ValueError for what JSON cannot say."""
    value = resolved(written)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(Decimal(repr(value)))  # JSON, as Go writes it, has no .0: it is an integer there
    return value


def resolved(written: str) -> Any:
    """Return what Go's reader of YAML makes of an unquoted text."""
    if written in _WORDS:
        return _WORDS[written]
    if _INFINITE.fullmatch(written):
        raise ValueError(f"{written} is no number of JSON")
    if written[0] not in "+-.0123456789" or (written[0] == "." and _STRAY.search(written)):
        return written
    digits = written.replace("_", "")
    if _INTEGER.fullmatch(digits):
        number = int(_OCTAL.sub(r"\g<1>0o", digits), 0)
        if -(2**63) <= number < 2**64:
            return number if number < 2**63 else float(number)  # as the API server stores it
    if _FLOAT.fullmatch(digits) and abs(value := float(digits)) != float("inf"):
        return value
    return written


class _Loader(yaml.CSafeLoader):
    """Reads what libyaml parses, which takes a tenth of the time of PyYAML's own parser."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if not implicit[0]:
            return f"{_TAG}str"
        return f"{_TAG}merge" if value == "<<" else f"{_TAG}plain"

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put what `<<` names in its place; as in Go, a later field is in place of a former one."""
        pairs: dict[tuple[str, str], tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag != f"{_TAG}merge":
                pairs[key.tag, str(key.value)] = key, value
                continue
            for part in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                if not isinstance(part, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "`<<` takes an object, or a list of objects", key.start_mark
                    )
                self.flatten_mapping(part)
                pairs |= {(name.tag, str(name.value)): (name, of) for name, of in part.value}
        node.value = [*pairs.values()]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return an object whose keys are texts, as JSON's are."""
        self.flatten_mapping(node)
        return {
            self._key(key): self.construct_object(value, deep=deep) for key, value in node.value
        }

    def _key(self, node: yaml.Node) -> str:
        is_plain = node.tag == f"{_TAG}plain"
        key = resolved(node.value) if is_plain else self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(key)
        raise yaml.constructor.ConstructorError(
            None, None, f"a key must be a text, not {key!r}: quote it", node.start_mark
        )

    def construct_plain(self, node: yaml.ScalarNode) -> Any:
        try:
            return plain(node.value)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"{error}: quote it", node.start_mark
            ) from None

    def construct_binary(self, node: yaml.ScalarNode) -> str:
        return str(self.construct_yaml_binary(node), "utf-8", "replace")

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a value; as in Go, a list or an object is what it is, whatever its tag says."""
        if isinstance(node, yaml.CollectionNode):
            node.tag = f"{_TAG}map" if isinstance(node, yaml.MappingNode) else f"{_TAG}seq"
        elif node.tag in (f"{_TAG}map", f"{_TAG}seq"):
            node.tag = f"{_TAG}str"
        return super().construct_object(node, deep)


_Loader.add_constructor(f"{_TAG}binary", _Loader.construct_binary)
for _name in (None, *(_TAG + name for name in ("merge", "timestamp", "set", "omap", "pairs"))):
    _Loader.add_constructor(_name, lambda _, node: node.value)
for _name in ("plain", "bool", "int", "float", "null"):
    _Loader.add_constructor(_TAG + _name, _Loader.construct_plain)


#: Writes the text of a file, or removes it if there is None.
Write = Callable[[Path, str | None], None]


@contextlib.contextmanager
def all_or_none() -> Iterator[Write]:
    """Give the block what writes and removes files; where it fails, take back what it did.

    Raise KitError where a file cannot be written.
    """
    former: dict[Path, bytes | None] = {}
    folders: list[Path] = []

    def write(file: Path, text: str | None) -> None:
        former.setdefault(file, content(file) if file.is_file() else None)
        if text is None:
            file.unlink()
            return
        folders.extend(folder for folder in file.parents if not folder.exists())
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    try:
        yield write
    except BaseException as error:
        _take_back(former, folders)
        if isinstance(error, OSError) and error.filename is not None:
            raise KitError(f"{error.filename}: {error.strerror}; nothing was written") from error
        raise


def _take_back(former: dict[Path, bytes | None], folders: list[Path]) -> None:
    for file, content in former.items():
        with contextlib.suppress(OSError):
            if content is not None:
                file.write_bytes(content)
            elif file.is_file():
                file.unlink()
    for folder in sorted({*folders}, reverse=True):
        with contextlib.suppress(OSError):  # somebody else has written into it
            folder.rmdir()
