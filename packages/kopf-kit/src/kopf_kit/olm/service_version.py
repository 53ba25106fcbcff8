"""The ClusterServiceVersion, generated from the chart and from the additional texts in olm/.

It differs from the chart only where OLM works differently:

- The OperatorGroup decides which namespaces are watched: OLM writes them into an annotation of the
  Pod, from which the operator reads them.
- Each flag becomes its environment variable, because a Subscription can set those
  (`spec.config.env`).
- The operator's rights in the watched namespaces are `permissions`, and only its other rights,
  such as that to its Lease, are `clusterPermissions`. OLM itself creates the ServiceAccount.
- What an author's templates add is here or beside it: `kopf_kit.olm.further_objects`.
- OLM makes the certificate of webhooks, mounts it, and writes the conversion into the CRDs. It does
  so only for an operator that watches all namespaces.
"""

import base64
import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kopf_kit.chart import templates
from kopf_kit.chart.templates import Manifest, arguments, find, for_olm
from kopf_kit.olm import further_objects
from kopf_kit.project import adopted, rbac, registered, samples, written
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import Release
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

NAME = PROJECT.name
#: OLM looks for what it made by a label with this name as its value.
#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_LONGEST_NAME = 63
#: The texts that people write.
WRITTEN = PROJECT.olm


def _labels(labels: Manifest, release: Release) -> Manifest:
    """Return an object's labels without Helm's own."""
    kept = {
        key: value
        for key, value in labels.items()
        if key not in {"helm.sh/chart", "app.kubernetes.io/managed-by"}
    }
    return kept | {"app.kubernetes.io/version": release.version}


def crds(release: Release) -> list[Manifest]:
    """Return the CRDs of the kinds.

    Their conversion names a Service that is only in a cluster where Helm installs. OLM replaces the
    CRD first and writes the conversion later. In between, an API server without one would change
    the version alone, and lose the fields that the other version does not have.
    """
    definitions = [find("CustomResourceDefinition", kind.crd) for kind in PROJECT.kinds]
    theirs = adopted.definitions(PROJECT) if PROJECT.adopted else ()
    own = {crd["metadata"]["name"]: adopted.metadata_of(crd, "annotations") for crd in theirs}
    for definition in definitions:
        annotations = own.get(definition["metadata"]["name"])
        definition["metadata"] = {
            "name": definition["metadata"]["name"],
            "labels": _labels(definition["metadata"]["labels"], release),
            **({"annotations": annotations} if annotations else {}),
        }
    return definitions


def _deployment(release: Release) -> Manifest:
    """Return the Deployment in OLM's form: name, labels and spec."""
    deployment = find("Deployment", NAME)
    template = deployment["spec"]["template"]
    template["metadata"]["labels"] = _labels(template["metadata"]["labels"], release)
    (container,) = template["spec"]["containers"]
    built, container["image"] = container["image"], release.image
    del container["args"]
    container["env"] += [
        {
            "name": PROJECT.watched_variable,
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}
            },
        },
        *(
            {"name": image.related_variable, "value": release.pod_images[image.name]}
            for image in PROJECT.images
        ),
        *_settings({built: release.image}),
    ]
    return {
        "name": deployment["metadata"]["name"],
        "label": _labels(deployment["metadata"]["labels"], release),
        "spec": deployment["spec"],
    }


def _settings(released: Mapping[str, str]) -> Iterable[dict[str, str]]:
    """Yield the environment variables that replace the chart's flags.

    `released` has the image to write for the operator's own, which it may give to Pods of its own.
    """
    # OLM sets the namespaces.
    flags = arguments()
    flags.pop("all-namespaces", None)
    flags |= {image.flag: f"$({image.related_variable})" for image in PROJECT.images}
    for name, value in flags.items():
        variable = PROJECT.variables + name.replace("-", "_").upper()
        yield {"name": variable, "value": released.get(value, value)}


def further() -> further_objects.Further:
    """Return what the author's own templates add."""
    return further_objects.of(for_olm(NAME))


