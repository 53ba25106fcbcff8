"""Values are documented once, and bad ones stop with a sentence that says what is wrong."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from chart.helm import CHART, HELM_4_IN_TIME, PROGRAMS, Manifest, container, find, refusal, render
from kopf_kit.chart import values as chart_values
from kopf_kit.cli import generate
from kopf_kit.project import documents
from kopf_kit.rig import paths

SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: Manifest = documents.load((CHART / "values.yaml").read_text())


#: Values that are refused, each with its sentence below it.
REFUSED = """
{replicas: 2}
    at '': additional properties 'replicas' not allowed
{image: {tagg: "1"}}
    at '/image': additional properties 'tagg' not allowed
{replicaCount: "2"}
    at '/replicaCount': got string, want integer
{image: {tag: 1.2}}
    at '/image/tag': got number, want string
{watchNamespaces: a}
    at '/watchNamespaces': got string, want array
{watchNamespaces: [A_b]}
    at '/watchNamespaces/0': 'A_b' does not match pattern
{watchNamespaces: [a, a]}
    at '/watchNamespaces': items at 0 and 1 are equal
{watchNamespaceSelector: "team=a b"}
    watchNamespaceSelector is "team=a b", which is no label selector.
    Write one as for `kubectl get namespaces -l`, such as team=a or tier in (a, b).
{watchNamespaces: [a], watchNamespaceSelector: "team=a"}
    watchNamespaces and watchNamespaceSelector are both set
{image: {digest: latest}}
    at '/image/digest': 'latest' does not match pattern
{logging: {level: INFO}}
    at '/logging/level': value must be one of 'debug', 'info', 'warning', 'error'
{crds: null}
    at '': missing property 'crds'
{replicaCount: 2, leaderElection: {enabled: false}}
    replicaCount is 2, but leaderElection.enabled is false
{strategy: {type: RollingUpdate}, leaderElection: {enabled: false}}
    strategy.type is RollingUpdate, but leaderElection.enabled is false
{serviceAccount: {automountToken: false}}
    serviceAccount.automountToken is false, and extraVolumeMounts bring no other token
{strategy: {rollingUpdate: {maxSurge: lots}}}
    at '/strategy/rollingUpdate/maxSurge': 'lots' does not match pattern
{strategy: {rollingUpdate: {maxUnavailable: -1}}}
    at '/strategy/rollingUpdate/maxUnavailable': minimum: got -1, want 0
{extraEnv: [{name: POD_NAME, value: mine}]}
    extraEnv has POD_NAME, which the chart sets itself
{extraEnv: [{name: WIDGET_OPERATOR_WORKERS, value: "4"}]}
    extraEnv has WIDGET_OPERATOR_WORKERS, but the chart's arguments prevail
{extraEnv: [{name: TZ}, {name: TZ}]}
    extraEnv has TZ twice, and only the last one would count
{metrics: {monitor: {enabled: true, interval: "1m30s", scrapeTimeout: "91s"}}}
    metrics.monitor.scrapeTimeout is 91s, which is more than its interval of 1m30s
{metrics: {monitor: {enabled: true, interval: "500ms", scrapeTimeout: "1s"}}}
    metrics.monitor.scrapeTimeout is 1s, which is more than its interval of 500ms
{leaderElection: {renewDeadlineSeconds: 20}}
    renewDeadlineSeconds (20), and that less than leaseDurationSeconds (15).
{controller: {workers: 0}}
    at '/controller/workers': minimum: got 0, want 1
{resources: {limit: {}}}
    at '/resources': additional properties 'limit' not
{tolerations: [{key: a, effect: Foo}]}
    at '/tolerations/0/effect': value must be one of
{podLabels: {x: "y z"}}
    at '/podLabels/x': 'y z' does not match pattern
{metrics: {monitor: {authorization: {name: a}}}}
    at '/metrics/monitor/authorization': additional properties 'name' not allowed
{metrics: {monitor: {tlsConfig: {ca: {secret: {name: a}}}}}}
    at '/metrics/monitor/tlsConfig/ca/secret': missing property 'key'
{metrics: {monitor: {kind: Monitor}}}
    at '/metrics/monitor/kind': value must be one of
{imagePullSecrets: [a]}
    at '/imagePullSecrets/0': got string, want object
{extraEnv: [{value: a}]}
    at '/extraEnv/0': missing property 'name'
{extraObjects: [1]}
    at '/extraObjects/0': got number, want string or object
{podDisruptionBudget: {minAvailable: half}}
    at '/podDisruptionBudget/minAvailable': 'half' does not match pattern
{replicaCount: 2, podDisruptionBudget: {minAvailable: 2}}
    podDisruptionBudget.minAvailable is 2, which is all of the 2 replicas
{replicaCount: 2, podDisruptionBudget: {minAvailable: "51%"}}
    podDisruptionBudget.minAvailable is 51%, which is all of the 2 replicas
{replicaCount: 2, podDisruptionBudget: {maxUnavailable: 0}}
    podDisruptionBudget.maxUnavailable is 0: no node
{metrics: {enabled: false, monitor: {enabled: true}}}
    metrics.monitor.enabled is true, but metrics.enabled is false
{metrics: {service: {enabled: false}, monitor: {enabled: true}}}
    metrics.monitor.kind is ServiceMonitor, but metrics.service.enabled is false
{metrics: {prometheusRule: {disabledAlerts: [Down]}}}
    at '/metrics/prometheusRule/disabledAlerts/0': value must be one of
{startupProbe: {periodSeconds: -1}}
    at '/startupProbe/periodSeconds': minimum: got -1, want 1
{livenessProbe: {initialDelaySeconds: -1}}
    at '/livenessProbe/initialDelaySeconds': minimum: got -1, want 0
{livenessProbe: {successThreshold: 2}}
    at '/livenessProbe/successThreshold': value must be one of 1, <nil>
{readinessProbe: {periodSecond: 1}}
    at '/readinessProbe': additional properties 'periodSecond' not allowed
{readinessProbe: {terminationGracePeriodSeconds: 1}}
    at '/readinessProbe': additional properties 'terminationGracePeriodSeconds' not
{image: {repository: MyOrg/operator}}
    image has the path MyOrg/operator, but the path of an image has lower case
{widgetPod: {image: {registry: "", repository: "메시지"}}}
    widgetPod.image has the path 메시지, but the path of an image has lower case
{global: {imageRegistry: mirror.example/Ours/}}
    image has the path Ours/example/widget-operator, but the path of an image has
{controller: {workers: 1001}}
    at '/controller/workers': maximum
{image: {repository: "x:1.0"}}
    image.repository is x:1.0, but a repository has no tag and no digest.
    Leave it out, and set image.tag
{widgetPod: {image: {repository: "library/busybox@sha256:a"}}}
    widgetPod.image.repository is library/busybox@sha256:a, but a repository has no tag
{image: {repository: "localhost:5001/x"}}
    image.repository is localhost:5001/x, which names a registry, but so does ghcr.io.
    Leave it out of the repository, and set image.registry instead
{widgetPod: {image: {repository: localhost/x}}}
    widgetPod.image.repository is localhost/x, which names a registry, but so does
{image: {registry: "https://quay.io"}}
    The registry of image is https://quay.io, but a registry has no scheme.
    Set image.registry, or global.imageRegistry, to quay.io.
{metrics: {secure: {enabled: true}}}
    metrics.secure.enabled is true, but there is no certificate
{metrics: {secure: {secretName: a}}}
    names a certificate, but metrics.secure.enabled is false
{metrics: {secure: {certManager: {enabled: true}}}}
    names a certificate, but metrics.secure.enabled is false
{metrics: {secure: {enabled: true, certManager: {enabled: true}}, enabled: false}}
    metrics.secure.enabled is true, but metrics.enabled is false
{metrics: {secure: {enabled: true, secretName: a}, monitor: {enabled: true, scheme: http}}}
    metrics.monitor.scheme is http, but metrics.secure.enabled is true
{metrics: {secure: {enabled: true, secretName: a}, monitor: {enabled: true, namespace: b}}}
    the Secret that it would name is not in the monitor's namespace, b
{metrics: {secure: {enabled: true, secretName: a}, monitor: {enabled: true, kind: PodMonitor}}}
    metrics.monitor.authorization is empty, but metrics.secure.enabled is true
{metrics: {secure: {enabled: true, secretName: A_b}}}
    at '/metrics/secure/secretName': 'A_b' does not match pattern
{metrics: {secure: {enabled: true, certManager: {issuerRef: {kind: ClusterIssuer}}}}}
    at '/metrics/secure/certManager/issuerRef'
{serviceAccount: {create: false}}
    serviceAccount.create is false, so serviceAccount.name must say
