"""Looks at which handlers of kopf's an author has registered, by no name that kopf keeps to itself.

kopf gives out the registry, but not what is in it. Each sort of handlers has a registry of its own
there, under a name that may change; what a handler has shows its sort.
"""

from collections.abc import Iterator
from typing import Any

import kopf


def handlers(registry: kopf.OperatorRegistry) -> Iterator[Any]:
    """Yield all handlers in a registry."""
    for part in vars(registry).values():
        yield from getattr(part, "get_all_handlers", tuple)()


def is_of_admission(handler: Any) -> bool:
    """Return whether a handler is one of `@kopf.on.validate` or `@kopf.on.mutate`."""
    return hasattr(handler, "side_effects")


def is_index(handler: Any) -> bool:
    """Return whether a handler is one of `@kopf.index`."""
    return type(handler).__name__ == "IndexingHandler"


def asks(registry: kopf.OperatorRegistry) -> bool:
    """Return whether there are handlers of admission."""
    return any(map(is_of_admission, handlers(registry)))


def has_others(registry: kopf.OperatorRegistry, *own: object) -> bool:
    """Return whether there are handlers, of any sort, beside the methods of `own` and kopf's."""
    functions = [getattr(handler, "fn", None) for handler in handlers(registry)]
    return any(
        getattr(function, "__self__", None) not in own
        and getattr(function, "__module__", "").partition(".")[0] != "kopf"
        for function in functions
    )


def acts(registry: kopf.OperatorRegistry) -> bool:
    """Return whether there are handlers that act on objects."""
    every = list(handlers(registry))
    # A manager's own are always there: if none is found, kopf has moved them all, and any may be.
    return not every or any(hasattr(h, "selector") and not is_of_admission(h) for h in every)
