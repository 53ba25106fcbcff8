"""Prints, as JSON, what the handlers of a kopf operator watch.

It is not imported: an adopted operator's own Python runs it, which need not have the kit. It takes
the module's name, and reads kopf's registry once the module is imported. No cluster is asked.
"""

import importlib
import json
import sys
from importlib.metadata import version
from typing import Any

#: kopf's registries of handlers that watch: those that may end, daemons and timers, and others.
_WATCHING = ("_changing", "_spawning", "_watching", "_indexing")


def _watched(selector: Any, by: str) -> dict[str, Any]:
    names = (selector.plural, selector.kind, selector.singular, selector.shortcut)
    name = next((name for name in (*names, selector.any_name) if isinstance(name, str)), None)
    return {"group": selector.group, "name": name, "by": by}


def main(module: str) -> None:
    """Print what the handlers of a module watch."""
    sys.path.insert(0, "")
    importlib.import_module(module)
    # Not an import, because the kit itself does without kopf.
    registry: Any = importlib.import_module("kopf").get_default_registry()
    answer = {
        "kopf": version("kopf"),
        "watched": [
            _watched(handler.selector, name)
            for name in _WATCHING
            for handler in getattr(registry, name).get_all_handlers()
            if handler.selector is not None
        ],
        "webhooks": [handler.id for handler in registry._webhooks.get_all_handlers()],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
