"""The chart of every operator in this checkout: it fits Kubernetes, its code and its project.

The tier `chart` with PROJECT=examples/memcached runs these for that one alone. What a chart has
that only its own operator needs is tested elsewhere: the Message's in tests/chart.
"""

import asyncio
import dataclasses
import functools
import itertools
import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from kopf import cli as kopf_cli

import kopf_runtime as kr
from chart import helm, pod_security
from chart.helm import Manifest, Values
from kopf_kit.project import documents
from kopf_kit.project.definition import Project
from kopf_kit.rig import versions
from kopf_runtime.declaring import settings
from tests.chart.projects import (
    PROJECTS,
    declared_rules,
    every_adopted_project,
    every_project,
    every_project_on_runtime,
    kubeconform,
)

RELEASE = "demo"
#: What an operator's manifest of one of these kinds is held against.
CUSTOM = ("CustomResourceDefinition", "ServiceMonitor", "PodMonitor", "PrometheusRule")
_OF_EVERY_PROJECT: dict[str, Values] = {
    "defaults": {},
    "namespaced": {"watchNamespaces": ["team-a", "team-b"]},
}
VALUES: dict[str, dict[str, Values]] = {
    "runtime": {
        **_OF_EVERY_PROJECT,
        "selected": {"watchNamespaceSelector": "team in (a, b)"},
        "all": {
            "replicaCount": 2,
            "networkPolicy": {"enabled": True},
            "metrics": {
                "monitor": {"enabled": True},
                "prometheusRule": {"enabled": True},
                "dashboard": {"enabled": True},
            },
        },
    },
    "plain": {
        **_OF_EVERY_PROJECT,
        "all": {
            "logging": {"level": "verbose", "format": "full"},
            "networkPolicy": {"enabled": True},
            "metrics": {"prometheusRule": {"enabled": True}},
        },
    },
}


#: An object in a text for people: up to the end of its listing or of a shell's here-document.
_OBJECT = re.compile(r"^apiVersion: .*?(?=^(?:```|[A-Z]+)$)", re.MULTILINE | re.DOTALL)

every_project_with_all_values = pytest.mark.parametrize(
    ("project", "values"),
    [
        pytest.param(project, values, id=f"{project.name}-{name}")
        for project in PROJECTS
        for name, values in VALUES[project.base].items()
    ],
)


#: What an operator may do beyond the rights that it needs in each namespace.
IN_THE_CLUSTER = {
    "runtime": [],
    "plain": [
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["list", "watch"],
        }
    ],
}


def rendered(project: Project, values: Values) -> list[Manifest]:
    return helm.render(values, chart=project.chart, release=RELEASE)


def walkthrough(project: Project, folder: Path) -> str:
    """Return the walkthrough of the notes, which Helm prints only if it installs into a cluster."""
    chart = folder / "chart"
    shutil.copytree(project.chart, chart)
    text = f'{{{{ include "{project.name}.walkthrough" "team-a" | toJson }}}}'
    shown = f"kind: Walkthrough\nmetadata: {{name: walkthrough}}\ntext: {text}\n"
    (chart / "templates" / "walkthrough.yaml").write_text(shown)
    (notes,) = of_kind(helm.render({}, chart=chart), "Walkthrough")
    return str(notes["text"])


def description(project: Project) -> str:
    """Return what OLM's catalogs show about the operator; nothing if it has no bundle."""
    if not (project.root / "olm" / "csv.yaml").is_file():
        return ""
    file = project.built / "bundle" / "manifests" / f"{project.name}.clusterserviceversion.yaml"
    return str(documents.load(file.read_text())["spec"]["description"])


def firsts(project: Project) -> list[tuple[str, Path]]:
    """Return each kind that has samples, with the first one."""
    return [(kind, files[0]) for kind, files in project.samples.items() if files]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


@every_project
def test_helm_lint_finds_nothing(project: Project, tmp_path: Path) -> None:
    said = helm.helm("lint", "--strict", project.chart)

    assert "0 chart(s) failed" in said


@every_project_with_all_values
def test_every_object_fits_the_schema_of_kubernetes(project: Project, values: Values) -> None:
    manifests = [
        manifest for manifest in rendered(project, values) if manifest["kind"] not in CUSTOM
    ]

    assert of_kind(manifests, "Deployment")
    for manifest in manifests:
        kubernetes_validate.validate(manifest, versions.NEWEST, strict=True)


def test_every_pod_passes_pod_security_restricted() -> None:
    pod_security.check(
        {
            f"{project.name}-{name}-{m['kind'].lower()}": m["spec"].get("template", m)["spec"]
            for project in PROJECTS
            for name, values in VALUES[project.base].items()
            for m in rendered(project, values)
            if m["kind"] in ("Deployment", "Pod")
        }
    )


