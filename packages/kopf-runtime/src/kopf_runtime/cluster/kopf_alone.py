"""Imports kopf without aiohttp, which takes half of the CPU and of the memory of kopf's import.

kopf names classes of aiohttp in annotations, which Python evaluates before 3.14, and uses it only
for handlers of its own. So it gets a module that imports aiohttp when it is used. `kopf_runtime`
imports this before anything else that imports kopf.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """What kopf's modules have as `aiohttp`."""

    importing = True

    def __getattr__(self, name: str) -> Any:
        if self.importing:
            if name.startswith("__"):
                raise AttributeError(name)
            return self if name.islower() else Any
        if name == "web":
            return importlib.import_module("aiohttp.web")
        return getattr(importlib.import_module("aiohttp"), name)


def _import_kopf() -> None:
    later = _Later("aiohttp")
    sys.modules.update({"aiohttp": later, "aiohttp.web": later})
    try:
        importlib.import_module("kopf")
    except Exception:
        # A release of kopf that already uses aiohttp while it is imported: do that as usual.
        for name in [name for name in sys.modules if name.partition(".")[0] == "kopf"]:
            del sys.modules[name]
    finally:
        later.importing = False
        del sys.modules["aiohttp"], sys.modules["aiohttp.web"]


# kopf also imports that client if it is installed, whose classes inherit from aiohttp's.
if not {"aiohttp", "kopf"} & sys.modules.keys() and find_spec("kubernetes_asyncio") is None:
    _import_kopf()
