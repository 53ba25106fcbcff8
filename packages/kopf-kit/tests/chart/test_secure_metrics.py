"""Metrics that only some may scrape: certificate, rights, and monitors go together."""

from typing import Any

import pytest

from chart.helm import (
    FULLNAME,
    NAMESPACE,
    PROGRAMS,
    Manifest,
    Values,
    container,
    endpoint,
    find,
    names,
    pod,
    render,
    understood,
)

HOST = f"{FULLNAME}-metrics.{NAMESPACE}.svc"
SECRET = f"{FULLNAME}-metrics-tls"
ROLE = f"{NAMESPACE}.{FULLNAME}-metrics"
CERT_MANAGER: Values = {"enabled": True, "certManager": {"enabled": True}}
OWN_SECRET: Values = {"enabled": True, "secretName": "own"}
TOKEN: Values = {"credentials": {"name": "scraper", "key": "token"}}


def secured(secure: Values = CERT_MANAGER, **metrics: object) -> Values:
    """Return values with secure metrics, and these below `metrics`."""
    return {"metrics": {"secure": secure, **metrics}}


def settings(values: Values) -> Any:
    """Return what the operator understands of its arguments."""
    return understood(container(values)["args"])


# --- the operator -------------------------------------------------------------------------------


def test_by_default_metrics_are_plain_and_take_no_rights() -> None:
    kinds = {kind for kind, _, _ in names(render({"watchNamespaces": ["team-a"]}))}

    assert settings({}).metrics_cert_path == ""
    assert "volumes" not in pod()["spec"]
    assert not {"ClusterRoleBinding", "Certificate", "Issuer"} & kinds


@pytest.mark.parametrize(
    ("secure", "secret"), [(CERT_MANAGER, SECRET), (OWN_SECRET, "own")], ids=["made", "own"]
)
def test_the_operator_serves_with_the_certificate_of_the_secret(
    secure: Values, secret: str
) -> None:
    values = {**secured(secure), "extraVolumes": [{"name": "more", "emptyDir": {}}]}
    (mount,) = container(values)["volumeMounts"]
    certificate, more = pod(values)["spec"]["volumes"]

    assert settings(values).metrics_cert_path == mount["mountPath"]
    assert certificate["name"] == mount["name"]
    assert certificate["secret"]["secretName"] == secret
    # Nothing else of the Secret, such as the key of an authority.
    assert [item["path"] for item in certificate["secret"]["items"]] == ["tls.crt", "tls.key"]
    assert more["name"] == "more"


def test_cert_manager_makes_a_certificate_for_the_service() -> None:
    manifests = render(secured())
    spec = find(manifests, "Certificate", f"{FULLNAME}-metrics")["spec"]

    assert spec["secretName"] == SECRET
    assert HOST in spec["dnsNames"]
    assert spec["subject"]["organizations"]  # or the issuer of a self-signed one has no name
    assert spec["issuerRef"]["kind"] == "Issuer"
    issuer = find(manifests, "Issuer", spec["issuerRef"]["name"])
    assert issuer["spec"] == {"selfSigned": {}}


def test_an_issuer_of_one_s_own_is_asked_instead() -> None:
    reference = {"kind": "ClusterIssuer", "name": "corporate"}
    manager = {"enabled": True, "issuerRef": reference}
    manifests = render(secured({"enabled": True, "certManager": manager}))

    certificate = find(manifests, "Certificate", f"{FULLNAME}-metrics")
    assert certificate["spec"]["issuerRef"] == reference
    assert "Issuer" not in {kind for kind, _, _ in names(manifests)}


# --- rights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", [[], ["team-a"]], ids=["all", "listed"])
def test_the_operator_may_ask_who_a_scraper_is(watched: list[str]) -> None:
    manifests = render({**secured(), "watchNamespaces": watched})
    binding = find(manifests, "ClusterRoleBinding", f"{ROLE}-auth")

    assert binding["roleRef"]["name"] == "system:auth-delegator"
    account = {"kind": "ServiceAccount", "name": FULLNAME, "namespace": NAMESPACE}
    assert binding["subjects"] == [account]


def test_there_is_a_role_for_scrapers() -> None:
    role = find(render(secured()), "ClusterRole", f"{ROLE}-reader")

    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


# --- monitors -----------------------------------------------------------------------------------


def test_a_service_monitor_has_prometheus_send_its_own_token_to_whom_it_trusts() -> None:
    found = endpoint(secured(monitor={"enabled": True}))

    assert found["scheme"] == "https"
    assert found["tlsConfig"] == {
        "ca": {"secret": {"name": SECRET, "key": "ca.crt"}},
        "serverName": HOST,
    }
    assert found["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_monitor_can_have_a_token_and_a_trust_of_its_own(kind: str) -> None:
    trust = {"serverName": "else"}
    own = {"authorization": TOKEN, "tlsConfig": trust, "namespace": "monitoring"}
    found = endpoint(secured(monitor={"enabled": True, "kind": kind, **own}))

    assert found["scheme"] == "https"
    assert found["tlsConfig"] == trust
    assert found["authorization"] == TOKEN
    assert "bearerTokenFile" not in found


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_trust_of_one_s_own_still_expects_the_name_in_the_certificate(
    kind: str, program: str
) -> None:
    ca = {"configMap": {"name": "my-ca", "key": "ca.crt"}}
    own = {"enabled": True, "authorization": TOKEN, "tlsConfig": {"ca": ca}}
    found = endpoint(secured(monitor={**own, "kind": kind, "namespace": "monitoring"}), program)

    # Prometheus asks the Pods by their addresses, which no certificate has.
    assert found["tlsConfig"] == {"ca": ca, "serverName": HOST}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_monitor_of_plain_metrics_sends_no_token_and_can_be_tuned(kind: str) -> None:
    def tuned(**values: object) -> Manifest:
        return endpoint({"metrics": {"monitor": {"enabled": True, "kind": kind, **values}}})

    assert not {"scheme", "tlsConfig", "bearerTokenFile", "honorLabels"} & tuned().keys()
    assert tuned(honorLabels=True)["honorLabels"] is True
    assert tuned(scheme="https")["scheme"] == "https"  # a proxy of the mesh may ask for it
