"""Asks `kubectl message why`, as a user does who sees that a Message does not print."""

import asyncio
import tempfile
from pathlib import Path

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing.world import World
from tests.support.plugin import Plugin, Said


async def why(here: World, name: str = "hello", **environment: str) -> Said:
    """Ask about a Message in the namespace of a world."""

    def ask() -> Said:
        with tempfile.TemporaryDirectory() as folder:
            access = here.cluster.plane.kubeconfig(ADMIN)
            plugin = Plugin(Path(folder), tools.path("kubectl"), access)
            return plugin("why", name, "--namespace", here.namespace, **environment)

    return await asyncio.to_thread(ask)
