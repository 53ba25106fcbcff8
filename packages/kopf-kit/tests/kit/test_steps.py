"""What commands run, what they tell a person, and the parts that they make once."""

import os
import re
import threading
import time
from pathlib import Path

import pytest

from kopf_kit.rig import run, steps, tools
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kopf-kit"


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(KitError, match=r"(?s)exit code 3.*sh -c.*no such thing"):
        run.output(["sh", "-c", "echo no such thing >&2; exit 3"])


def test_a_command_without_end_is_ended_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"

    with pytest.raises(KitError, match="timed out after 0s"):
        run.output(["sh", "-c", f"(sleep 4; touch {alive}) & sleep 60"], timeout=0.2)

    time.sleep(4.2)
    assert not alive.exists()


def test_a_step_says_its_name_and_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    with steps.step("Bake") as work:
        work.run(["echo", "details"], timeout=60)

    said = capsys.readouterr().err
    assert said.startswith("==> Bake\n")
    assert re.search(r"Bake: \d+s", said)
    assert "details" not in said
    assert "details" in work.log.read_text()


def test_a_step_that_fails_quotes_its_log_and_says_what_next() -> None:
    with pytest.raises(KitError) as failure, steps.step("Bake") as work:
        work.run(["sh", "-c", "seq 100; echo burnt; exit 1"], timeout=60)

    said = str(failure.value)
    assert "Bake: failed after" in said
    assert "burnt" in said
    assert "\n    1\n" not in said
    assert str(work.log) in said
    assert "same command" in said


def test_a_failure_ends_what_runs_beside_it() -> None:
    began = time.monotonic()

    def fail() -> None:
        time.sleep(0.3)
        raise KitError("no flour")

    with pytest.raises(KitError, match="no flour"):
        steps.together(lambda: run.output(["sleep", "600"]), fail)

    assert time.monotonic() - began < 300
    assert run.output(["echo", "again"]) == "again\n"


def test_a_part_is_made_once_and_found_again() -> None:
    made = []

    def make(part: Path) -> None:
        made.append(part)
        (part / "program").write_text("v1")

    first = tools.part("tool", "v1", "abc", make)
    second = tools.part("tool", "v1", "abc", make)

    assert first == second
    assert (first / "program").read_text() == "v1"
    assert len(made) == 1


def test_a_part_that_fails_half_way_leaves_nothing(folder: Path) -> None:
    def fail(part: Path) -> None:
        (part / "half").write_text("")
        raise KitError("the compiler says no")

    with pytest.raises(KitError, match="compiler"):
        tools.part("tool", "v1", "abc", fail)

    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_what_a_killed_run_left_is_removed_and_not_used(folder: Path) -> None:
    left_over = folder / ".tool-v1-abc.x7"
    left_over.mkdir(parents=True)
    (left_over / "half").write_text("")

    part = tools.part("tool", "v1", "abc", lambda part: (part / "whole").touch())

    assert [path.name for path in part.iterdir()] == ["whole"]
    assert not left_over.exists()


def test_two_runs_at_the_same_time_make_a_part_once() -> None:
    made = []
    started, go_on = threading.Event(), threading.Event()

    def make(part: Path) -> None:
        made.append(part)
        started.set()
        go_on.wait(5)

    runs = [threading.Thread(target=tools.part, args=("tool", "v1", "abc", make)) for _ in range(2)]
    runs[0].start()
    started.wait(5)
    runs[1].start()
    go_on.set()
    for thread in runs:
        thread.join(5)

    assert len(made) == 1


USERS = {
    "KUBECONFIG": "/home/user/.kube/production",
    "HELM_KUBECONTEXT": "production",
    "HELM_NAMESPACE": "elsewhere",
    "HELM_DRIVER": "sql",
    "KUBECTL_EXTERNAL_DIFF": "meld",
    "KUBERC": "/home/user/.kuberc",
    "KIND_EXPERIMENTAL_PROVIDER": "podman",
    "MESSAGE_OPERATOR_WORKERS": "none",
    "WATCH_NAMESPACE": "elsewhere",
    "POD_NAMESPACE": "elsewhere",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "MAKEFLAGS": " -- KIND_CLUSTER_NAME=other",
    "PLATFORMS": "linux/arm64",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MESSAGE_IMG": "registry.example.com/busybox:1",
    "BUNDLE_IMG": "registry.example.com/bundle:1",
    "REGISTRY": "registry.example.com/you",
}
KEPT = {"PATH": "/bin", "DOCKER_HOST": "tcp://127.0.0.1:2375", "HTTPS_PROXY": "http://proxy:3128"}


def test_a_test_sees_nothing_of_the_users_clusters_and_settings() -> None:
    environ = {**USERS, **KEPT}

    steps.scrub_for_tests(("MESSAGE_OPERATOR_", "MESSAGE_IMG"), environ)

    assert environ.items() >= {**KEPT, "KUBECONFIG": os.devnull}.items()
    assert not (USERS.keys() - {"KUBECONFIG"}) & environ.keys()


def test_an_existing_cluster_is_that_of_the_users_kubeconfig() -> None:
    environ = {**USERS, "CLUSTER": "existing"}

    steps.scrub(environ)

    assert environ["KUBECONFIG"] == USERS["KUBECONFIG"]
    assert "HELM_KUBECONTEXT" not in environ  # kubectl would use one cluster, Helm another


def test_an_existing_cluster_pulls_the_images_that_the_user_names() -> None:
    environ = {**USERS, "CLUSTER": "existing"}

    steps.scrub_for_tests(("MESSAGE_OPERATOR_", "MESSAGE_IMG"), environ)

    assert environ["MESSAGE_IMG"] == USERS["MESSAGE_IMG"]
    assert "MESSAGE_OPERATOR_WORKERS" not in environ


def test_make_run_takes_the_operators_settings_from_the_environment() -> None:
    environ = dict(USERS)

    steps.scrub(environ)

    assert environ["MESSAGE_OPERATOR_WORKERS"] == "none"


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_no_proxy_is_asked_for_what_runs_on_this_machine(name: str) -> None:
    environ = {name: "example.com"}

    steps.scrub(environ)

    assert environ[name].split(",")[:2] == ["example.com", "localhost"]


def test_a_digest_tells_contents_and_names_apart(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    (recipe / "deep").mkdir(parents=True)
    (recipe / "deep" / "file").write_text("one")
    before = tools.digest("text", recipe)

    assert tools.digest("text", recipe) == before
    assert tools.digest("texts", recipe) != before
    (recipe / "deep" / "file").rename(recipe / "deep" / "other")
    assert tools.digest("text", recipe) != before