"""


@pytest.mark.parametrize(("values", "lines"), re.findall(r"(\{.+)\n((?: {4}.+\n)+)", REFUSED))
@pytest.mark.parametrize("program", HELM_4_IN_TIME)
def test_bad_values_are_refused_with_one_clear_sentence(
    values: str, lines: str, program: str
) -> None:
    message = refusal(documents.load(values), program=program)
    sentence = " ".join(lines.split())

    assert message.count(sentence) == 1
    complaints = [line for line in message.splitlines() if line.startswith("- at")]
    hint = "upgrade with --reset-then-reuse-values"  # for what a former release did not have
    assert len([line for line in complaints if hint not in line]) <= 1


def test_helm_4_says_what_helm_3_does() -> None:
    for values in ({"replicaCount": "2"}, {"serviceAccount": {"create": False}}):
        by_3, by_4 = (refusal(values, program=program) for program in PROGRAMS)
        assert by_4 == by_3


@pytest.mark.parametrize(
    ("registry", "repository"),
    [
        *(("", "Quay.io/a/b"), ("Quay.io:443", "a/b"), ("registry", "a__b/c--d.e")),
        *(("quay.io/a_b/c/", "d"), ("", "localhost/a"), ("", "busybox")),
    ],
)
def test_every_repository_that_nodes_pull_from_is_accepted(registry: str, repository: str) -> None:
    image = container({"image": {"registry": registry, "repository": repository}})["image"]

    assert image.startswith(f"{registry}/{repository}".replace("//", "/").lstrip("/"))


@pytest.mark.parametrize(
    "shared",
    [{"storageClass": "fast"}, {"imageRegistry": None, "imagePullSecrets": None}, None],
    ids=["more", "p5-nulls", "nothing"],
)
def test_a_parent_chart_may_share_any_global_value(shared: object) -> None:
    assert render({"global": shared}) == render()


def test_p8_null_leaves_out_a_registry_and_the_links_to_the_runbooks() -> None:
    rule = {"enabled": True, "runbookUrl": None}
    images = {"image": {"registry": None}, "widgetPod": {"image": {"registry": None}}}

    manifests = render({**images, "metrics": {"prometheusRule": rule}})

    (group,) = find(manifests, "PrometheusRule")["spec"]["groups"]
    assert all("runbook_url" not in rule["annotations"] for rule in group["rules"])


@pytest.mark.parametrize("variable", container()["env"], ids=lambda variable: variable["name"])
def test_no_variable_of_the_chart_s_own_is_set_twice(variable: Manifest) -> None:
    mine = {"name": variable["name"], "value": "mine"}

    assert f"extraEnv has {variable['name']}, which" in refusal({"extraEnv": [mine]})


def test_a_map_or_list_can_be_emptied_by_null() -> None:
    empty = {name: None for name, value in DEFAULTS.items() if isinstance(value, dict | list)}
    sections = {name for name in empty if name in SCHEMA["required"]}

    render(dict.fromkeys(empty.keys() - sections))


VALUES = chart_values.values()


def undescribed(values: Manifest, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the values of values.yaml that have no comment, by their path."""
    described = {value.path for value in VALUES}
    for name, below in values.items():
        where = (*path, name)
        if where not in described and isinstance(below, dict) and below:
            yield from undescribed(below, where)
        elif where not in described:
            yield ".".join(where)


