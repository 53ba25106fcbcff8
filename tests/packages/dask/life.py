"""A day of dask-kubernetes' operator, in its own Python: a DaskCluster comes, and goes.

No Pod runs, so nothing is scaled: for that, the operator asks the scheduler in one.
"""

import os
import subprocess
from pathlib import Path

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import output
from kopf_kit.testing.api_server import OPERATOR

HERE = Path(__file__).parent
RUN = ("-m", "kopf", "run", "--standalone", "--all-namespaces", "--quiet", "-m")
OBJECT = f"--filename={HERE / 'sample.yaml'}"


def test_a_cluster_gets_a_scheduler_and_a_worker(api_server: ControlPlane) -> None:
    admin = f"--kubeconfig={api_server.kubeconfig('admin')}"

    def kubectl(*words: str) -> str:
        return output([tools.path("kubectl"), admin, "--namespace=default", *words], timeout=120)

    for crd in (HERE / "crds").iterdir():
        kubectl("apply", "--server-side", f"--filename={crd}")
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    program = (HERE / ".venv" / "bin" / "python", *RUN, "dask_kubernetes.operator.controller")
    environment = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig(OPERATOR))}
    with subprocess.Popen(program, env=environment, cwd=HERE) as operator:
        try:
            kubectl("apply", OBJECT)
            kubectl("wait", "--for=jsonpath={.status.phase}=Running", OBJECT, "--timeout=100s")
            workers = ("deployment", "--selector=dask.org/component=worker")
            kubectl("wait", "--for=create", *workers, "--timeout=100s")
            kubectl("delete", OBJECT, "--timeout=100s")
        finally:
            operator.terminate()
