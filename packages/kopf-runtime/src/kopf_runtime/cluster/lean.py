"""Imports kopf and prometheus_client without what few operators use.

`kopf_runtime` imports this before anything else, and calls `imported` at its end. Meanwhile Python
looks for no garbage: what is imported is none, and to look at it takes a twelfth of the time.
"""

import gc
import importlib
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_collects = gc.isenabled()
gc.disable()


def imported() -> None:
    """Have Python look for garbage again, if it did before, but never in what is imported."""
    _Unread.importing = False
    if _collects:
        gc.freeze()
        gc.enable()


class _Later(ModuleType):
    """What kopf's modules have as `aiohttp`.

    kopf names classes of aiohttp in annotations, which Python evaluates before 3.14, and uses it
    only for handlers of its own. So it gets a module that imports aiohttp when it is used.
    """

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


class _Unread(ModuleType):
    """A module that is executed once something of it is used."""

    importing = True

    def __getattr__(self, name: str) -> Any:
        part = self.importing and "__path__" in vars(self) and find_spec(f"{self.__name__}.{name}")
        if name.startswith("__") or part:
            raise AttributeError(name)  # Python imports the part by itself
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


# The runtime uses some modules of prometheus_client, which itself imports three servers of HTTP.
# kopf needs YAML for a kubeconfig, which a Pod has not, and the others for handlers of its own.
for _name in ("prometheus_client", "yaml", "iso8601", "jsonpatch"):
    if _name not in sys.modules and (_spec := find_spec(_name)):
        sys.modules[_name] = _unread = module_from_spec(_spec)
        _unread.__class__ = _Unread
# kopf also imports that client if it is installed, whose classes inherit from aiohttp's.
if not {"aiohttp", "kopf"} & sys.modules.keys() and find_spec("kubernetes_asyncio") is None:
    _import_kopf()
