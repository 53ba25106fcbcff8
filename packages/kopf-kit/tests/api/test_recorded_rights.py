"""`kopf-kit rights` with a real API server, of an operator that need not be Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit.project import documents

_SCRIPT = """\
import os, subprocess
from kopf_kit.rig import tools
from kopf_kit.testing.api_server import OPERATOR

OF_A_SHELL = '''
$KUBECTL get secrets
$KUBECTL create configmap greeting --from-literal=text=Hello
$KUBECTL annotate configmap greeting seen=yes
'''

def test_it_greets(api_server):
    kubectl = f"{tools.path('kubectl')} --kubeconfig={api_server.kubeconfig(OPERATOR)}"
    environment = {**os.environ, "KUBECTL": kubectl}
    subprocess.run(["sh", "-ec", OF_A_SHELL], env=environment, check=True)
"""


@pytest.mark.long
def test_the_rights_of_an_operator_in_another_language_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "test_shell.py").write_text(_SCRIPT)
    test = (sys.executable, "-m", "pytest", "-q", "test_shell.py")
    command = (sys.executable, "-m", "kopf_kit", "rights", "record", "--", *test)

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    role = documents.load((tmp_path / "rights.yaml").read_text())
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
    ]
