"""What the charts have for an operator that the API server asks.

Those of examples/memcached convert objects, and those of examples/flightticket validate them.
"""

import base64
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from chart import helm
from chart.helm import HelmError, Manifest
from kopf_kit.crd import declared
from kopf_kit.project import documents, nested, registered
from kopf_kit.project.definition import load
from kopf_kit.rig import paths
from runtime import permits

PROJECT = nested.ensure(load(paths.CHECKOUT / "examples" / "memcached"))
CRD, NAME = "memcacheds.cache.example.com", f"{helm.RELEASE}-memcached-operator"
HOST = f"{NAME}-webhook.{helm.NAMESPACE}.svc"
TICKETS = nested.ensure(load(paths.CHECKOUT / "examples" / "flightticket"))
VALIDATING = "ValidatingWebhookConfiguration"
TICKETS_NAME = f"{helm.RELEASE}-flightticket-operator"


def rendered(**webhooks: Any) -> dict[tuple[str, str], Manifest]:
    return named({"webhooks": webhooks})


def named(values: helm.Values) -> dict[tuple[str, str], Manifest]:
    found = helm.render(values, chart=PROJECT.chart)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def client(manifests: dict[tuple[str, str], Manifest]) -> Manifest:
    """Return how the API server asks for conversions."""
    conversion = manifests["CustomResourceDefinition", CRD]["spec"]["conversion"]
    assert conversion["strategy"] == "Webhook"
    assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
    found: Manifest = conversion["webhook"]["clientConfig"]
    return found


def pod(manifests: dict[tuple[str, str], Manifest]) -> Manifest:
    found: Manifest = manifests["Deployment", NAME]["spec"]["template"]["spec"]
    return found


def test_the_api_server_asks_the_operator_through_a_service() -> None:
    manifests = rendered(port=10250)
    service = manifests["Service", f"{NAME}-webhook"]["spec"]
    (container,) = pod(manifests)["containers"]

    where = {"namespace": helm.NAMESPACE, "name": f"{NAME}-webhook", "port": 443}
    assert client(manifests) == {"service": {**where, "path": "/convert"}}
    (port,) = service["ports"]
    # By its name: a Pod of the release before, which has no such port, is not asked.
    assert (port["port"], port["targetPort"]) == (443, "webhook")
    (listening,) = [
        container_port
        for container_port in container["ports"]
        if container_port["name"] == "webhook"
    ]
    assert listening["containerPort"] == 10250
    assert "--webhook-bind-address=:10250" in container["args"]
    assert manifests["Deployment", NAME]["spec"]["template"]["metadata"]["labels"].items() >= (
        service["selector"].items()
    )


def test_by_default_the_operator_makes_its_certificate_and_may_do_just_that() -> None:
    manifests = rendered()
    role = manifests["Role", f"{NAME}-webhook"]["rules"]
    (wide,) = manifests["ClusterRole", f"{helm.NAMESPACE}.{NAME}-webhook"]["rules"]
    (container,) = pod(manifests)["containers"]

    assert {f"--webhook-secret={NAME}-webhook-tls", f"--webhook-service={NAME}-webhook"} <= {
        *container["args"]
    }
    assert [(rule["verbs"], rule["resourceNames"]) for rule in role] == [
        (["get", "create", "patch"], [f"{NAME}-webhook-tls"])
    ]
    assert "volumes" not in pod(manifests)
    assert (wide["resourceNames"], wide["verbs"]) == ([CRD], ["get", "patch"])


def test_where_the_kind_is_another_s_a_namespaced_operator_has_no_right_in_the_cluster() -> None:
    manifests = named({"watchNamespaces": ["team-a"], "crds": {"install": False}})

    assert ("Role", f"{NAME}-webhook") in manifests
    assert not [name for kind, name in manifests if kind == "ClusterRole"]


def test_cert_manager_makes_the_certificate_and_has_the_api_server_trust_it() -> None:
    manifests = rendered(certificate="certManager", issuerRef={"name": "ours"})
    certificate = manifests["Certificate", f"{NAME}-webhook"]["spec"]
    annotations = manifests["CustomResourceDefinition", CRD]["metadata"]["annotations"]
    (container,) = pod(manifests)["containers"]
    (volume,), (mount,) = pod(manifests)["volumes"], container["volumeMounts"]

    assert HOST in certificate["dnsNames"]
    assert certificate["issuerRef"] == {"name": "ours"}
    assert annotations["cert-manager.io/inject-ca-from"] == f"{helm.NAMESPACE}/{NAME}-webhook"
    assert annotations["helm.sh/resource-policy"] == "keep"
    assert certificate["secretName"] == volume["secret"]["secretName"]
    assert volume["name"] == mount["name"]
    assert f"--webhook-cert-path={mount['mountPath']}" in container["args"]
    assert ("Role", f"{NAME}-webhook") not in manifests
    assert ("Issuer", f"{NAME}-webhook") in rendered(certificate="certManager")


