"""The Deployment runs the operator as the values say."""

import pytest

from chart.helm import (
    FULLNAME,
    NAMESPACE,
    RELEASE,
    VERSION,
    Values,
    container,
    find,
    names,
    pod,
    refusal,
    render,
    understood,
)
from chart.scenarios import SCENARIOS
from runtime.support import labels

DIGEST, OTHER = "sha256:" + "5a" * 32, "sha256:" + "6b" * 32


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_the_operator_understands_its_arguments(values: Values) -> None:
    # What Kubernetes makes of the Pod's `fieldRef`s.
    (deployment,) = (m for m in render(values) if m["kind"] == "Deployment")
    env = {"POD_NAME": "operator-1", "POD_NAMESPACE": deployment["metadata"]["namespace"]}

    settings = understood(container(values)["args"], env)

    assert settings.namespaces == tuple(values.get("watchNamespaces", ()))
    assert settings.leader_elect == values.get("leaderElection", {}).get("enabled", True)
    assert settings.lease_namespace == values.get("namespaceOverride", NAMESPACE)
    assert (settings.metrics_bind_address is not None) == values.get("metrics", {}).get(
        "enabled", True
    )


def test_the_defaults_are_the_operator_s_own() -> None:
    env = {"POD_NAME": "operator-1", "POD_NAMESPACE": NAMESPACE}
    different = ("--lease-name", "--lease-namespace", "--leader-elect", "--log-format")
    arguments = [a for a in container()["args"] if not a.startswith(different)]

    assert understood(arguments, env) == understood([], env)


@pytest.mark.parametrize("selector", labels.VALID)
def test_a_label_selector_reaches_the_operator_as_it_is(selector: str) -> None:
    arguments = container({"watchNamespaceSelector": selector})["args"]

    assert understood(arguments, {}).namespace_selector == selector


@pytest.mark.parametrize("selector", labels.INVALID)
def test_what_is_no_label_selector_is_refused_before_anything_is_installed(selector: str) -> None:
    sentence = refusal({"watchNamespaceSelector": selector}).splitlines()[0]

    assert "watchNamespaceSelector is " in sentence
    assert sentence.endswith("such as team=a or tier in (a, b).")


def test_extra_arguments_come_last_so_that_they_prevail() -> None:
    arguments = container({"extraArgs": ["--log-level=debug"]})["args"]

    assert arguments[-1] == "--log-level=debug"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"ghcr.io/example/widget-operator:{VERSION}"),
        ({"registry": "quay.io"}, f"quay.io/example/widget-operator:{VERSION}"),
        ({"registry": "", "repository": "localhost:5001/mine"}, f"localhost:5001/mine:{VERSION}"),
        ({"tag": "v2"}, "ghcr.io/example/widget-operator:v2"),
        ({"digest": DIGEST}, f"ghcr.io/example/widget-operator@{DIGEST}"),
        ({"tag": "v2", "digest": DIGEST}, f"ghcr.io/example/widget-operator:v2@{DIGEST}"),
        # As published charts name it, whose users may still choose another one.
        ({"tag": f"@{DIGEST}"}, f"ghcr.io/example/widget-operator@{DIGEST}"),
        ({"tag": f"v1@{OTHER}", "digest": DIGEST}, f"ghcr.io/example/widget-operator:v1@{DIGEST}"),
        # Null is what values say that a parent chart leaves empty.
        ({"registry": None, "tag": "v2"}, "example/widget-operator:v2"),
    ],
)
def test_the_operator_s_image(image: Values, expected: str) -> None:
    assert container({"image": image})["image"] == expected


@pytest.mark.parametrize("registry", ["mirror.example", "mirror.example/"])
def test_a_global_registry_goes_before_both_images(registry: str) -> None:
    operator = container({"global": {"imageRegistry": registry}})

    assert operator["image"] == f"mirror.example/example/widget-operator:{VERSION}"
    assert "--widget-image=mirror.example/library/busybox:1.37" in operator["args"]


@pytest.mark.parametrize("shared", [{"name": "all"}, "all"], ids=["object", "name"])
def test_pull_secrets_of_the_parent_chart_and_our_own_are_used(shared: object) -> None:
    values: Values = {
        "global": {"imagePullSecrets": [shared]},
        "imagePullSecrets": [{"name": "own"}],
    }

    assert pod(values)["spec"]["imagePullSecrets"] == [{"name": "all"}, {"name": "own"}]


def test_the_operator_learns_who_it_is() -> None:
    env = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container()["env"]}

    assert env == {
        f"POD_{field.upper()}": f"metadata.{field}" for field in ("name", "namespace", "uid")
    }


def test_p10_only_strings_among_extra_objects_are_templates() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "mine"},
        "spec": {"groups": [{"name": "a", "rules": [{"alert": "{{ $labels.pod }}"}]}]},
    }

    manifests = render({"extraObjects": [rule, text]})

    assert find(manifests, "PrometheusRule", "mine") == rule
    find(manifests, "ConfigMap", RELEASE)


