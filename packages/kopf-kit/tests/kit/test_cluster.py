"""The kind cluster with its Kubernetes, and an existing one: what is told where none answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.cli import crd, deploy, push
from kopf_kit.image import build
from kopf_kit.rig import cluster, engine, kind, olm, paths, public_images, tools, versions
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for kubectl: a cluster that refuses, of a kubeconfig that says where it is."""
    file = tmp_path / "kubectl"
    file.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *current-context*) echo staging ;;\n"
        "  *) echo 'dial tcp 192.0.2.7:6443: connection refused' >&2; exit 1 ;;\n"
        "esac\n"
    )
    file.chmod(0o755)
    monkeypatch.setattr(tools, "path", lambda name: file)


def test_a_wrong_cluster_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "exsiting")

    with pytest.raises(KitError, match=r"CLUSTER=exsiting .*CLUSTER=existing"):
        cluster.up()


@pytest.mark.parametrize("name", ["Bad_Name", "a b", "이름"])
def test_a_name_that_kind_refuses_is_refused_before_the_engine_starts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "up", lambda: pytest.fail("the engine is started"))

    with pytest.raises(KitError, match=f"^KIND_CLUSTER_NAME={name} is not valid; use lower case"):
        cluster.up(name)


@pytest.mark.parametrize(
    "begin",
    [
        *(cluster.up, build.build, build.push),
        *(push.push_bundle, push.push_catalog, push.push_chart),
    ],
)
def test_a_wrong_choice_of_images_is_refused_before_the_engine_starts(
    begin: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "up", lambda: pytest.fail("the engine is started"))
    monkeypatch.setenv("IMAGES", "Pull")

    with pytest.raises(KitError, match=r"^IMAGES=Pull is not valid\. Use IMAGES=pull"):
        begin()


def test_a_missing_kubeconfig_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")

    with pytest.raises(KitError, match="Tried kubeconfig /no/such/file"):
        cluster.up()


def test_a_cluster_that_does_not_answer_is_told_with_all_that_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.touch()
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    with pytest.raises(KitError) as failure:
        cluster.up()

    said = str(failure.value)
    for part in (str(kubeconfig), "staging", "connection refused"):
        assert part in said
    assert "\n" not in said


def test_an_existing_cluster_is_never_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")

    with pytest.raises(KitError, match="does not delete it"):
        cluster.down()


def test_export_leads_to_what_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl, helm = tmp_path / "built" / "kubectl", tmp_path / "bin" / "helm"
    for program in (kubectl, helm):
        program.parent.mkdir()
        program.touch(0o755)
    here = cluster.Cluster("a", tmp_path / "a", None, kubectl, helm, None, existing=False)

    monkeypatch.setenv("PATH", f"{helm.parent}")
    assert here.export == f'export KUBECONFIG={tmp_path}/a PATH="{kubectl.parent}:$PATH"'
    monkeypatch.setenv("PATH", f"{helm.parent}:{kubectl.parent}")
    assert here.export == f"export KUBECONFIG={tmp_path}/a"


@pytest.mark.parametrize("remove", [deploy.undeploy, crd.uninstall, olm.down, cluster.down])
def test_where_there_is_no_engine_nothing_is_removed_and_nothing_installed(
    remove: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    remove()

    assert "There is no" in capsys.readouterr().err


def test_olm_is_never_removed_from_an_existing_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")

    with pytest.raises(KitError, match="not removed from here"):
        olm.down()


#: How the engine tells of a node that has run without a break.
_STATE = "true 2026-11-21T10:00:00Z 2026-11-21T10:00:00Z {}"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an image registry in reach."""
    monkeypatch.setattr(public_images, "are_in_reach", lambda: True)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.delenv("KUBERNETES", raising=False)


def node() -> Any:
    """Return what kind is told of the node."""
    configuration: dict[str, Any] = kind._configuration()
    return configuration["nodes"][0]


def test_the_newer_of_the_proved_kubernetes_have_a_node_image_by_its_digest() -> None:
    assert [*versions.NODES] == [*versions.PROVED][-len(versions.NODES) :]
    for minor, image in versions.NODES.items():
        name, _, digest = image.partition("@sha256:")
        assert name.startswith(f"docker.io/kindest/node:v{minor}.")
        assert len(digest) == 64


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("minor", versions.NODES)
def test_kubernetes_chooses_the_node_s_image(minor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "image" not in node()

    monkeypatch.setenv("KUBERNETES", minor)

    assert node()["image"] == versions.NODES[minor]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("chosen", "runs"),
    [
        ("1.36", "kindest/node:v1.37.0"),
        ("", versions.NODES["1.35"]),
        ("", f"{paths.prefix()}/node:v1.30.1-0123456789"),
        (versions.OLDEST, f"{paths.prefix()}/node:{versions.KUBERNETES}-0123456789"),
    ],
)
def test_a_cluster_of_another_kubernetes_is_created_again(
    chosen: str, runs: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBERNETES", chosen)
    monkeypatch.setattr(engine, "container", lambda *_: _STATE.format(runs))

    assert not kind.is_healthy("here")

    assert f"runs {runs}; it is created again" in "".join(capfd.readouterr())


def test_what_cannot_be_pulled_is_refused_before_the_cluster_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES", versions.OLDEST)
    monkeypatch.delenv("CLUSTER", raising=False)
    monkeypatch.setattr(engine, "up", lambda: None)
    monkeypatch.setattr(public_images, "are_in_reach", lambda: False)
    monkeypatch.setattr(kind, "is_healthy", lambda _: pytest.fail("the cluster is looked at"))

    with pytest.raises(KitError, match=f"^KUBERNETES={versions.OLDEST}: .*leave KUBERNETES out"):
        cluster.up()


@pytest.mark.usefixtures("registry")
def test_a_version_that_kind_has_no_node_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    minor = versions.OLDEST
    assert minor not in versions.NODES
    monkeypatch.setenv("KUBERNETES", minor)

    with pytest.raises(KitError, match=rf"^KUBERNETES={minor}: kind v\S+ has no image .* 1\.37$"):
        kind.check_version()
