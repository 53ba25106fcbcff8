"""Prints, as JSON, what the handlers of a kopf operator watch, and before which writes they ask.

It is not imported: an adopted operator's own Python runs it, which need not have the kit. It takes
the module's name, and reads kopf's registry once the module is imported. No cluster is asked.
"""

import importlib
import json
import os
import sys
import traceback
from importlib.metadata import version
from typing import Any

#: kopf's registries of handlers that watch: those that may end, daemons and timers, and others.
_WATCHING = ("_changing", "_spawning", "_watching", "_indexing")


def _selected(selector: Any) -> dict[str, Any]:
    names = (selector.plural, selector.kind, selector.singular, selector.shortcut)
    name = next((name for name in (*names, selector.any_name) if isinstance(name, str)), None)
    return {"group": selector.group, "name": name}


def _webhook(handler: Any) -> dict[str, Any]:
    """Return what kopf itself would configure for a handler, and for what it is registered."""
    admission: Any = importlib.import_module("kopf._core.engines.admission")
    (entry,) = admission.build_webhooks([handler], resources=[], name_suffix="", client_config={})
    settings = ("sideEffects", "failurePolicy", "objectSelector", "timeoutSeconds")
    return {
        **_selected(handler.selector),
        "version": handler.selector.version,
        "id": handler.id,
        "kind": handler.reason.value,
        "operations": sorted(handler.operations or ["*"]),
        "subresource": handler.subresource,
        "settings": {name: entry[name] for name in settings if entry[name] is not None},
    }


def _recording(unset: dict[str, None]) -> None:
    """Note each variable that code of this folder reads and that is not set, but those of a Pod."""
    environ: Any = type(os.environ)
    read, here = environ.__getitem__, os.getcwd() + os.sep

    def noted(self: Any, name: str) -> str:
        try:
            value: str = read(self, name)
        except KeyError:
            if name.startswith("KUBERNETES_"):
                raise
            frame: Any = sys._getframe(1)
            while frame and frame.f_code.co_filename.startswith(("<frozen", os.__file__)):
                frame = frame.f_back
            file = os.path.abspath(frame.f_code.co_filename) if frame else ""
            if file.startswith(here) and "site-packages" not in file:
                unset[name] = None
            raise
        return value

    environ.__getitem__ = noted


class _RunError(BaseException):
    """Ends the import of a module that runs kopf then: it would not end, or ask for a cluster."""


def _refusing(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise _RunError(f"it runs kopf itself then; call kopf.{name}()")

    return refuse


def main(module: str) -> None:
    """Print what the handlers of a module watch, and before which writes they are asked."""
    out = os.fdopen(os.dup(1), "w")  # the module may print, or change sys.stdout
    sys.path.pop(0)  # that of this file, or of `-c`
    # As `kopf run` does: modules of Python's own that kopf has loaded are not looked for here.
    importlib.import_module("kopf.cli")
    # Not an import, because the kit itself does without kopf.
    kopf: Any = importlib.import_module("kopf")
    for name in ("run", "operator", "spawn_tasks"):
        setattr(kopf, name, _refusing(name))
    loaded = sorted(sys.stdlib_module_names & sys.modules.keys())
    sys.path.insert(0, "")
    os.environ.pop("KUBERNETES_SERVICE_HOST", None)  # nor that of a Pod that this may run in
    unset: dict[str, None] = {}
    _recording(unset)
    try:
        importlib.import_module(module)
    except BaseException as error:
        if isinstance(error, _RunError):
            reason, unset = str(error), {}
        elif unset and not isinstance(error, ImportError):
            (*_, failed) = traceback.format_exception_only(type(error), error)
            reason = failed.strip()
        else:
            raise
        print("", json.dumps({"failed": reason, "unset": [*unset]}), sep="\n", file=out)
        return
    registry = kopf.get_default_registry()
    answer = {
        "kopf": version("kopf"),
        "loaded": loaded,
        "imported": sorted(
            name
            for name, each in [*sys.modules.items()]
            if (getattr(each, "__file__", None) or "").startswith(os.getcwd() + os.sep)
        ),
        "unset": [*unset],
        "watched": [
            _selected(handler.selector) | {"by": name}
            for name in _WATCHING
            for handler in getattr(registry, name).get_all_handlers()
            if handler.selector is not None
        ],
        "webhooks": [_webhook(handler) for handler in registry._webhooks.get_all_handlers()],
    }
    print("", json.dumps(answer), sep="\n", file=out)


if __name__ == "__main__":
    main(sys.argv[1])
