"""The operator's image, as it is in the registry."""

import json
import subprocess
from pathlib import Path

import pytest

from kopf_kit.image import build
from kopf_kit.rig import dockerfiles, public_images
from kopf_kit.rig.cluster import Cluster

BASE_AND_30_MB = 30_000_000


def docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def ref(e2e_cluster: Cluster) -> str:
    if e2e_cluster.existing:
        pytest.skip("the image of an existing cluster is not built here")
    return build.reference()


def run(ref: str, code: str) -> str:
    return docker("run", "--rm", "--read-only", "--entrypoint", "python3", ref, "-c", code)


def test_it_runs_as_a_numeric_user_without_privileges_on_a_read_only_root(ref: str) -> None:
    user = docker("inspect", "-f", "{{.Config.User}}", ref)

    assert user == "65532:65532"
    assert "message-operator" in docker(
        "run", "--rm", "--read-only", "--cap-drop=ALL", ref, "--version"
    )


def test_it_has_no_shell_no_package_manager_and_no_tool_of_ours(ref: str) -> None:
    code = (
        "import shutil, importlib.util as u; print([p for p in ('sh', 'bash', 'apt', 'pip', "
        "'busybox') if shutil.which(p)] + [m for m in ('kubernetes', 'kubernetes_asyncio', "
        "'pykube', 'pip', 'kopf_kit', 'kopf_offline', 'pytest', 'jsonschema') if u.find_spec(m)])"
    )

    assert run(ref, code) == "[]"


def test_what_we_add_to_the_base_is_small(ref: str) -> None:
    code = (
        "import os; print(sum(os.lstat(os.path.join(d, f)).st_size "
        "for d, _, fs in os.walk('/app') for f in fs))"
    )

    assert int(run(ref, code)) < BASE_AND_30_MB


def test_nothing_is_compiled_when_it_starts(ref: str) -> None:
    code = (
        "import sys, os, message_operator.operator; print([s.origin for m in "
        "list(sys.modules.values()) if (s := getattr(m, '__spec__', None)) and s.has_location "
        "and s.origin.endswith('.py') and not os.path.exists(s.cached)])"
    )

    assert run(ref, code) == "[]"


def test_it_says_what_it_is_and_of_which_commit(ref: str) -> None:
    labels = json.loads(docker("inspect", "-f", "{{json .Config.Labels}}", ref))

    prefix = "org.opencontainers.image"
    assert labels[f"{prefix}.title"] == "message-operator"
    assert labels[f"{prefix}.version"] == build.reference().rpartition(":")[2]
    assert len(labels[f"{prefix}.revision"]) == 40


def test_it_has_the_licence_of_each_distribution_that_is_in_it(ref: str) -> None:
    code = (
        "import os, glob; print(sorted({d.partition('-')[0].lower() for d in os.listdir('/app') "
        "if d.endswith('.dist-info')} - {f.split('/')[2].replace('-', '_').lower() "
        "for f in glob.glob('/licenses/*/*')}), os.path.isfile('/licenses/LICENSE'))"
    )

    assert run(ref, code) == "[] True"


@pytest.mark.long
def test_it_takes_another_base(ref: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As certification asks for one of Red Hat's: with labels, a shell, and root as its user."""
    bases = build.public_bases() if public_images.are_in_reach() else dockerfiles.python()
    (tmp_path / "Dockerfile").write_text(
        f'FROM {bases[0]}\nLABEL name=theirs com.redhat.component=base\nUSER 0\nCMD ["sh"]\n'
    )
    docker("build", "--quiet", "--tag=another-base:test", str(tmp_path))
    monkeypatch.setenv("RUNTIME_BASE", "another-base:test")

    other = build.build(f"{ref}-on-another-base")

    labels = json.loads(docker("inspect", "-f", "{{json .Config.Labels}}", other))
    assert (labels["com.redhat.component"], labels["name"]) == ("base", "message-operator")
    test_it_runs_as_a_numeric_user_without_privileges_on_a_read_only_root(other)
    assert run(other, "import shutil; print(shutil.which('sh') is not None)") == "True"