@every_project_on_runtime
@pytest.mark.parametrize("values", VALUES["runtime"].values(), ids=list(VALUES["runtime"]))
def test_the_operator_takes_the_arguments(project: Project, values: Values) -> None:
    module = project.module(project.manager)
    (deployment,) = of_kind(rendered(project, values), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    found = settings.parse(module.manager.program, module.Settings, container["args"], {})

    for image in project.images:
        where: Any = documents.load((project.chart / "values.yaml").read_text())
        where = functools.reduce(lambda part, name: part[name], image.values.split("."), where)
        named = f"{where['registry']}/{where['repository']}:{where['tag']}"
        assert getattr(found, image.flag.replace("-", "_")) == named


@every_project_on_runtime
def test_each_image_that_the_operator_names_is_in_its_project(project: Project) -> None:
    declared = dataclasses.fields(project.module(project.manager).Settings)
    flags = {
        flag.name.replace("_", "-") for flag in declared if flag.metadata.get("parse") is kr.image
    }

    # The project's are pushed with a release, named by digest, and built where nothing is pulled.
    assert {image.flag for image in project.images} == flags, f"see `images` in {project.root}"


@every_project
def test_the_operator_may_do_what_its_declaration_says_and_no_more(project: Project) -> None:
    declared = declared_rules(project)
    everywhere, there = rendered(project, {}), rendered(project, _OF_EVERY_PROJECT["namespaced"])
    name = f"{RELEASE}-{project.name}"

    wide = f"{helm.NAMESPACE}.{name}"
    (clusters,) = [r for r in of_kind(everywhere, "ClusterRole") if r["metadata"]["name"] == wide]
    roles = [r for r in of_kind(there, "Role") if r["metadata"]["name"] == name]
    assert clusters["rules"] == [*declared, *IN_THE_CLUSTER[project.base]]
    assert {r["metadata"]["namespace"]: r["rules"] for r in roles} == {
        "team-a": declared,
        "team-b": declared,
    }
    assert wide not in [r["metadata"]["name"] for r in of_kind(there, "ClusterRole")]


@every_project
def test_the_kinds_and_the_roles_of_their_users_come_and_stay(project: Project) -> None:
    manifests = rendered(project, {})
    keep = {
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    }
    kept = {
        manifest["metadata"]["name"]
        for manifest in manifests
        if manifest["metadata"].get("annotations") == keep
    }

    for kind in project.kinds:
        roles = [f"{kind.crd}-{role}" for role in ("view", "edit", "admin")]
        assert kept >= {kind.crd, *roles}
        (crd,) = [manifest for manifest in manifests if manifest["metadata"]["name"] == kind.crd]
        version = kind.shown(crd)
        assert crd["spec"]["names"]["kind"] == kind.kind
        scale = ["scale"] if "scale" in version.get("subresources", {}) else []
        resources = [kind.plural, *(f"{kind.plural}/{name}" for name in scale)]
        for name in roles[:2]:
            (role,) = [manifest for manifest in manifests if manifest["metadata"]["name"] == name]
            (rule,) = role["rules"]
            assert (rule["apiGroups"], rule["resources"]) == ([kind.qualified_group], resources)


@every_project
def test_kubeconform_takes_the_samples_and_finds_a_typo(project: Project, tmp_path: Path) -> None:
    assert kubeconform(project, *itertools.chain(*project.samples.values())) == ""

    for kind, sample in firsts(project):
        manifest = documents.load(sample.read_text())
        manifest.setdefault("spec", {})["nosuchfield"] = 1
        typo = tmp_path / f"{kind}.yaml"
        typo.write_text(yaml.safe_dump(manifest))
        assert "nosuchfield" in kubeconform(project, typo)


@every_project
def test_notes_and_catalog_show_the_first_sample_of_each_kind(
    project: Project, tmp_path: Path
) -> None:
    include = f'{{{{ include "{project.name}.sample" . }}}} in templates/_operator.tpl'
    texts = {
        include: walkthrough(project, tmp_path),
        "$SAMPLE in olm/description.md": description(project),
    }
    for placeholder, text in texts.items():
        if not text:
            continue
        shown = [
            document for block in _OBJECT.findall(text) for document in documents.load_all(block)
        ]
        for _, sample in firsts(project):
            assert documents.load(sample.read_text()) in shown, f"{placeholder} shows {sample}"


@every_project_on_runtime
def test_alerts_and_dashboard_ask_for_metrics_of_this_operator(project: Project) -> None:
    manifests = rendered(project, VALUES["runtime"]["all"])
    (rule,) = of_kind(manifests, "PrometheusRule")
    alerts = [alert["alert"] for alert in rule["spec"]["groups"][0]["rules"]]
    (dashboard,) = [
        m for m in of_kind(manifests, "ConfigMap") if "dashboard" in m["metadata"]["name"]
    ]
    expressions = json.dumps([rule["spec"], dashboard["data"]])

    assert all(alert.startswith(project.alerts) for alert in alerts)
    assert "workqueue_depth" in expressions
    assert set(re.findall(r"\b(\w+_operator)_leader", expressions)) == {project.metrics.rstrip("_")}


@every_project
def test_the_link_of_each_alert_leads_to_its_runbook(project: Project) -> None:
    page = Path("docs", "runbooks.md")
    text = (project.built / page).read_text()
    (rule,) = of_kind(rendered(project, VALUES[project.base]["all"]), "PrometheusRule")
    for alert in rule["spec"]["groups"][0]["rules"]:
        url = alert["annotations"]["runbook_url"]
        assert url.endswith(
            f"/{project.name}/blob/v{project.version}/{page}#{alert['alert'].lower()}"
        )
        severity = re.escape(f"(severity: {alert['labels']['severity']})")
        assert re.search(rf"^## {alert['alert']}\n\n.+ {severity}$", text, re.MULTILINE)


@every_project
def test_a_project_has_none_of_the_references_names(project: Project) -> None:
    page = (project.built / "docs" / "runbooks.md").read_text()
    runbooks, _, _ = page.partition("<!-- Generated by")
    for text in (*map(str, rendered(project, VALUES[project.base]["all"])), runbooks):
        assert not re.search("widget|acme", text, re.IGNORECASE)


@every_adopted_project
@pytest.mark.parametrize("values", VALUES["plain"].values(), ids=list(VALUES["plain"]))
def test_kopf_takes_the_command_and_the_arguments(project: Project, values: Values) -> None:
    (deployment,) = of_kind(rendered(project, values), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    python, *kopf, run = container["command"][:4]

    with kopf_cli.run.make_context(run, [*container["command"][4:], *container["args"]]) as context:
        taken = context.params

    assert (python, kopf) == ("python3", ["-m", "kopf"])
    assert taken["modules"] == (project.package,)
    assert taken["standalone"]
    assert taken["clusterwide"] != bool(taken["namespaces"])
    assert taken["namespaces"] == tuple(values.get("watchNamespaces", ()))
    assert taken["log_format"].name == values.get("logging", {"format": "json"})["format"].upper()
    port = container["ports"][0]["containerPort"]
    assert taken["liveness_endpoint"].endswith(
        f":{port}{container['livenessProbe']['httpGet']['path']}"
    )


@every_adopted_project
async def test_b14_the_liveness_endpoint_is_served_on_ipv4_and_on_ipv6(project: Project) -> None:
    (endpoint,) = [word for word in project.command if word.startswith("--liveness=")]
    host = urlsplit(endpoint.partition("=")[2]).hostname

    # As kopf does.
    server = await asyncio.start_server(lambda *_: None, host, 0)
    families = {listener.family for listener in server.sockets}
    server.close()

    assert len(families) == 1 + socket.has_ipv6


@every_adopted_project
@pytest.mark.parametrize("values", [{"replicaCount": 2}, {"strategy": {"type": "RollingUpdate"}}])
def test_there_is_one_operator_at_a_time_and_the_schema_says_why(
    project: Project, values: Values
) -> None:
    (key,) = values
    schema = (project.chart / "values.schema.json").read_text()
    (deployment,) = of_kind(rendered(project, {}), "Deployment")

    with pytest.raises(helm.HelmError, match=f"/{key}"):
        helm.render(values, chart=project.chart)
    assert "kopf elects no leader" in json.dumps(json.loads(schema)["properties"][key])
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


@every_adopted_project
def test_no_text_promises_what_kopf_alone_does_not_do(project: Project) -> None:
    promised = re.compile(
        r"kopf.runtime|leader.?elect|\blease|resync|reconcil|workqueue|readyz|/metrics|dashboard|"
        r"serviceMonitor|podMonitor|disruption|watchNamespaceSelector",
        re.IGNORECASE,
    )
    for file in project.built.rglob("*"):
        # What community-operators is told of the catalog is about no operator.
        if file.is_file() and file.name != "ci.yaml":
            found = promised.findall(file.read_text())
            assert not found, f"{file.relative_to(project.built)}: {found}"
