"""Decoded objects: they have only the fields that are read, and an invalid field is refused.

An object that cannot be decoded raises one `UnreadableError`: it is reported and left out, and the
others are served. An author derives the class of a served kind from `Resource`, and the class of an
owned kind from `Object`.
"""

import functools
import re
import time
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from kopf_runtime.declaring.kinds import Key

#: A number in an annotation or a resource version; 2**64 has 20 digits, so no valid one is longer.
_DIGITS = 20
#: Levels that are kept of JSON that is nested too deeply to be parsed as a whole.
_LEVELS = 200
#: Characters of the longest text that objects share.
_LONGEST_SHARED = 512
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[][{}]')


class OwnerReference(Struct, rename="camel", frozen=True):
    """A reference to the object that this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ManagedFields(Struct, rename="camel"):
    """The fields of an object that one manager has set."""

    manager: str = ""
    subresource: str = ""
    fields_v1: Raw = Raw(b"{}")


class ObjectMeta(Struct, rename="camel", dict=True):
    """The metadata of an object: Kubernetes' fields, in snake_case."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[ManagedFields] | None = None

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return self.namespace, self.name

    @property
    def version(self) -> int:
        """The resource version; the versions of one resource are ordered (KEP-5504)."""
        return number(self.resource_version, 0)

    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner, or None."""
        return next((o for o in self.owner_references or () if o.controller), None)


def note_empties(thing: "Object", raw: bytes) -> None:
    """Note the number of empty maps and lists in an object's JSON; its class may read none."""
    vars(thing.metadata)["empties"] = raw.count(b"{}") + raw.count(b"[]")


def empties(meta: ObjectMeta) -> int:
    """Return the number that was noted."""
    noted: int = vars(meta).get("empties", 0)
    return noted


class Object(Struct, rename="camel"):
    """Any object; a class for a kind adds the fields that it reads, such as `spec`."""

    metadata: ObjectMeta


class Conditions(Struct, frozen=True):
    """The part of a status that is the same for most kinds."""

    class Condition(Struct, frozen=True):
        """One aspect of the state, such as `Ready`, and whether it holds."""

        type: str = ""
        status: str = ""

    phase: str = ""
    conditions: list[Condition] = []


class Conditioned(Object):
    """An object whose status has a phase or conditions: a Pod, a Deployment, a Job."""

    status: Conditions = Conditions()

    def holds(self, condition: str) -> bool:
        """Tell whether a condition is true."""
        return any(c.type == condition and c.status == "True" for c in self.status.conditions)


class Resource(Object):
    """An object of a kind that a controller serves: its status is the runtime's."""

    status: dict[str, Any] = msgspec.field(default_factory=dict)


class Identity(Struct, rename="camel"):
    """The identity of an object that is otherwise unreadable."""

    class Meta(Struct, rename="camel"):
        """The part of the metadata that the API server itself writes."""

        name: str
        resource_version: str
        namespace: str = ""
        uid: str = ""
        generation: int = 0
        labels: Any = None  # what makes it unreadable may be here

    metadata: Meta
    status: Any = None


class Position(Struct, rename="camel"):
    """The metadata of a list or of a bookmark."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class Page(Struct):
    """A page of a list; its items are decoded one by one."""

    metadata: Position
    items: list[Raw] | None = None


class Event(Struct):
    """A line of a watch."""

    type: str
    object: Raw


class Bookmark(Struct):
    """The object of a bookmark."""

    metadata: Position


class Failure(Struct):
    """A `Status`, with which the API server refuses a request."""

    class Details(Struct):
        """The object that it is about; the kind is its plural."""

        name: str = ""
        kind: str = ""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details = msgspec.field(default_factory=Details)


class UnreadableError(Exception):
    """An object's fields do not match its kind."""

    def __init__(self, identity: Identity.Meta | None, reason: str, status: Any = None) -> None:
        super().__init__(reason)
        #: The object's identity; None if not even that can be read.
        self.identity = identity
        #: Its status, whatever form that has.
        self.status = status


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """What decodes JSON; raises `MsgspecError`."""

    def decode(self, payload: bytes | Raw, /) -> T_co:
        """Return what it holds."""


def parse(decoder: Decoder[T], payload: bytes | Raw) -> T:
    """Decode JSON of any depth; levels that are too deep are read as null.

    The API server accepts 10,000 levels, Python a thousand; one object must not make its page
    unreadable. Raise `MsgspecError` or `UnicodeError`.
    """
    try:
        return decoder.decode(payload)
    except RecursionError:
        return decoder.decode(_shallow(bytes(payload)))


def _shallow(payload: bytes) -> bytes:
    parts, depth, start = [], 0, 0
    for token in _TOKENS.finditer(payload):
        if token[0] in b"[{":
            depth += 1
            if depth == _LEVELS:
                parts += [payload[start : token.start()], b"null"]
        elif token[0] in b"]}":
            if depth == _LEVELS:
                start = token.end()
            depth -= 1
    return b"".join((*parts, payload[start:]))


def decode(decoder: Decoder[T], raw: bytes | Raw) -> T:
    """Decode an object; raise `UnreadableError` if its fields do not match its kind."""
    try:
        return parse(decoder, raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        reason = str(error)[:500] or type(error).__name__
    try:
        known = parse(_IDENTITY, raw)
        number(known.metadata.resource_version)
    except (msgspec.MsgspecError, ValueError):
        raise UnreadableError(None, reason) from None
    raise UnreadableError(known.metadata, reason, known.status)


_IDENTITY = msgspec.json.Decoder(Identity)


def number(text: str | None, default: int | None = None) -> int:
    """Return the number in a text of digits; if it is none, return the default or raise ValueError.

    Python refuses to parse more than 4,300 digits, and anybody may write them into an annotation.
    """
    if text and len(text) <= _DIGITS and text.isascii() and text.isdecimal():
        return int(text)
    if default is None:
        raise ValueError(f"{text!r:.40} is not a number")
    return default


@functools.lru_cache(maxsize=4096)
def seconds(timestamp: str | None) -> float:
    """Return an API server's timestamp as Unix time in seconds; 0 if missing or invalid."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
    except (ValueError, OverflowError):
        return 0.0


def timestamp() -> str:
    """Return the present second as the API server writes it."""
    return _timestamp(int(time.time()))


@functools.lru_cache(maxsize=1)
def _timestamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


@functools.lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    """Return an equal text. Unlike `sys.intern`, which keeps each for good in Python 3.12."""
    return text


def shared(value: Any) -> Any:
    """Copy a JSON value and share its strings: thousands of statuses contain the same ones."""
    if isinstance(value, str):
        return _shared(value) if len(value) <= _LONGEST_SHARED else value
    if isinstance(value, dict):
        return {shared(name): shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shared(part) for part in value]
    return value
