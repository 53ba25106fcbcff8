"""What a repository's own module adds to its generated files.

PROJECT names it as `extension`. It has `files()`, which returns texts by path.
"""

from types import ModuleType

from kopf_kit.pack.project import PROJECT


def load() -> ModuleType | None:
    """Return the module that PROJECT names, or None."""
    if not PROJECT.extension:
        return None
    return PROJECT.module(PROJECT.extension)
