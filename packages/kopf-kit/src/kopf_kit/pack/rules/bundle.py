"""The rules for the bundle; those named `check_…` are the pipeline's."""

import base64
import re
from collections.abc import Iterator

from kopf_kit.pack import catalog, further_objects, watched
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rules.package import Document, Package, rule

#: The kinds that OLM installs.
SUPPORTED_KINDS = {"ClusterServiceVersion", "CustomResourceDefinition", *further_objects.SUPPORTED}

#: https://docs.redhat.com/en/documentation/openshift_container_platform/4.16/html/operators/developing-operators#osdk-csv-annotations-infra_osdk-generating-csvs
FEATURES = (
    *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@rule
def manifests_are_flat(package: Package) -> Iterator[str]:
    """Find folders and files with several documents: OLM reads one object per file.

    https://github.com/operator-framework/operator-registry/blob/master/docs/design/operator-bundle.md
    """
    folder = package.bundle / "manifests"
    for file in sorted(folder.iterdir()):
        name = file.relative_to(package.bundle.parent).as_posix()
        if (count := sum(name == manifest.file for manifest in package.manifests)) != 1:
            yield f"{name}: kind: {count} documents, must be one"


@rule
def only_supported_kinds(package: Package) -> Iterator[str]:
    """Find objects whose kind OLM does not install (see SUPPORTED_KINDS)."""
    for manifest in package.manifests:
        if manifest.get("kind") not in SUPPORTED_KINDS | {"NetworkPolicy"}:
            yield manifest.wrong("kind", what=f"{manifest.get('kind')} is not installed by OLM")


@rule
def check_network_policy_presence(package: Package) -> Iterator[str]:
    """Find NetworkPolicies."""
    for manifest in package.manifests:
        if manifest.get("kind") == "NetworkPolicy":
            yield manifest.wrong("kind", what="NetworkPolicy must not be in a bundle")


@rule
def check_required_fields(package: Package) -> Iterator[str]:
    """Find required fields of the CSV that are missing or malformed."""
    csv = package.csv
    texts = {
        ("spec", "displayName"): r"(?s).{3,50}",
        ("spec", "description"): r"(?s).{20,}",
        ("spec", "version"): catalog.VERSION.pattern,
    }
    for keys, pattern in texts.items():
        yield from _text(csv, *keys, pattern=pattern)
    for field in ("maintainers", "links"):
        if not csv.get("spec", field):
            yield csv.wrong("spec", field, what="is missing")
    for i, icon in enumerate(csv.get("spec", "icon") or []):
        try:
            base64.b64decode(icon.get("base64data", "!"), validate=True)
        except ValueError:
            yield csv.wrong("spec", "icon", i, "base64data", what="is not base64")


def _text(document: Document, *keys: str, pattern: str) -> Iterator[str]:
    value = document.get(*keys)
    if value is None:
        yield document.wrong(*keys, what="is missing")
    elif not re.fullmatch(pattern, str(value)):
        yield document.wrong(*keys, what=f"{value!r} does not match {pattern}")


@rule
def check_operator_name(package: Package) -> Iterator[str]:
    """Find a CSV that is not named <package>.v<version>."""
    key = "operators.operatorframework.io.bundle.package.v1"
    name = package.annotations.get("annotations", key)
    expected = f"{name}.v{package.csv.get('spec', 'version')}"
    if package.csv.get("metadata", "name") != expected:
        yield package.csv.wrong(
            "metadata", "name", what=f"{package.csv.get('metadata', 'name')} must be {expected}"
        )


@rule
def check_api_version_constraints(package: Package) -> Iterator[str]:
    """Find a range of OpenShift versions, which could contradict minKubeVersion: we set none.

    The pipeline requires one together with minKubeVersion, except in file-based packages such as
    ours, where `catalog_names` in ci.yaml selects the catalogs.
    """
    key = "com.redhat.openshift.versions"
    if package.annotations.get("annotations", key) is not None:
        yield package.annotations.wrong(
            "annotations", key, what="is there; spec.minKubeVersion alone says where it runs"
        )


@rule
def csv_annotations(package: Package) -> Iterator[str]:
    """Find missing or malformed annotations that catalogs show.

    https://sdk.operatorframework.io/docs/advanced-topics/operator-capabilities/operator-capabilities/
    https://olm.operatorframework.io/docs/advanced-tasks/operator-suggested-namespace/
    """
    csv, part = package.csv, "annotations"
    patterns = {
        "capabilities": "Basic Install|Seamless Upgrades|Full Lifecycle|Deep Insights|Auto Pilot",
        "categories": ".+",
        "certified": "false",
        "containerImage": r"[^\s@]+(:[\w.-]+|@sha256:[0-9a-f]{64})",
        "createdAt": _TIME.pattern,
        "description": ".{10,135}",
        "repository": "https://.+",
        "support": ".{3,}",
        "operatorframework.io/suggested-namespace": r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        **{f"features.operators.openshift.io/{name}": "true|false" for name in FEATURES},
    }
    for key, pattern in patterns.items():
        yield from _text(csv, "metadata", part, key, pattern=pattern)
    images = [container["image"] for _, container in package.containers]
    if csv.get("metadata", part, "containerImage") not in images:
        yield csv.wrong("metadata", part, "containerImage", what="is not the image of a container")


@rule
def install_modes(package: Package) -> Iterator[str]:
    """Find missing or unsupported install modes: the operator supports all that it can.

    OLM has an operator convert objects only if AllNamespaces is the only mode, and objects in no
    namespace are only watched with it.
    """
    modes = package.csv.get("spec", "installModes") or []
    webhooks = package.csv.get("spec", "webhookdefinitions") or []
    converts = any(webhook.get("type") == "ConversionWebhook" for webhook in webhooks)
    for mode in PROJECT.install_modes:
        supported = mode == "AllNamespaces" if converts else mode in watched.olm_modes(PROJECT)
        if modes.count({"type": mode, "supported": supported}) != 1:
            yield package.csv.wrong(
                "spec",
                "installModes",
                what=f"{mode} must be there, once, {str(supported).lower()}",
            )


@rule
def watched_namespaces(package: Package) -> Iterator[str]:
    """Find a Deployment that does not get the watched namespaces from OLM.

    https://olm.operatorframework.io/docs/advanced-tasks/operator-scoping-with-operatorgroups/
    """
    field, name = "metadata.annotations['olm.targetNamespaces']", PROJECT.watched_variable
    for where, container in package.containers:
        variables = [
            variable["name"]
            for variable in container.get("env") or []
            if variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") == field
        ]
        if variables != [name]:
            yield package.csv.wrong(*where, "env", what=f"{name} must come from {field}")


@rule
def resources(package: Package) -> Iterator[str]:
    """Find containers without requests for CPU or memory.

    https://sdk.operatorframework.io/docs/best-practices/managing-resources/
    """
    for where, container in package.containers:
        for name in ("cpu", "memory"):
            if not container.get("resources", {}).get("requests", {}).get(name):
                yield package.csv.wrong(*where, "resources", "requests", name, what="is missing")


@rule
def permissions(package: Package) -> Iterator[str]:
    """Find excessive rights.

    https://sdk.operatorframework.io/docs/best-practices/common-recommendation/
    """
    for scope in ("permissions", "clusterPermissions"):
        for where, grant in package.rules(scope):
            words = (*grant.get("apiGroups", ()), *grant.get("resources", ()), *grant["verbs"])
            if "*" in words and not PROJECT.adopted:  # whose author wrote the role; `adopt` says it
                yield package.csv.wrong(*where, what="has a *; name each")
            if "leases" in grant.get("resources", []) and scope == "clusterPermissions":
                yield package.csv.wrong(*where, what="the Lease is in the operator's own namespace")


@rule
def related_images(package: Package) -> Iterator[str]:
    """Find images that a mirror of the catalog would miss, and in a release those without digest.

    https://olm.operatorframework.io/docs/reference/file-based-catalogs/ (relatedImages)
    """
    csv = package.csv
    related = csv.get("spec", "relatedImages") or []
    names = [image.get("image") for image in related]
    if not related:
        yield csv.wrong("spec", "relatedImages", what="is missing")
    for where, container in package.containers:
        if container["image"] not in names:
            yield csv.wrong(*where, "image", what="is not among spec.relatedImages")
        for i, variable in enumerate(container.get("env") or []):
            if variable["name"].startswith("RELATED_IMAGE_") and variable.get("value") not in names:
                yield csv.wrong(*where, "env", i, "value", what="is not among spec.relatedImages")
    if package.released:
        for i, name in enumerate(names):
            if not DIGEST.search(name or ""):
                what = f"{name} has no digest; a release names its images by @sha256:…"
                yield csv.wrong("spec", "relatedImages", i, "image", what=what)


@rule
def platforms(package: Package) -> Iterator[str]:
    """Find platforms that the labels promise and the Deployment's affinity does not, or vice versa.

    https://olm.operatorframework.io/docs/advanced-tasks/ship-operator-supporting-multiarch/
    """
    labels = package.csv.get("metadata", "labels") or {}
    prefix = "operatorframework.io/"
    promised = {
        (key.removeprefix(prefix).partition(".")[0], key.rpartition(".")[2])
        for key, value in labels.items()
        if re.match(rf"{prefix}(arch|os)\.", key) and value == "supported"
    }
    for where, deployment in package.deployments:
        keys = (
            *("spec", "template", "spec", "affinity", "nodeAffinity"),
            *("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        )
        terms = Document("", deployment).get(*keys) or []
        supported = {
            (expression["key"].removeprefix("kubernetes.io/"), value)
            for term in terms
            for expression in term["matchExpressions"]
            for value in expression["values"]
        }
        if promised != supported or not promised:
            differ = ", ".join(".".join(pair) for pair in sorted(promised ^ supported)) or "none"
            yield package.csv.wrong(*where, *keys, what=f"is not what the labels say: {differ}")


@rule
def image_labels(package: Package) -> Iterator[str]:
    """Find annotations that do not match the bundle's layout.

    https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/
    """
    prefix = "operators.operatorframework.io"
    expected = {
        f"{prefix}.bundle.mediatype.v1": "registry+v1",
        f"{prefix}.bundle.manifests.v1": "manifests/",
        f"{prefix}.bundle.metadata.v1": "metadata/",
        f"{prefix}.test.mediatype.v1": "scorecard+v1",
        f"{prefix}.test.config.v1": "tests/scorecard/",
    }
    annotations = package.annotations
    for key, value in expected.items():
        if annotations.get("annotations", key) != value:
            yield annotations.wrong("annotations", key, what=f"must be {value}")
    channels = (annotations.get("annotations", f"{prefix}.bundle.channels.v1") or "").split(",")
    default = f"{prefix}.bundle.channel.default.v1"
    existing = {channel.get("name") for channel in package.of("olm.channel")}
    if annotations.get("annotations", default) not in existing:
        yield annotations.wrong("annotations", default, what="is not a channel of the catalog")
    if not set(channels) <= existing:
        what = f"{','.join(channels)} are not all channels of the catalog"
        yield annotations.wrong("annotations", f"{prefix}.bundle.channels.v1", what=what)


# --- OLM v1's limitations; operator-controller, which enforces them, cannot be built here -------


@rule
def olmv1_takes_no_dependencies(package: Package) -> Iterator[str]:
    """Find dependencies, which OLM v1 refuses: required packages, kinds and constraints.

    https://operator-framework.github.io/operator-controller/project/olmv1_limitations/
    """
    for name in ("dependencies.yaml", "properties.yaml"):
        file = package.bundle / "metadata" / name
        if file.exists():
            where = file.relative_to(package.bundle.parent).as_posix()
            yield f"{where}: is there; OLM v1 takes no dependencies"
    for key in ("customresourcedefinitions", "apiservicedefinitions"):
        if package.csv.get("spec", key, "required"):
            yield package.csv.wrong("spec", key, "required", what="OLM v1 takes no dependencies")
    for blob in package.of("olm.bundle"):
        for i, entry in enumerate(blob.get("properties") or []):
            if entry["type"] in {"olm.gvk.required", "olm.package.required", "olm.constraint"}:
                what = f"{entry['type']}: OLM v1 takes no dependencies"
                yield blob.wrong("properties", i, "type", what=what)


@rule
def olmv1_has_no_operator_conditions(package: Package) -> Iterator[str]:
    """Find a use of OLM's OperatorConditions, which OLM v1 does not have.

    https://operator-framework.github.io/operator-controller/project/olmv1_limitations/
    """
    for scope in ("permissions", "clusterPermissions"):
        for where, grant in package.rules(scope):
            if "operatorconditions" in grant.get("resources", []):
                what = "OLM v1 has no OperatorConditions"
                yield package.csv.wrong(*where, "resources", what=what)
