"""Parsers for the values of flags and environment variables, and the patterns they use.

Each parser raises `argparse.ArgumentTypeError` that says what is wrong and what to set instead. The
patterns are those of the names, images and label selectors that Kubernetes accepts.
"""

import argparse
import re
from collections.abc import Callable
from typing import Any

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN = re.compile(f"(?=.{{1,253}}$){SUBDOMAIN_PATTERN}")
#: What the name of an object of any kind may be, in a URL: `..` would lead to another one.
NAME = re.compile(r"(?!\.\.?$)[-.:@_A-Za-z0-9]{1,253}")

_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = f"({SUBDOMAIN_PATTERN}/)?{_WORD}"
_VALUES = rf"\( *({_WORD})?( *, *({_WORD})?)* *\)"
_REQUIREMENT = f"(! *{_KEY}|{_KEY}( *(=|==|!=) *({_WORD})?| +(in|notin) *{_VALUES})?)"
#: A selector as in `kubectl get -l`, without < and >, which compare numbers. The chart's schema has
#: the same pattern; Go supports no lookahead, so a separate pattern checks the length.
SELECTOR = re.compile(f" *{_REQUIREMENT}( *, *{_REQUIREMENT})* *")
#: A label and its value.
LABEL = re.compile(f"(?![^/]{{254}}){_KEY}=({_WORD})?")
#: A label's prefix in a selector that is longer than a subdomain's 253 characters.
LONG_PREFIX = re.compile("[-a-z0-9.]{254}/")

_PATH = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]+)?"
_DIGEST = "sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}"
#: An image name as in a Pod (github.com/distribution/reference, regexp.go).
IMAGE = re.compile(
    f"({_HOST}/)?{_PATH}(/{_PATH})*(:[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?(@({_DIGEST}))?"
)

Address = tuple[str, int]  # (host, port); the empty host means all addresses


def address(text: str) -> Address | None:
    """Parse `[HOST]:PORT`; `0` means none."""
    if text == "0":
        return None
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):([0-9]{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid [HOST]:PORT (for example :8080; 0 disables it)"
        )
    return match[1].strip("[]"), int(match[2])


def at_least(
    least: float, kind: type[int] | type[float] = float, *, most: float = float("inf")
) -> Callable[[str], Any]:
    """Return a parser of a number from `least` to `most`, a whole one if `kind` is `int`.

    >>> kr.at_least(1, int, most=9)("3")
    3
    """
    bounds = f"at least {least:g}" + (f" and at most {most:.15g}" if most < float("inf") else "")

    def number(text: str) -> Any:
        try:  # `int` also accepts the digits of other scripts, and underscores
            value = kind(text if text.isascii() and "_" not in text else "")
        except ValueError:
            value = kind(least - 1)
        if not least <= value <= most or value == float("inf"):
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {name} of {bounds}")
        return value

    return number


def boolean(text: str) -> bool:
    """Parse `true` or `false`."""
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not true or false")
    return text.lower() == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these words."""

    def choice(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return choice


def image(text: str) -> str:
    """Parse an image's name in the form that a Pod accepts."""
    if not IMAGE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid image; use for example docker.io/library/busybox:1.37, "
            "or a digest of 64 hexadecimal digits as in busybox@sha256:…"
        )
    return text


def object_name(text: str) -> str:
    """Parse an object's name, which may be empty."""
    if text and not SUBDOMAIN.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid name: 1 to 253 of a-z, 0-9, '-' and '.', "
            "no '-' or '.' at either end"
        )
    return text


def namespace(text: str) -> str:
    """Parse a namespace's name, which may be empty."""
    if text and not DNS_LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid namespace: 1 to 63 of a-z, 0-9 and '-', no '-' at either end"
        )
    return text


def namespaces(text: str) -> list[str]:
    """Parse a comma-separated list of namespaces, which must not be empty."""
    names = [namespace(listed.strip()) for listed in text.split(",") if listed.strip()]
    if not names:
        raise argparse.ArgumentTypeError(
            f"{text!r} names no namespace; name one, or use --all-namespaces"
        )
    return names


def selector(text: str) -> str:
    """Parse a label selector; an empty one selects everything."""
    if text and (LONG_PREFIX.search(text) or not SELECTOR.fullmatch(text)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid label selector; "
            "use for example team=a,stage in (test, live),!paused"
        )
    return text
