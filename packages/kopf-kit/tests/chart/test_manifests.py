"""Everything that the chart renders is well-formed, for every scenario."""

import functools
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from chart import foreign_kinds, pod_security
from chart.helm import (
    CHART,
    NEWEST_KUBERNETES,
    OLDEST_KUBERNETES,
    PROGRAMS,
    VERSION,
    HelmError,
    Values,
    helm,
    names,
    render,
)
from chart.scenarios import SCENARIOS
from kopf_kit.project import documents
from kopf_kit.rig import versions

each_scenario = pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)


@each_scenario
def test_helm_lint_finds_nothing(values: Values, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))

    helm("lint", "--strict", "--kube-version", NEWEST_KUBERNETES, "--values", file, CHART)


@each_scenario
def test_helm_4_renders_what_helm_3_does(values: Values) -> None:
    command = ("template", "demo", CHART, "--kube-version", NEWEST_KUBERNETES, "--values", "-")
    by_3, by_4 = (
        documents.load_all(helm(*command, stdin=json.dumps(values), program=program))
        for program in ("helm3", "helm4")
    )

    assert by_3 == by_4


@each_scenario
@pytest.mark.parametrize("kubernetes", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
def test_every_object_fits_the_schema_of_kubernetes(values: Values, kubernetes: str) -> None:
    for manifest in render(values, kubernetes=kubernetes):
        check_schema(json.dumps(manifest), kubernetes)


@functools.cache  # most objects are the same in several scenarios
def check_schema(text: str, kubernetes: str) -> None:
    """Fail if an object, as JSON, has what its schema does not allow."""
    manifest = json.loads(text)
    if known := foreign_kinds.SCHEMAS.get(manifest["apiVersion"]):
        jsonschema.validate(manifest, known[manifest["kind"]])
    else:
        kubernetes_validate.validate(manifest, kubernetes, strict=True)


def test_every_pod_passes_pod_security_restricted() -> None:
    pods = {
        f"{scenario}-{m['kind'].lower()}": m["spec"].get("template", m)["spec"]
        for scenario, values in SCENARIOS.items()
        for m in render(values)
        if m["kind"] == "Pod" or "template" in m.get("spec", ())
    }

    assert len(pods) > len(SCENARIOS)
    pod_security.check(pods)


@each_scenario
def test_no_two_objects_have_the_same_name(values: Values) -> None:
    rendered = names(render(values))

    assert len(set(rendered)) == len(rendered)


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("demo", {}, "demo-widget-operator"),
        ("widget-operator", {}, "widget-operator"),
        ("my-widget-operator", {}, "my-widget-operator"),
        ("demo", {"nameOverride": "short"}, "demo-short"),
        ("demo", {"fullnameOverride": "exactly-this"}, "exactly-this"),
        ("r" * 53, {}, "r" * 53 + "-widget-op"),
    ],
)
def test_objects_are_named_after_the_release(release: str, values: Values, name: str) -> None:
    manifests = render(values, release=release)

    (deployment,) = (m for m in manifests if m["kind"] == "Deployment")
    assert deployment["metadata"]["name"] == name
    (service,) = (m for m in manifests if m["kind"] == "Service")
    if len(f"{name}-metrics") <= 63:  # longer ones get a hash
        assert service["metadata"]["name"] == f"{name}-metrics"


#: Everything that the chart can render with its own names.
ALL: Values = {
    "replicaCount": 2,
    "networkPolicy": {"enabled": True},
    "metrics": {
        "secure": {"enabled": True, "certManager": {"enabled": True}},
        **{name: {"enabled": True} for name in ("monitor", "prometheusRule", "dashboard")},
    },
}


def test_every_object_carries_the_recommended_labels_and_those_asked_for() -> None:
    # commonLabels add labels, and cannot break the Deployment's selector.
    labels = {"team": "a", "app.kubernetes.io/name": "something-else"}
    expected = {
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"widget-operator-{VERSION}",
        "team": "a",
    }

    for manifest in render({**ALL, "commonLabels": labels}):
        test = "-test" if manifest["kind"] == "Pod" else ""
        name = {"app.kubernetes.io/name": f"widget-operator{test}"}
        assert manifest["metadata"]["labels"].items() >= (expected | name).items()


def test_every_object_carries_the_annotations_asked_for() -> None:
    for manifest in render({**ALL, "commonAnnotations": {"a": "b"}}):
        assert manifest["metadata"]["annotations"]["a"] == "b"


@pytest.mark.parametrize("watched", [[], ["team-a"]], ids=["all", "listed"])
def test_all_that_has_a_namespace_is_in_the_one_asked_for(watched: list[str]) -> None:
    manifests = render({**ALL, "namespaceOverride": "elsewhere", "watchNamespaces": watched})

    assert {namespace for _, namespace, _ in names(manifests)} == {"", "elsewhere", *watched}
    for manifest in manifests:
        for subject in manifest.get("subjects", ()):
            assert subject["namespace"] == "elsewhere"


def test_names_stay_within_kubernetes_bounds_however_long_the_release_s_is() -> None:
    for kind, _, name in names(render(ALL, release="r" * 53)):
        assert len(name) <= (63 if kind in {"Service", "Pod", "Deployment"} else 253)


def test_chart_and_application_have_the_version_of_the_operator() -> None:
    chart = documents.load((CHART / "Chart.yaml").read_text())

    assert chart["version"] == chart["appVersion"] == VERSION


def test_the_oldest_kubernetes_that_is_proved_is_the_chart_s() -> None:
    # Vendors' versions have a suffix, which counts as a pre-release.
    render(kubernetes=f"v{OLDEST_KUBERNETES}.0-gke.1080000")

    with pytest.raises(HelmError, match=rf"requires kubeVersion: >={OLDEST_KUBERNETES}\.0-0"):
        render(kubernetes=f"v1.{int(OLDEST_KUBERNETES.removeprefix('1.')) - 1}.99")


def test_p18_the_oldest_helm_that_fits_renders_it_without_the_version_of_a_cluster() -> None:
    assert versions.FITTING["helm3"][0] == (3, 18)
    # Without a cluster, Helm takes the Kubernetes of its client-go, which is v0.33 in 3.18.
    render(kubernetes="v1.33.0")


def test_nothing_depends_on_what_the_cluster_has_when_it_is_rendered() -> None:
    # GitOps tools render without a cluster: what depends on it is silently left out there. The
    # notes are for those who install with Helm itself.
    for template in (CHART / "templates").rglob("*"):
        if template.is_file() and template.name != "NOTES.txt":
            assert not re.search(r"\.Capabilities|\blookup\b", template.read_text()), template


def test_the_crd_is_a_template_so_that_it_is_upgraded() -> None:
    # Helm never upgrades what is in crds/.
    assert not (CHART / "crds").exists()
    assert ("CustomResourceDefinition", "", "widgets.acme.example.com") in names(render())


def test_the_package_has_what_users_need_and_no_more(tmp_path: Path) -> None:
    helm("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        files = {name.removeprefix("widget-operator/") for name in archive.getnames()}

    assert files >= {"Chart.yaml", "README.md", "values.yaml", "values.schema.json"}
    assert "dashboards/widget-operator.json" in files
    assert not [file for file in files if file.startswith("ci/") or file.endswith(".in")]


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
