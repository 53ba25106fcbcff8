"""A day of an adopted operator, in its own Python: kubectl does what is in the file life.txt.

No Pod runs here, so what the operator asks of one is not asked.
"""

import os
import shlex
import subprocess
from pathlib import Path

import yaml

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import output
from kopf_kit.testing.api_server import OPERATOR

HERE = Path(__file__).parent
(PROJECT,) = yaml.safe_load((HERE / "PROJECT").read_text())["plugins"].values()
RUN = ("-m", "kopf", "run", "--standalone", "--all-namespaces", "--quiet", "-m")


def test_what_is_declared_is_served(api_server: ControlPlane) -> None:
    admin = f"--kubeconfig={api_server.kubeconfig('admin')}"

    def kubectl(*words: str) -> str:
        return output([tools.path("kubectl"), admin, "--namespace=default", *words], timeout=120)

    for crd in PROJECT["crds"]:
        kubectl("apply", "--server-side", f"--filename={HERE / crd}")
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    program = (HERE / ".venv" / "bin" / "python", *RUN, PROJECT["module"])
    environment = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig(OPERATOR))}
    with subprocess.Popen(program, env=environment, cwd=HERE) as operator:
        try:
            for line in (HERE / "life.txt").read_text().splitlines():
                kubectl(*shlex.split(line))
        finally:
            operator.terminate()