def objects(release: Release) -> list[Manifest]:
    """Return the objects beside the CSV and the CRDs, which an author's templates add."""
    copies = copy.deepcopy(further().objects)
    for manifest in copies:
        metadata = manifest["metadata"]
        metadata.pop("namespace", None)
        metadata["labels"] = _labels(metadata.get("labels", {}), release)
        noted = metadata.pop("annotations", {})
        if kept := {key: text for key, text in noted.items() if not key.startswith("helm.sh/")}:
            metadata["annotations"] = kept
    return copies


def _rights() -> Manifest:
    """Return the operator's rights in the watched namespaces, and those in the cluster.

    The latter have the Lease: OLM v1 gives `permissions` in the watched namespaces alone, which
    need not be the operator's own (docs/decisions/packages.md, 8).
    """
    more = further()
    rules = [*find("Role", NAME, NAME)["rules"], *more.permissions]
    elected = () if PROJECT.adopted else find("Role", f"{NAME}-leader-election", NAME)["rules"]
    lease = [rule for rule in elected if rule["resources"] == ["leases"]]
    wide = [*lease, *more.cluster_permissions]
    return {
        "permissions": [{"serviceAccountName": NAME, "rules": rules}],
        **({"clusterPermissions": [{"serviceAccountName": NAME, "rules": wide}]} if wide else {}),
    }


def _conversion() -> Iterator[Manifest]:
    """Yield the webhookdefinition by which OLM has the operator convert objects."""
    if PROJECT.converted:
        yield {
            "type": "ConversionWebhook",
            "generateName": f"convert.{PROJECT.kinds[0].qualified_group}",
            "deploymentName": NAME,
            "containerPort": 443,
            "targetPort": "webhook",
            "webhookPath": "/convert",
            "conversionCRDs": [*PROJECT.converted],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }


def _admission() -> Iterator[Manifest]:
    """Yield the webhookdefinitions of the functions that are asked before an object is stored.

    OLM restricts them to the namespaces that it lets the operator watch, and knows no conditions.
    The operator itself lets through what the kit's own conditions leave out.
    """
    for webhook in registered.of(PROJECT):
        entry, name = webhook.entry, webhook.entry["name"]
        if (length := len(name)) > _LONGEST_NAME:
            raise KitError(
                f"{name} has {length} characters, and OLM, which makes a label of it, takes at "
                f"most {_LONGEST_NAME}; give the function a shorter name, or leave out olm/"
            )
        yield {
            "type": f"{webhook.kind.capitalize()}AdmissionWebhook",
            "generateName": name,
            "deploymentName": NAME,
            "containerPort": 443,
            "targetPort": "webhook",
            "webhookPath": webhook.path,
            **{key: entry[key] for key in further_objects.WEBHOOK if key in entry},
        }


def _install_modes() -> list[Manifest]:
    """Return which namespaces OLM may have the operator watch."""
    modes = PROJECT.install_modes
    supported = modes[-1:] if PROJECT.converted else rbac.olm_modes(PROJECT)
    return [{"type": mode, "supported": mode in supported} for mode in modes]


def _platforms() -> dict[str, str]:
    """Return the labels of the platforms that the Deployment's affinity lists."""
    affinity = find("Deployment", NAME)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return {
        f"operatorframework.io/{match['key'].removeprefix('kubernetes.io/')}.{value}": "supported"
        for match in term["matchExpressions"]
        for value in match["values"]
    }


#: What an operator without a `status` of its own writes.
_TRUE = {"type": "Ready", "status": "True", "reason": "Reconciled", "message": ""}
_TRUE["lastTransitionTime"] = "2026-01-01T00:00:00Z"
_READY = {"observedGeneration": 1, "conditions": [{**_TRUE, "observedGeneration": 1}]}


def _examples(kinds: Mapping[str, Manifest]) -> list[Manifest]:
    """Return the samples with the status that the operator writes, unless only plain kopf does."""
    examples = [*samples.manifests().values()]
    for example in examples if not PROJECT.adopted else ():
        status = json.dumps(kinds[example["kind"]].get("status") or _READY)
        example["status"] = json.loads(status.replace("$NAME", example["metadata"]["name"]))
    return examples


