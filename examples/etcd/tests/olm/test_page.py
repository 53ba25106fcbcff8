"""docs/olm.md, typed: OLM, the operator by a Subscription, a cluster, and all of it removed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.testing import Cluster

ROOT = Path(__file__).parents[2]


def test_the_commands_of_the_page_install_it_and_leave_nothing(e2e_cluster: Cluster) -> None:
    page = (ROOT / "docs" / "olm.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = re.sub(r"^\$ ", "", "".join(blocks), flags=re.MULTILINE)
    project = f"PROJECT={ROOT.relative_to(paths.CHECKOUT)}"
    kit = f"env --chdir={paths.CHECKOUT} {project} {sys.executable} -m kopf_kit"
    folders = {str(program.parent) for program in (e2e_cluster.kubectl, e2e_cluster.helm)}

    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-euxo", "pipefail", "-c", commands.replace("uv run kopf-kit", kit)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=3000,
        check=False,
        env={
            **os.environ,
            "PATH": os.pathsep.join([*folders, os.environ["PATH"]]),
            "KUBECONFIG": str(e2e_cluster.kubeconfig),
            "KIND_CLUSTER_NAME": e2e_cluster.name,
        },
    )

    assert done.returncode == 0, done.stdout
    assert "etcd-operator.v" in done.stdout
    assert "etcdcluster.etcd.example.com/sample condition met" in done.stdout