def test_a_certificate_of_one_s_own_comes_with_its_authority() -> None:
    manifests = rendered(certificate="secret", secretName="ours", caBundle="PEM")
    (volume,) = pod(manifests)["volumes"]

    assert volume["secret"]["secretName"] == "ours"
    assert client(manifests)["caBundle"] == base64.b64encode(b"PEM").decode()
    with pytest.raises(HelmError, match="give the authority that signed it"):
        rendered(certificate="secret", secretName="ours")
    with pytest.raises(HelmError, match=r"webhooks\.port is 8080, at which the operator serves"):
        rendered(port=8080)


def test_the_api_server_gets_through_the_network_policy() -> None:
    values = {"networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {}}]}}
    policy = named(values)["NetworkPolicy", NAME]["spec"]

    assert {"ports": [{"port": "webhook", "protocol": "TCP"}]} in policy["ingress"]


def test_a_pod_that_ends_still_answers_for_a_moment_and_has_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (container,) = pod(named({"terminationGracePeriodSeconds": 10}))["containers"]
    waited: list[int] = []
    monkeypatch.setattr(time, "sleep", waited.append)

    *python, program = container["lifecycle"]["preStop"]["exec"]["command"]
    exec(program)  # noqa: S102 (the chart's own)

    assert (python, waited) == (["python3", "-c"], [5])
    with pytest.raises(HelmError, match="got 9, want 10"):
        named({"terminationGracePeriodSeconds": 9})


def test_olm_makes_the_certificate_and_the_conversion() -> None:
    bundle = PROJECT.built / "bundle" / "manifests"
    csv = documents.load((bundle / f"{PROJECT.name}.clusterserviceversion.yaml").read_text())
    crd = documents.load((bundle / "cache.example.com_memcacheds.yaml").read_text())
    (webhook,) = csv["spec"]["webhookdefinitions"]
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}

    # Until OLM has written its own, a request that needs a conversion fails: without any, it would
    # lose fields.
    assert crd["spec"]["conversion"]["strategy"] == "Webhook"
    assert "caBundle" not in crd["spec"]["conversion"]["webhook"]["clientConfig"]
    # OLM refuses to drop a version that is stored, and nobody has values there.
    assert environment["MEMCACHED_OPERATOR_MIGRATE_STORAGE"] == "true"
    (wide,) = csv["spec"]["install"]["spec"]["clusterPermissions"]
    assert ["customresourcedefinitions/status"] in [rule["resources"] for rule in wide["rules"]]
    assert (webhook["type"], webhook["conversionCRDs"]) == ("ConversionWebhook", [CRD])
    assert webhook["targetPort"] in [port["name"] for port in container["ports"]]
    assert (webhook["deploymentName"], webhook["webhookPath"]) == (deployment["name"], "/convert")
    # OLM mounts tls.crt and tls.key there, and refuses other modes beside a conversion.
    mounted = "/tmp/k8s-webhook-server/serving-certs"
    assert environment["MEMCACHED_OPERATOR_WEBHOOK_CERT_PATH"] == mounted
    assert "volumes" not in deployment["spec"]["template"]["spec"]
    assert [mode["type"] for mode in csv["spec"]["installModes"] if mode["supported"]] == [
        "AllNamespaces"
    ]


def test_what_is_stored_is_rewritten_only_where_somebody_wants_it() -> None:
    role = ("ClusterRole", f"{helm.NAMESPACE}.{NAME}-migration")
    wanted = named({"controller": {"migrateStorage": True}, "watchNamespaces": ["a"]})
    (container,) = pod(wanted)["containers"]

    assert role not in rendered()
    assert "--migrate-storage" in container["args"]
    assert [(rule["resources"], rule["verbs"]) for rule in wanted[role]["rules"]] == [
        (["customresourcedefinitions"], ["get"]),
        (["customresourcedefinitions/status"], ["patch"]),
        (["memcacheds"], ["list", "patch"]),
    ]
    assert [rule.get("resourceNames") for rule in wanted[role]["rules"]] == [[CRD], [CRD], None]


