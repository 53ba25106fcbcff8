"""`kubectl etcd`, the plugin that `kopf-kit plugin` packs, on an API server: no node, no member."""

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kopf_kit.project import nested
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import krew
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing.world import World

from tests.faults.test_operator import SUBJECTS

__all__ = ["SUBJECTS"]
NOTE = "the root password is swordfish"


@pytest.fixture
def run(here: World, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Run the packed plugin in the test's namespace; return its exit code and what it says."""
    nested.ensure(PROJECT)
    program = tmp_path / krew.PROGRAM
    program.write_bytes(krew.program())
    (tmp_path / "kubectl").symlink_to(tools.path("kubectl"))
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "KUBECONFIG": str(here.cluster.plane.kubeconfig(ADMIN)),
    }

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, program, *arguments, f"--namespace={here.namespace}"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.long  # for a minute or two it starts one kubectl after the other
async def test_a_cluster_without_nodes_is_told_and_collected(
    here: World, run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    body = here.subject.manifest("3", "main")
    body["spec"]["pod"] = {"annotations": {"note": NOTE}}
    await here.cluster.ask("POST", here.objects, body)
    unseen = await asyncio.to_thread(run, "why", "main")
    await here.start()
    async with here.within(60, "its state is told"):
        while True:
            main = await here.cluster.ask("GET", here.object("main"))
            # Before it has conditions, it has only what is recorded for the next step.
            if main.get("status", {}).get("conditions"):
                break
            await asyncio.sleep(0.2)

    why = await asyncio.to_thread(run, "why", "etcdcluster/main")
    status = await asyncio.to_thread(run, "status")
    doctor = await asyncio.to_thread(run, "doctor")
    file = tmp_path / "support.tar.gz"
    bundle = await asyncio.to_thread(run, "support-bundle", "-f", str(file))
    denied = await asyncio.to_thread(run, "status", "--as=nobody")

    assert (unseen[0], why[0], status[0], doctor[0], bundle[0], denied[0]) == (1, 1, 0, 1, 0, 3)
    assert unseen[1].startswith("EtcdCluster main: no operator is installed.")
    assert why[1].startswith("EtcdCluster main: it is not ready (")
    assert "Available=False (" in why[1]
    assert "etcdcluster/main   False" in status[1]
    assert "no operator is installed" in doctor[1], "the test's runs outside"
    assert "etcdrestores.etcd.example.com/v1alpha1" in doctor[1]
    assert "etcdclusters.etcd.example.com-view" in denied[1]
    with tarfile.open(file) as archive:
        streams = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive}
        files = {name: stream.read().decode() for name, stream in streams.items() if stream}
    [cluster] = [
        cluster
        for cluster in json.loads(files["etcdclusters.json"])
        if cluster["metadata"]["namespace"] == here.namespace
    ]
    assert cluster["spec"]["version"] == body["spec"]["version"]
    assert cluster["spec"]["pod"]["annotations"] == {"note": "<hidden>"}
    # What the operator made bears the note, too.
    assert '"main-1"' in files["pods.json"] + files["persistentvolumeclaims.json"]
    assert "swordfish" not in "".join(files.values())