def _internal(examples: Iterable[Manifest]) -> dict[str, str]:
    """Return the annotation by which consoles hide kinds, if some have no example.

    https://github.com/openshift/console/pull/3877
    """
    shown = {example["kind"] for example in examples}
    hidden = [kind.crd for kind in PROJECT.kinds if kind.kind not in shown]
    return {"operators.operatorframework.io/internal-objects": json.dumps(hidden)} if hidden else {}


def _shown(definition: Manifest) -> Manifest:
    """Return the version of a CRD that PROJECT names; the CSV describes that one."""
    crd = definition["metadata"]["name"]
    return next(kind for kind in PROJECT.kinds if kind.crd == crd).shown(definition)


def _owned(definition: Manifest, written: Manifest, display_name: str) -> Manifest:
    """Return the description of an owned kind."""
    version = _shown(definition)
    kind, schema = definition["spec"]["names"]["kind"], version["schema"]["openAPIV3Schema"]
    return {
        "name": definition["metadata"]["name"],
        "kind": kind,
        "version": version["name"],
        "displayName": display_name,
        "description": schema.get("description", display_name),
        "resources": written.get("resources") or _resources(kind),
        **{
            f"{part}Descriptors": [
                *_descriptors(part, _fields(schema, part), written.get(f"{part}Descriptors", ()))
            ]
            for part in ("spec", "status")
        },
    }


def _resources(kind: str) -> list[dict[str, str]]:
    """Return the kinds of children that the code declares for a kind, or else the kind itself."""
    (served,) = (
        controller
        for controller in PROJECT.declared("manager").controllers
        if controller.kind.kind == kind
    )
    return [
        {"kind": owned.kind, "name": "", "version": owned.api_version.rpartition("/")[2]}
        for owned in served.declaration.owned or (served.kind,)
    ]


def _descriptors(
    part: str, fields: Mapping[str, Manifest], written: Iterable[Manifest]
) -> Iterator[Manifest]:
    """Yield a descriptor for each field in the schema, with what people write of it instead."""
    said = {descriptor["path"]: descriptor for descriptor in written}
    for name, field in fields.items():
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
        derived = {
            "path": name,
            "displayName": words[:1].upper() + words[1:].lower(),
            "x-descriptors": [f"urn:alm:descriptor:{_shown_as(name, field, part)}"],
        }
        shown = {**derived, **said.get(name, {})}
        yield shown | {"description": field.get("description", shown["displayName"])}


def _shown_as(name: str, field: Manifest, part: str) -> str:
    """Return how a console shows a field: https://github.com/openshift/console's descriptors."""
    if part == "status":
        if name == "conditions":
            return "io.kubernetes.conditions"
        return "com.tectonic.ui:number" if field.get("type") == "integer" else "text"
    kinds = {"string": "text", "integer": "number", "boolean": "booleanSwitch"}
    if field.get("properties"):
        return f"com.tectonic.ui:fieldGroup:{name}"
    return f"com.tectonic.ui:{kinds.get(field.get('type', ''), 'advanced')}"


def _fields(schema: Manifest, part: str) -> Manifest:
    """Return the fields of an object's spec or status."""
    fields: Manifest = schema.get("properties", {}).get(part, {}).get("properties", {})
    return fields


def _check_kinds(written: Mapping[str, Manifest], definitions: list[Manifest]) -> None:
    """Raise KitError with all that differs between the texts about the kinds and their CRDs."""
    problems = [
        f"olm/csv.yaml: {mistake}"
        for definition in definitions
        for mistake in _mistakes(written, definition)
    ]
    if problems:
        raise KitError("\n".join(problems))


