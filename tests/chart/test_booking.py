"""The chart of the booking service that examples/flightticket is tried with."""

from typing import Any

import kubernetes_validate
import pytest

from chart import helm, pod_security
from chart.helm import Manifest
from kopf_kit.rig import paths, versions

CHART = paths.CHECKOUT / "examples" / "flightticket" / "booking" / "chart"
IMAGE = "registry.example.com/booking:1"


def rendered(**values: Any) -> list[Manifest]:
    return helm.render({"image": IMAGE, **values}, chart=CHART, release="demo")


def the(kind: str, manifests: list[Manifest]) -> Manifest:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def test_helm_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm.helm("lint", "--strict", CHART, f"--set=image={IMAGE}")


def test_every_object_fits_the_schema_of_kubernetes() -> None:
    for manifest in rendered():
        kubernetes_validate.validate(manifest, versions.NEWEST, strict=True)


def test_its_pod_passes_pod_security_restricted() -> None:
    pod = the("StatefulSet", rendered())["spec"]["template"]

    assert pod_security.violations(pod["spec"]) == []


def test_the_service_leads_to_the_clients_port_alone() -> None:
    manifests = rendered()
    service = the("Service", manifests)["spec"]
    (container,) = the("StatefulSet", manifests)["spec"]["template"]["spec"]["containers"]

    assert [port["targetPort"] for port in service["ports"]] == ["http"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert not [argument for argument in container["args"] if "counter" in argument]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "http"


def test_tokens_and_database_are_where_the_service_looks() -> None:
    tokens = {"secretName": "ours", "key": "all"}
    volume = {"storageClassName": "fast", "size": "1Gi"}
    spec = the("StatefulSet", rendered(tokens=tokens, database=volume))["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    secret = pod["volumes"][0]["secret"]
    claim = spec["volumeClaimTemplates"][0]
    assert (secret["secretName"], secret["items"][0]["key"]) == ("ours", "all")
    assert f"--tokens={mounts['tokens']}/{secret['items'][0]['path']}" in container["args"]
    assert f"--database={mounts[claim['metadata']['name']]}/bookings.sqlite" in container["args"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"


@pytest.mark.parametrize(
    ("values", "said"),
    [({"image": ""}, "name the image that you built"), ({"replicas": 2}, "replicas")],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        rendered(**values)