def test_the_kubelet_asks_whether_the_operator_lives_and_is_ready() -> None:
    operator = container()
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}

    assert ports == {"metrics": 8080, "health": 8081}
    for probe, path in {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }.items():
        assert operator[probe]["httpGet"] == {"path": path, "port": "health"}


def test_the_operator_cannot_write_to_its_root_and_its_user_is_not_fixed() -> None:
    operator = container()
    contexts = pod()["spec"]["securityContext"] | operator["securityContext"]

    assert operator["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & contexts.keys()


def test_the_service_account_s_token_is_mounted_into_the_operator_only() -> None:
    assert find(render(), "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod()["spec"]["automountServiceAccountToken"] is True


def test_a_service_account_of_one_s_own_is_used_and_bound() -> None:
    manifests = render({"serviceAccount": {"create": False, "name": "mine"}})

    assert "ServiceAccount" not in {kind for kind, _, _ in names(manifests)}
    deployment = find(manifests, "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    for manifest in manifests:
        for subject in manifest.get("subjects", ()):
            assert subject == {"kind": "ServiceAccount", "name": "mine", "namespace": NAMESPACE}


def test_without_an_election_no_two_operators_ever_run_together() -> None:
    deployment = find(render({"leaderElection": {"enabled": False}}), "Deployment")

    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    arguments = container({"leaderElection": {"enabled": False}})["args"]
    assert not [a for a in arguments if a.startswith(("--leader-elect", "--lease-"))]


def test_an_upgrade_finds_the_selector_as_it_was_because_kubernetes_refuses_to_change_it() -> None:
    label = "app.kubernetes.io"

    selector = find(render(), "Deployment")["spec"]["selector"]

    of_every_release = {f"{label}/name": "widget-operator", f"{label}/instance": "demo"}
    assert selector == {"matchLabels": of_every_release}


def test_labels_of_the_pod_cannot_break_the_selector() -> None:
    selected = find(render(), "Deployment")["spec"]["selector"]["matchLabels"]

    labels = pod({"podLabels": {"app.kubernetes.io/name": "else", "a": "b"}})["metadata"]["labels"]

    assert labels.items() >= (selected | {"a": "b"}).items()


def test_p7_the_operator_s_pod_runs_on_linux_nodes() -> None:
    assert pod({"nodeSelector": {"disk": "ssd"}})["spec"]["nodeSelector"] == {
        "disk": "ssd",
        "kubernetes.io/os": "linux",
    }


def test_a_service_leads_to_metrics_and_probes() -> None:
    service = find(render(), "Service", f"{FULLNAME}-metrics")

    assert service["spec"]["ports"] == [
        {"name": "metrics", "port": 8080, "targetPort": "metrics", "protocol": "TCP"},
        {"name": "health", "port": 8081, "targetPort": "health", "protocol": "TCP"},
    ]
    assert service["spec"]["selector"].items() <= pod()["metadata"]["labels"].items()


def test_metrics_can_be_turned_off_and_the_probes_stay() -> None:
    off = {"metrics": {"enabled": False}}
    operator = container(off)
    service = find(render(off), "Service", f"{FULLNAME}-metrics")

    assert "--metrics-bind-address=0" in operator["args"]
    assert [port["name"] for port in operator["ports"]] == ["health"]
    assert [port["name"] for port in service["spec"]["ports"]] == ["health"]


def test_a_probe_can_be_changed_replaced_or_left_out() -> None:
    operator = container(
        {
            "startupProbe": {"failureThreshold": 90},
            "livenessProbe": {"exec": {"command": ["true"]}},
            "readinessProbe": {"enabled": False},
        }
    )

    assert operator["startupProbe"]["failureThreshold"] == 90
    assert operator["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert operator["livenessProbe"]["exec"] == {"command": ["true"]}
    assert not {"httpGet", "enabled"} & operator["livenessProbe"].keys()
    assert "readinessProbe" not in operator


def test_a_probe_can_be_left_out_by_null_too() -> None:
    operator = container({"startupProbe": None, "livenessProbe": {"httpGet": None, "exec": {}}})

    assert "startupProbe" not in operator
    assert "httpGet" not in operator["livenessProbe"]


@pytest.mark.parametrize("strategy", [{}, {"type": "RollingUpdate"}], ids=str)
def test_kubernetes_own_rollout_is_said_so_that_it_can_be_taken_back(strategy: Values) -> None:
    # With Helm 4's server-side apply, what the API server fills in would stay beside a Recreate.
    deployment = find(render({"strategy": strategy}), "Deployment")

    assert deployment["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }


def test_the_user_namespace_is_the_node_s_unless_asked_otherwise() -> None:
    assert "hostUsers" not in pod()["spec"]
    assert pod({"hostUsers": False})["spec"]["hostUsers"] is False
