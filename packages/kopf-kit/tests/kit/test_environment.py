"""kopf_kit.program: what a user has set for other programs reaches none of ours."""

import os

import pytest

from kopf_kit.rig import steps

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


def test_this_process_was_scrubbed_before_anything_else() -> None:
    assert not [name for name in os.environ if name.startswith(("HELM_", "MESSAGE_OPERATOR_"))]
