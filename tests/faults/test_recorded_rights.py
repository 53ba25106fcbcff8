"""`kopf-kit rights` with a real API server: it records what the author of the example wrote."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kopf_kit.project import documents
from kopf_kit.rig import paths

NOTES = paths.CHECKOUT / "examples" / "plain-kopf"
LIFE = ("-m", "pytest", "-q", "-o", "asyncio_mode=auto", "tests/faults", "-k", "there_and_back")


@pytest.mark.long
def test_the_recorded_rights_are_the_author_s_and_differences_are_told(tmp_path: Path) -> None:
    notes = shutil.copytree(
        NOTES, tmp_path / "notes", ignore=shutil.ignore_patterns("__pycache__", "build")
    )
    role = documents.load((notes / "role.yaml").read_text())
    rules = role["rules"]
    wrong = {**role, "rules": [{**rules[0], "verbs": ["create", "delete"]}]}
    (notes / "role.yaml").write_text(yaml.safe_dump(wrong))

    ended = subprocess.run(
        [sys.executable, "-m", "kopf_kit", "rights", "record", "--", sys.executable, *LIFE],
        cwd=notes,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert documents.load((notes / "rights.yaml").read_text())["rules"] == rules
    lacks = "role.yaml does not give it, and the operator asked for"
    assert f"missing: the right to patch pods: {lacks} /api/v1/namespaces/*/pods/note-hello" in said
    assert "unused: the right to delete pods: role.yaml gives it, and nothing asked for it" in said


#: An operator need not be Python: this one is a shell's.
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
def test_the_rights_of_an_operator_in_another_language_are_recorded(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_shell.py").write_text(_SCRIPT)
    test = ("--", sys.executable, "-m", "pytest", "-q", "test_shell.py")

    def rights(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "kopf_kit", "rights", *words, *test],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    ended = rights("record")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    role = documents.load((tmp_path / "rights.yaml").read_text())
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
    ]
