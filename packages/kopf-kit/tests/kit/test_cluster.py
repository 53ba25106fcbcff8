"""kopf_kit.rig.cluster: what CLUSTER may say, and what is told where no cluster answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kopf_kit.cli import crd, deploy, push
from kopf_kit.image import build
from kopf_kit.rig import cluster, engine, olm, tools
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for kubectl: a cluster that refuses, of a kubeconfig that says where it is."""
    file = tmp_path / "kubectl"
    file.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *current-context*) echo staging ;;\n"
        "  *jsonpath*) echo https://192.0.2.7:6443 ;;\n"
        "  *) echo 'dial tcp 192.0.2.7:6443: connection refused' >&2; exit 1 ;;\n"
        "esac\n"
    )
    file.chmod(0o755)
    monkeypatch.setattr(tools, "path", lambda name: file)


def test_cluster_is_kind_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTER", raising=False)
    assert not cluster.is_existing()
    monkeypatch.setenv("CLUSTER", "existing")
    assert cluster.is_existing()


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


@pytest.mark.parametrize("remove", [deploy.undeploy, crd.uninstall, olm.down, cluster.down])
def test_nothing_is_looked_for_under_a_name_that_kind_refuses(
    remove: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "up", lambda: pytest.fail("the engine is started"))
    monkeypatch.setattr(cluster, "NAME", "Bad_Name")

    with pytest.raises(KitError, match=r"^KIND_CLUSTER_NAME=Bad_Name is not valid"):
        remove()


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

    with pytest.raises(KitError, match="no kubeconfig at /no/such/file"):
        cluster.up()


def test_a_folder_as_kubeconfig_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))

    with pytest.raises(KitError, match="is a folder; set KUBECONFIG"):
        cluster.up()


def test_a_kubeconfig_without_its_context_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "kubectl"
    script.write_text("#!/bin/sh\necho 'error: cannot locate context nowhere' >&2\nexit 1\n")
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("KUBECONFIG", str(script))

    with pytest.raises(KitError, match=r"cannot be used \(error: cannot locate context nowhere"):
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
    for part in (str(kubeconfig), "staging", "https://192.0.2.7:6443", "connection refused"):
        assert part in said
    assert "\n" not in said


def test_an_existing_cluster_is_never_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")

    with pytest.raises(KitError, match="does not delete it"):
        cluster.down()


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
