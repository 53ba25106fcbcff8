"""Whether what the chart renders may be in a file that everybody can read, such as install.yaml."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rendered import Manifest
from kopf_kit.rig.run import HackError

_KEY = "PRIVATE KEY-----"


def check(once: Sequence[Manifest], again: Sequence[Manifest]) -> None:
    """Raise HackError if one of two renderings has a private key, or if they differ."""
    problems = [
        f"{_named(manifest)} contains a private key, which would be in a generated file; have "
        "cert-manager or the operator create it, or a value, which is off by default"
        for manifest in once
        if any(_KEY in text for text in _texts(manifest))
    ]
    problems = problems or [
        f"{_named(first)} is rendered differently each time, so generated files could never be up "
        "to date; have the operator create what is random, or a value, which is off by default"
        for first, second in zip(once, again, strict=True)
        if first != second
    ]
    if problems:
        raise HackError("\n".join(problems))


def _named(manifest: Manifest) -> str:
    return f"{PROJECT.chart.name}: {manifest['kind']} {manifest['metadata']['name']}"


def _texts(value: Any) -> Iterator[str]:
    """Yield each text in an object, and what it is decoded."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value
        try:
            yield base64.b64decode(value, validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            return
