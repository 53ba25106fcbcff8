"""The Korean of what the code says in English, for the Korean pages of `reference`.

reference_korean.toml has it, by page; whoever changes a sentence in the code changes it there, too.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from kopf_kit.rig.run import HackError

FILE = Path(__file__).with_suffix(".toml")
_KOREAN: dict[str, str] = {
    english: korean
    for page in tomllib.loads(FILE.read_text()).values()
    for english, korean in page.items()
}
_asked: set[str] = set()


def korean(english: str) -> str:
    """Return the Korean of an English text; without one, `complete` will raise an error."""
    _asked.add(english)
    return _KOREAN.get(english, english)


def complete() -> None:
    """Raise an error unless FILE has each text that `korean` was asked for, and no others."""
    if missing := _asked - _KOREAN.keys():
        raise HackError(f"add the Korean of these texts to hack/{FILE.name}:{_listed(missing)}")
    if unused := _KOREAN.keys() - _asked:
        raise HackError(f"remove these texts, now unused, from hack/{FILE.name}:{_listed(unused)}")


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"\n  {text}" for text in sorted(texts))
