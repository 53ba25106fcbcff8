"""What an author's templates add to the chart: into the bundle, or refused in a sentence.

OLM installs objects of some kinds as they are. The operator's own rights and its webhooks become
parts of the ClusterServiceVersion, because OLM chooses the namespace, and the certificates.
Nothing of the chart is left out of the bundle but what
docs/decisions/packages.md names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kopf_kit.chart.templates import Manifest
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.run import KitError

NAME = PROJECT.name
#: The kinds that OLM installs besides the CSV and the CRDs.
#: https://olm.operatorframework.io/docs/tasks/creating-operator-manifests/#packaging-additional-objects-alongside-an-operator
SUPPORTED = {
    *("ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConsoleCLIDownload", "ConsoleLink"),
    *("ConsoleQuickStart", "ConsoleYamlSample", "PodDisruptionBudget", "PriorityClass"),
    *("PrometheusRule", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount"),
    *("ServiceMonitor", "VerticalPodAutoscaler"),
}
#: What the kit's own templates render: it is in the CSV, or decision 8 says where it is.
_OURS = {
    *((kind, NAME) for kind in ("Deployment", "ServiceAccount", "Role", "RoleBinding")),
    *((kind, f"{NAME}-leader-election") for kind in ("Role", "RoleBinding")),
    *(("Service", f"{NAME}-metrics"), ("Pod", f"{NAME}-test")),
    ("Service", f"{NAME}-webhook"),
    *(("CustomResourceDefinition", kind.crd) for kind in PROJECT.kinds),
    *(
        ("ClusterRole", f"{kind.crd}-{role}")
        for kind in PROJECT.kinds
        for role in ("view", "edit", "admin")
    ),
}
#: The fields of a webhook that a webhookdefinition has, too.
#: https://olm.operatorframework.io/docs/advanced-tasks/adding-admission-and-conversion-webhooks/
WEBHOOK = (
    *("admissionReviewVersions", "failurePolicy", "matchPolicy", "objectSelector", "rules"),
    *("reinvocationPolicy", "sideEffects", "timeoutSeconds"),
)


@dataclass
class Further:
    """What goes into the bundle, by the place that it has there."""

    objects: list[Manifest] = field(default_factory=list)
    #: Rules that the operator has in the watched namespaces.
    permissions: list[Manifest] = field(default_factory=list)
    #: Rules that it has in the whole cluster.
    cluster_permissions: list[Manifest] = field(default_factory=list)
    webhooks: list[Manifest] = field(default_factory=list)


class _RefusedError(Exception):
    """A bundle cannot carry an object; the text says why, and what to do."""


def of(chart: Sequence[Manifest]) -> Further:
    """Return what these objects add to a bundle; raise KitError, which lists all others."""
    added = [
        manifest
        for manifest in chart
        if (manifest["kind"], manifest["metadata"]["name"]) not in _OURS
    ]
    further, bound, refused = Further(), set[tuple[str, str]](), []
    for manifest in added:
        try:
            bound |= {*_add(manifest, added, chart, further)}
        except _RefusedError as error:
            named = f"{manifest['kind']} {manifest['metadata']['name']}"
            refused.append(f"{PROJECT.chart.name}: a bundle for OLM cannot carry {named}: {error}")
    if refused:
        raise KitError("\n".join(refused))
    further.objects = [
        manifest
        for manifest in further.objects
        if (manifest["kind"], manifest["metadata"]["name"]) not in bound
    ]
    return further


def _add(
    manifest: Manifest, added: list[Manifest], chart: Sequence[Manifest], further: Further
) -> Iterator[tuple[str, str]]:
    """Add an object; yield the roles whose rules the CSV has instead."""
    kind, metadata = manifest["kind"], manifest["metadata"]
    if "helm.sh/hook" in metadata.get("annotations", {}):
        raise _RefusedError("it is a hook of Helm, which OLM does not run; leave it out there")
    if kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        further.webhooks += [_webhook(kind, webhook, chart) for webhook in manifest["webhooks"]]
        return
    if kind not in SUPPORTED:
        raise _RefusedError("OLM does not install this kind; leave it out there")
    if metadata.get("namespace", NAME) != NAME:
        raise _RefusedError(f"it is in the namespace {metadata['namespace']}, but OLM chooses one")
    if kind == "Secret" and (manifest.get("data") or manifest.get("stringData")):
        raise _RefusedError(
            "its values would be readable by everybody in the bundle; let the operator or a user "
            "create it"
        )
    subjects = manifest.get("subjects") or []
    here = [subject for subject in subjects if subject.get("namespace") == NAME]
    if not here:
        further.objects.append(manifest)
        return
    if subjects != [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}]:
        raise _RefusedError(f"only the ServiceAccount {NAME} alone can be bound in OLM's namespace")
    role = (manifest["roleRef"]["kind"], manifest["roleRef"]["name"])
    rules = [m["rules"] for m in added if (m["kind"], m["metadata"]["name"]) == role]
    if not rules:
        raise _RefusedError(
            f"the chart has no {' '.join(role)}, so OLM cannot bind it; add it, or kr.PolicyRule"
        )
    wide = kind == "ClusterRoleBinding"
    (further.cluster_permissions if wide else further.permissions).extend(rules[0])
    yield role


def _webhook(kind: str, webhook: Manifest, chart: Sequence[Manifest]) -> Manifest:
    """Return the webhookdefinition of a webhook, for which OLM creates Service and certificate."""
    called = webhook["name"]
    for key in ("namespaceSelector", "matchConditions"):
        if webhook.get(key):
            raise _RefusedError(f"OLM does not support {key} of {called}; check it in the operator")
    service = webhook["clientConfig"].get("service")
    if service is None:
        raise _RefusedError(
            f"{called} has a URL; OLM calls the operator through a Service, so name one"
        )
    port = service.get("port", 443)
    targets = [
        entry.get("targetPort", port)
        for manifest in chart
        if (manifest["kind"], manifest["metadata"]["name"]) == ("Service", service["name"])
        for entry in manifest["spec"]["ports"]
        if entry["port"] == port
    ]
    if not targets:
        raise _RefusedError(
            f"{called} calls port {port}, which the Service {service['name']} lacks; add it there"
        )
    return {
        "type": kind.replace("WebhookConfiguration", "AdmissionWebhook"),
        "generateName": called,
        "deploymentName": NAME,
        "containerPort": port,
        "targetPort": targets[0],
        "webhookPath": service.get("path", "/"),
        **{key: webhook[key] for key in WEBHOOK if key in webhook},
    }
