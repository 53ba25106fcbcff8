"""The Korean of what the code says in English, for the Korean pages of `reference`.

reference_korean.toml has it, by page. A sentence that changes in the code has to change there, too.
"""

import tomllib
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")
_KOREAN: dict[str, str] = {
    english: korean
    for page in tomllib.loads(FILE.read_text()).values()
    for english, korean in page.items()
}
_asked: set[str] = set()


def korean(english: str) -> str:
    """Return the Korean of an English text, or the text itself where a test misses it."""
    _asked.add(english)
    return _KOREAN.get(english, english)


def missing() -> set[str]:
    """Return the texts that `korean` was asked for and FILE lacks."""
    return _asked - _KOREAN.keys()


def unused() -> set[str]:
    """Return the texts that FILE has and that `korean` was not asked for."""
    return _KOREAN.keys() - _asked
