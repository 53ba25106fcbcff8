"""Imports kopf without what it needs for handlers of its own and outside a Pod.

kopf names classes of aiohttp in annotations, which Python evaluates before 3.14; aiohttp takes half
of the CPU and of the memory of kopf's import. So kopf's modules get modules that import the real
ones when they are used; everybody else imports the real ones. `kopf_runtime` imports this before
anything else, and calls `imported` at its end: meanwhile Python looks for no garbage, which would
take a twelfth of the time and find none.
"""

import gc
import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

#: What kopf imports as a whole, and uses only for handlers of its own, or for a kubeconfig.
_NAMES = ("aiohttp", "aiohttp.web", "yaml", "iso8601", "jsonpatch")
_collects = gc.isenabled()
gc.disable()


def imported() -> None:
    """Have Python look for garbage again, if it did before, but never in what is imported."""
    if _collects:
        gc.freeze()
        gc.enable()


class _Later(ModuleType):
    """What kopf's modules have in place of a module."""

    importing = True

    def __getattr__(self, name: str) -> Any:
        if self.importing:
            if name.startswith("__"):
                raise AttributeError(name)
            return self if name.islower() else Any
        if (self.__name__, name) == ("aiohttp", "web"):
            return importlib.import_module("aiohttp.web")
        return getattr(importlib.import_module(self.__name__), name)


def _import_kopf() -> None:
    later = {name: _Later(name) for name in _NAMES if name not in sys.modules}
    sys.modules.update(later)
    try:
        importlib.import_module("kopf")
    except Exception:
        # A release of kopf that already uses one of them while it is imported: do that as usual.
        for name in [name for name in sys.modules if name.partition(".")[0] == "kopf"]:
            del sys.modules[name]
    finally:
        for name, module in later.items():
            module.importing = False
            del sys.modules[name]


try:
    # kopf also imports that client if it is installed, whose classes inherit from aiohttp's.
    if not {"aiohttp", "kopf"} & sys.modules.keys() and find_spec("kubernetes_asyncio") is None:
        _import_kopf()
except BaseException:
    imported()
    raise
