"""Why a member does not start, as `kubectl get etcd` and `kubectl etcd why` say it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from kopf_kit.project import nested
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import packed
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing.world import World

from tests.faults.conftest import Cluster
from tests.faults.nodes import MISSING, NAME
from tests.faults.test_operator import SUBJECTS, VERSION

__all__ = ["SUBJECTS"]
BAD = f"{VERSION.rpartition('.')[0]}{MISSING}"


async def said(here: World, *command: str | Path) -> str:
    """Run a command with the kubeconfig of the test's cluster; return what it prints."""
    kubeconfig = str(here.cluster.plane.kubeconfig(ADMIN))
    path = f"{tools.path('kubectl').parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *command,
        f"--namespace={here.namespace}",
        env={"PATH": path, "HOME": "/", "LANG": "C.UTF-8", "KUBECONFIG": kubeconfig},
        stdout=-1,
        stderr=-2,
    )
    printed, _ = await process.communicate()
    return printed.decode()


@pytest.mark.long  # it starts one kubectl after the other
async def test_f7_why_a_member_does_not_start_is_one_line(
    here: World, cluster: Cluster, tmp_path: Path
) -> None:
    program = tmp_path / packed.PROGRAM
    await asyncio.to_thread(nested.ensure, PROJECT)  # the nodes go on meanwhile
    program.write_bytes(await asyncio.to_thread(packed.program))
    await here.start()
    await cluster.create(1, version=BAD)
    told = await cluster.until("Ready", "False", "ErrImagePull")

    _, row = (await said(here, tools.path("kubectl"), "get", "etcd")).splitlines()
    why = await said(here, sys.executable, program, "why", f"etcdcluster/{NAME}")

    assert row.split()[:6] == [NAME, "1", "0", "False", "False", "ErrImagePull"]
    assert told["message"] in why
