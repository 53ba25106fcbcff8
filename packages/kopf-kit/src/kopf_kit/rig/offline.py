"""What kopf-offline builds: images, the node of a cluster, and programs in Go.

This is the only way from the kit to that distribution. A machine that has an image registry and the
programs of `kopf_kit.rig.tools` does not need it.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from kopf_kit.rig.run import HackError

_ENTRY = "kopf_offline.entry"


class Builder(Protocol):
    """The functions of `kopf_offline.entry`, which describes them."""

    def programs(self, names: Sequence[str]) -> list[Path]: ...  # noqa: D102

    def module(self, name: str) -> Path: ...  # noqa: D102

    def image(  # noqa: D102
        self, name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()
    ) -> str: ...

    def node(self, tools: Sequence[str] = ()) -> str: ...  # noqa: D102


def is_installed() -> bool:
    """Return whether kopf-offline is installed."""
    return importlib.util.find_spec("kopf_offline") is not None


def builder(lacks: str) -> Builder:
    """Return kopf-offline's functions; without it, raise HackError, which begins with `lacks`."""
    if not is_installed():
        raise HackError(
            f"{lacks} install kopf-offline (`pip install kopf-offline`), which builds it with Go"
        )
    return cast("Builder", importlib.import_module(_ENTRY))