def test_every_value_is_described() -> None:
    assert list(undescribed(DEFAULTS)) == []


def test_the_schema_is_one_that_can_be_trusted() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_what_is_made_of_a_generated_file_is_made_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Helm renders what the bundle holds, and refuses a value that the schema does not know yet.
    schema, bundle = tmp_path / "schema", tmp_path / "bundle"
    stages = (lambda: {schema: "new"}, lambda: {bundle: f"of the {schema.read_text()} schema"})
    monkeypatch.setattr(generate, "STAGES", stages)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    schema.write_text("old")

    generate.write()

    assert bundle.read_text() == "of the new schema"


def test_an_unknown_kind_of_value_is_named_with_its_line() -> None:
    text = "# -- What it is\n# @schema nonsense\nvalue: 1\n"

    with pytest.raises(chart_values.ValuesError, match=r"values\.yaml:3: unknown kind 'nonsense'"):
        chart_values.parse(text)


def test_the_readme_shows_every_value_with_its_default() -> None:
    readme = (CHART / "README.md").read_text()

    for value in VALUES:
        assert readme.count(f"| `{value.name}` |") == 1
    assert len(VALUES) <= 180  # what somebody can still read
    assert "| `replicaCount` | `1` | Number of replicas;" in readme


@pytest.mark.parametrize("program", HELM_4_IN_TIME)
@pytest.mark.parametrize("quantity", ["100m", "0.5", ".5", 1, 0.5, "1.5Gi", "1e3", "2E", "4Mi"])
def test_every_quantity_of_kubernetes_is_accepted(quantity: object, program: str) -> None:
    assert render({"resources": {"limits": {"memory": quantity}}}, program=program)