def tickets(**values: Any) -> dict[tuple[str, str], Manifest]:
    found = helm.render(values, chart=TICKETS.chart)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def test_the_api_server_asks_before_it_stores_and_never_about_the_operators_own() -> None:
    manifests, name = tickets(), f"{helm.NAMESPACE}.{TICKETS_NAME}"
    (webhook,) = manifests[VALIDATING, name]["webhooks"]
    (container,) = manifests["Deployment", TICKETS_NAME]["spec"]["template"]["spec"]["containers"]
    (rule,) = manifests["ClusterRole", f"{name}-webhook"]["rules"]

    (service,) = webhook["clientConfig"].values()
    assert ("Service", service["name"]) in manifests
    assert service["path"] == "/validate/flighttickets.flights.com/known-route"
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
    own = f"system:serviceaccount:{helm.NAMESPACE}:{TICKETS_NAME}"
    assert webhook["matchConditions"][-1]["expression"] == f"request.userInfo.username != '{own}'"
    assert "namespaceSelector" not in webhook
    # It goes with the release, so that no write waits for an operator that is gone.
    assert "annotations" not in manifests[VALIDATING, name]["metadata"]
    # The operator writes into these alone, and is told which they are.
    assert f"--webhook-configuration={name}" in container["args"]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], ["get", "patch"])
    assert not [kind for kind, _ in manifests if kind == "MutatingWebhookConfiguration"]


def test_only_writes_in_the_watched_namespaces_are_asked_about() -> None:
    manifests = tickets(watchNamespaces=["team-a", "team-b"])
    (webhook,) = manifests[VALIDATING, f"{helm.NAMESPACE}.{TICKETS_NAME}"]["webhooks"]

    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}
    ]


def test_a_handler_of_kopfs_is_asked_as_kopf_would_have_it(tmp_path: Path) -> None:
    chart = shutil.copytree(TICKETS.chart, tmp_path / "chart")
    functions = declared.chart_admission(
        registered.declared(permits.manager.webhooks), TICKETS.name
    )
    (chart / "templates" / "_admission.tpl").write_text(functions)
    manifests = helm.render(chart=chart)
    name = f"{helm.NAMESPACE}.{TICKETS_NAME}"
    (day,) = helm.find(manifests, "MutatingWebhookConfiguration", name)["webhooks"]
    (holder,) = helm.find(manifests, VALIDATING, name)["webhooks"]

    assert day["objectSelector"]["matchExpressions"][0]["values"] == ["short"]
    assert (day["sideEffects"], holder["sideEffects"]) == ("NoneOnDryRun", "None")
    path = "/kopf/validating/known-holder.permits.example.dev"
    assert holder["clientConfig"]["service"]["path"] == path
    conditions = [condition["name"] for condition in holder["matchConditions"]]
    assert conditions == ["not-the-control-plane", "not-the-operator"]


def test_whoever_makes_the_certificate_tells_the_configuration() -> None:
    name = f"{helm.NAMESPACE}.{TICKETS_NAME}"
    managed = tickets(webhooks={"certificate": "certManager"})
    brought = {"certificate": "secret", "secretName": "ours", "caBundle": "PEM"}
    (webhook,) = tickets(webhooks=brought)[VALIDATING, name]["webhooks"]

    assert managed[VALIDATING, name]["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{helm.NAMESPACE}/{TICKETS_NAME}-webhook"
    }
    assert ("ClusterRole", f"{name}-webhook") not in managed
    assert webhook["clientConfig"]["caBundle"] == base64.b64encode(b"PEM").decode()


def test_olm_writes_the_configuration_itself() -> None:
    bundle = TICKETS.built / "bundle" / "manifests"
    csv = documents.load((bundle / f"{TICKETS.name}.clusterserviceversion.yaml").read_text())
    (webhook,) = csv["spec"]["webhookdefinitions"]

    assert (webhook["type"], webhook["failurePolicy"]) == ("ValidatingAdmissionWebhook", "Ignore")
    assert webhook["webhookPath"] == "/validate/flighttickets.flights.com/known-route"
    (rule,) = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == (["flighttickets"], ["CREATE"])
    assert all(mode["supported"] for mode in csv["spec"]["installModes"])


def test_an_operator_without_webhooks_has_nothing_of_them() -> None:
    for values in ({}, {"networkPolicy": {"enabled": True}}):
        assert "webhook" not in str(helm.render(values))
    assert "webhook" not in (helm.CHART / "values.yaml").read_text()
