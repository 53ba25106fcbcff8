"""What the commands say of what they are asked for, and of what they find."""

import re
import sys
from pathlib import Path

import pytest

from kopf_kit import __main__
from kopf_kit.cli import crd, deploy
from kopf_kit.kubectl.__main__ import guarded
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.scaffold import repository

OURS = f"{crd.NAMESPACE}/{crd.RELEASE}"


def test_an_unknown_tool_is_refused_with_one_list_of_the_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kopf-kit", "tool", "nosuch"])

    assert __main__.main() == 2

    said = capsys.readouterr().err
    assert (said.count("scorecard-test"), said.count("\n")) == (1, 1)


def test_each_command_that_a_repository_names_exists() -> None:
    pages = [*repository.TEMPLATES.rglob("*.md.in"), *paths.CHECKOUT.glob("examples/*/README*.md")]
    called = r"(?:uv run |uvx |`)kopf-kit(?:@latest)? ([a-z][\w-]*)"
    named = {word for page in pages for word in re.findall(called, page.read_text())}

    assert named
    assert named <= {*__main__.COMMANDS}


def test_a_plugin_that_is_interrupted_ends_as_a_shell_expects() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert guarded(interrupted) == 130


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Stand in for a cluster without operators, whose CRD is of the release in the file `owner`."""
    program = tmp_path / "program"
    program.write_text(
        f"""#!/bin/sh
        case "$*" in
          *deployments*) echo '{{"items": []}}' ;;
          *release-name*) cat {tmp_path}/owner ;;
          *version*) echo v3.18.0 ;;
        esac
        """
    )
    program.chmod(0o755)
    return Cluster("here", tmp_path / "kubeconfig", None, program, program, None, existing=True)


@pytest.mark.parametrize(
    ("owner", "is_told"), [("kinds/crds", True), (OURS, False), ("/", False), ("", False)]
)
def test_deploy_says_whose_crd_it_takes_over(
    owner: str,
    is_told: bool,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "owner").write_text(owner)
    monkeypatch.setattr(artifacts, "publish_installation", lambda _: Published("chart", ()))

    deploy.install(cluster)

    said = capsys.readouterr().err
    assert (f"is marked as part of the Helm release {owner}; it becomes" in said) == is_told
    assert ("note:" in said) == is_told
