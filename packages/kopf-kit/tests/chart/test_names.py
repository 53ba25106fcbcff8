"""Names that YAML would take for something else, and names that a Service may not have."""

import json
import re
from typing import Any

import pytest

from chart.helm import PROGRAMS, Values, names, render

#: As YAML reads them: a number, a number, true, a number, nothing, a number.
ODD = ["123", "1e3", "on", "0x1f", "null", "0o17"]
#: DNS-1035: what the name of a Service is held to up to Kubernetes 1.33.
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def everything(name: str) -> Values:
    """Return values in which whatever has a name has this one."""
    placed = {"priorityClassName": name, "runtimeClassName": name}
    monitors = ("monitor", "prometheusRule", "dashboard")
    return {
        **placed,
        "nameOverride": name,
        "fullnameOverride": name,
        "namespaceOverride": name,
        "watchNamespaces": [name],
        "serviceAccount": {"name": name},
        "networkPolicy": {"enabled": True},
        "replicaCount": 2,
        "metrics": {
            "secure": {"enabled": True, "secretName": name},
            **{monitor: {"enabled": True, "namespace": name} for monitor in monitors},
        },
    }


def service_name(program: str, release: str = "demo", **values: str) -> str:
    """Return the name of the Service."""
    manifests = render(values, release=release, program=program)
    (service,) = (manifest for manifest in manifests if manifest["kind"] == "Service")
    name: str = service["metadata"]["name"]
    return name


def kinds(value: Any) -> Any:
    """Return the names of types in place of all texts, numbers and truths."""
    if isinstance(value, dict):
        return [kinds(part) for part in value.values()]  # names are in some keys, too
    return [kinds(part) for part in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ODD)
def test_a_name_is_a_text_whatever_yaml_reads_in_it(name: str, program: str) -> None:
    plain = render(everything("plain"), release="plain", program=program)

    odd = render(everything(name), release=name, program=program)

    assert kinds(odd) == kinds(plain)
    assert {found for _, _, found in names(odd)} >= {name, f"{name}-leader-election"}


@pytest.mark.parametrize("release", ["v1.2", "2024-prod", "1e3", "0.1." + "a" * 48, "9" * 53])
def test_the_service_s_name_is_one_that_every_kubernetes_takes(release: str) -> None:
    (service,) = (manifest for manifest in render(release=release) if manifest["kind"] == "Service")

    name = service["metadata"]["name"]
    assert SERVICE.fullmatch(name)
    assert name.endswith("-metrics")
    (test,) = (manifest for manifest in render(release=release) if manifest["kind"] == "Pod")
    assert f"http://{name}.operators.svc" in json.dumps(test)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.b", "a-b"),
        ("a.b", "a.b.c"),
        ("1a", "release-1a"),
        ("widget-operator-" + "r" * 33 + "1.2", "widget-operator-" + "r" * 33 + "1-2"),
    ],
)
def test_no_two_releases_of_a_namespace_share_a_service(one: str, other: str, program: str) -> None:
    assert service_name(program, one) != service_name(program, other)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_two_long_names_share_a_service(program: str) -> None:
    one, other = (service_name(program, fullnameOverride="r" * 62 + last) for last in "12")

    assert one != other