def _mistakes(kinds: Mapping[str, Manifest], definition: Manifest) -> Iterator[str]:
    """Yield what is wrong with the texts about a kind."""
    version = _shown(definition)
    kind, schema = definition["spec"]["names"]["kind"], version["schema"]["openAPIV3Schema"]
    if (written := kinds.get(kind)) is None:
        yield f"kinds: add {kind}: {{}}, or what consoles show of it"
        return
    for part in ("spec", "status"):
        fields = _fields(schema, part)
        paths = {descriptor["path"] for descriptor in written.get(f"{part}Descriptors", ())}
        if silent := sorted(name for name in fields if "description" not in fields[name]):
            yield (
                f"{kind}: {part}: describe {', '.join(silent)} in the code, with a docstring below "
                "each field"
            )
        if odd := ", ".join(sorted(paths - fields.keys())):
            yield f"{kind}: {part}Descriptors: remove {odd}, which the CRD does not have"


def _description() -> str:
    """Return the text that people write, with the sample in its place."""
    text = reading.text(WRITTEN / "description.md")
    return text.replace("$SAMPLE", samples.first().rstrip())


def csv(release: Release) -> Manifest:
    """Return the ClusterServiceVersion."""
    said = reading.document(WRITTEN / "csv.yaml", written.ServiceVersion)
    kinds: Mapping[str, Any] = said.get("kinds", {})
    definitions = crds(release)
    if not PROJECT.adopted:  # then the CRDs are as they are
        _check_kinds(kinds, definitions)
    webhooks = [*_conversion(), *_admission(), *further().webhooks]
    place = release.place
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release.name,
            "labels": _labels(definitions[0]["metadata"]["labels"], release) | _platforms(),
            "annotations": {**said["metadata"]["annotations"], **_annotations(release, kinds)},
        },
        "spec": {
            **said["spec"],
            "version": release.version,
            **({"replaces": place.replaces} if place and place.replaces else {}),
            **({"skips": [*place.skips]} if place and place.skips else {}),
            **_about(),
            "installModes": _install_modes(),
            "customresourcedefinitions": {"owned": [*_all_owned(definitions, kinds)]},
            "install": {
                "strategy": "deployment",
                "spec": {**_rights(), "deployments": [_deployment(release)]},
            },
            **({"webhookdefinitions": webhooks} if webhooks else {}),
            "relatedImages": [
                {"name": NAME, "image": release.image},
                *({"name": name, "image": ref} for name, ref in release.pod_images.items()),
            ],
        },
    }


def _annotations(release: Release, kinds: Mapping[str, Manifest]) -> dict[str, str]:
    """Return the annotations that nobody writes."""
    chart, place, examples = templates.read(), release.place, _examples(kinds)
    first = {key: value for key, value in examples[0].items() if key != "status"}
    return {
        "alm-examples": _json(examples),
        "capabilities": chart["annotations"]["artifacthub.io/operatorCapabilities"],
        "containerImage": release.image,
        "operatorframework.io/initialization-resource": _json(first),
        "repository": chart["home"],
        "support": f"{chart['home']}/issues",
        **_internal(examples),
        **({"olm.skipRange": place.skip_range} if place and place.skip_range else {}),
    }


def _about() -> Manifest:
    """Return what consoles show of the operator."""
    chart, icon = templates.read(), base64.b64encode(PROJECT.icon.read_bytes()).decode()
    return {
        "description": _description(),
        "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
        "keywords": chart["keywords"],
        "links": templates.listed("links", written.Links),
        "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
    }


def _all_owned(
    definitions: Iterable[Manifest], kinds: Mapping[str, Manifest]
) -> Iterator[Manifest]:
    """Yield the descriptions of the owned kinds."""
    listed = templates.listed("crds", written.Titles)
    titles = {each["name"]: each["displayName"] for each in listed}
    for definition in definitions:
        names = definition["spec"]["names"], definition["metadata"]["name"]
        yield _owned(definition, kinds[names[0]["kind"]], _title(titles, names[1]))


def _title(titles: Mapping[str, str], crd: str) -> str:
    if crd not in titles:
        raise KitError(
            f"{PROJECT.written_chart / 'Chart.yaml'}: artifacthub.io/crds does not list {crd}; add "
            "it there, with its displayName"
        )
    return titles[crd]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
