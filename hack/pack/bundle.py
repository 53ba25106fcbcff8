"""The OLM bundle, made of the chart and of what olm/ says beyond it.

`make generate` writes that of this version to bundle/; `hack.pack.catalog` has it in the
catalog. Tests and releases make others: `bundle` takes any `Release`.

OLM has its own way where the chart has another, and this is all that differs:

- Which namespaces are watched is the OperatorGroup's to say: OLM writes them into an annotation,
  and the Pod reads them from there.
- Each flag becomes its environment variable, for those a Subscription can set (`spec.config.env`).
- What the operator does in the watched namespaces is a permission there, and only what it needs
  beside that is one in the cluster. OLM makes the ServiceAccount itself.
"""

import base64
import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.pack import chart_docs, documents
from hack.pack.project import PROJECT
from hack.rig import paths, tools, versions
from hack.rig.run import HackError, output

NAME = PROJECT.name
(_KIND,) = PROJECT.kinds
(_IMAGE,) = PROJECT.images
BUNDLE = paths.CHECKOUT / "bundle"
DOCKERFILE = paths.CHECKOUT / "bundle.Dockerfile"
#: What only people can say of it.
WRITTEN = paths.CHECKOUT / "olm"
_ICON = paths.CHECKOUT / "docs" / "icon.svg"

#: The channels for those who want every version, and for those who want releases alone.
CANDIDATE, STABLE = "candidate", "stable"

#: The scorecard's image, for those who run it in a cluster.
_SCORECARD_IMAGE = f"quay.io/operator-framework/scorecard-test:{versions.SCORECARD}"
_SCORECARD_TESTS = {
    "basic": ("basic-check-spec",),
    "olm": (
        "olm-bundle-validation",
        "olm-crds-have-validation",
        "olm-crds-have-resources",
        "olm-spec-descriptors",
        "olm-status-descriptors",
    ),
}

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Release:
    """A version, and the images that it is made of; in a real release all are named by digest."""

    version: str
    #: The operator's image.
    image: str
    #: The message Pods' image.
    message_image: str
    #: The image that holds the bundle itself.
    bundle_image: str

    @property
    def name(self) -> str:
        """What OLM calls it."""
        return f"{NAME}.v{self.version}"


def channels(version: str) -> tuple[str, ...]:
    """Return the channels that offer a version: only `candidate` has one such as 1.2.0-rc.1.

    Each minor version has a channel of its own, such as `stable-v1.2`, as `opm` names them: there
    a fix is released for those who stay with that minor.
    """
    if "-" in version:
        return (CANDIDATE,)
    major, minor, _ = version.split(".")
    return (CANDIDATE, STABLE, f"{STABLE}-v{major}.{minor}")


def default_channel(versions: Iterable[str]) -> str:
    """Return the default channel: `stable` once it has a release, else `candidate`."""
    return STABLE if any(STABLE in channels(version) for version in versions) else CANDIDATE


# --- The chart ----------------------------------------------------------------------------------


@functools.cache
def _rendered(*namespaces: str) -> list[Manifest]:
    """Return what Helm installs, with these namespaces watched; none: all."""
    watched = f"watchNamespaces={json.dumps(namespaces)}"
    text = output(
        [
            *(tools.path("helm3"), "template", NAME, chart_docs.CHART, "--namespace", NAME),
            *("--values", WRITTEN / "values.yaml", "--set-json", watched),
        ],
        timeout=60,
    )
    return [found for found in yaml.load_all(text, yaml.CSafeLoader) if found]


def _find(kind: str, name: str, *namespaces: str) -> Manifest:
    """Return a copy of the one object of that kind and name."""
    (found,) = (
        manifest
        for manifest in _rendered(*namespaces)
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    )
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def _arguments() -> dict[str, str]:
    """Return the flags that the chart starts the operator with; one without a value is true."""
    (container,) = _find("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    pairs = (argument.removeprefix("--").partition("=") for argument in container["args"])
    return {name: value if equals else "true" for name, equals, value in pairs}


@functools.cache
def current() -> Release:
    """Return the version that is checked out, with the images that the chart has."""
    (container,) = _find("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    image: str = container["image"]
    return Release(
        version=PROJECT.version,
        image=image,
        message_image=_arguments()[_IMAGE.flag],
        bundle_image=f"{image.rpartition(':')[0]}-bundle:v{PROJECT.version}",
    )


def _labels(labels: Manifest, release: Release) -> Manifest:
    """Return an object's labels without what is Helm's."""
    kept = {
        key: value
        for key, value in labels.items()
        if key not in {"helm.sh/chart", "app.kubernetes.io/managed-by"}
    }
    return kept | {"app.kubernetes.io/version": release.version}


# --- The manifests ------------------------------------------------------------------------------


def crd(release: Release) -> Manifest:
    """Return the definition of the kind."""
    found = _find("CustomResourceDefinition", _KIND.crd)
    found["metadata"] = {
        "name": found["metadata"]["name"],
        "labels": _labels(found["metadata"]["labels"], release),
    }
    return found


def _deployment(release: Release) -> Manifest:
    """Return the Deployment as OLM takes it: name, labels and spec."""
    found = _find("Deployment", NAME)
    template = found["spec"]["template"]
    template["metadata"]["labels"] = _labels(template["metadata"]["labels"], release)
    (container,) = template["spec"]["containers"]
    container["image"] = release.image
    del container["args"]
    container["env"] += [
        {
            "name": "WATCH_NAMESPACE",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}
            },
        },
        {"name": _IMAGE.related_variable, "value": release.message_image},
        *_settings(),
    ]
    return {
        "name": found["metadata"]["name"],
        "label": _labels(found["metadata"]["labels"], release),
        "spec": found["spec"],
    }


def _settings() -> Iterable[dict[str, str]]:
    """Yield the environment variables that say what the chart's flags say."""
    # The namespaces are OLM's to say.
    flags = _arguments()
    del flags["all-namespaces"]
    flags[_IMAGE.flag] = f"$({_IMAGE.related_variable})"
    for name, value in flags.items():
        yield {"name": PROJECT.variables + name.replace("-", "_").upper(), "value": value}


def _permissions() -> list[Manifest]:
    """Return the rules for the watched namespaces; in the cluster the operator needs no others."""
    here = _find("Role", f"{NAME}-leader-election", NAME)["rules"]
    return [*_find("Role", NAME, NAME)["rules"], *here]


def _platforms() -> dict[str, str]:
    """Return the labels of the platforms that the Deployment's affinity lists."""
    affinity = _find("Deployment", NAME)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return {
        f"operatorframework.io/{wanted['key'].removeprefix('kubernetes.io/')}.{value}": "supported"
        for wanted in term["matchExpressions"]
        for value in wanted["values"]
    }


def _examples(chart: Manifest) -> list[Manifest]:
    """Return the chart's examples, as they are once the operator has seen to them."""
    examples: list[Manifest] = yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"])
    for example in examples:
        example["status"] = {
            "phase": "Processed",
            "observedGeneration": 1,
            "podName": f"msg-{example['metadata']['name']}",
            "nodeName": "node-1",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "PodRunning",
                    "message": "The Pod prints the text.",
                    "lastTransitionTime": "2026-11-21T00:00:00Z",
                    "observedGeneration": 1,
                }
            ],
        }
    return examples


def _described(written: list[Manifest], schema: Manifest, where: str) -> list[Manifest]:
    """Return descriptors with the descriptions of the schema; raise HackError where they differ."""
    properties = schema["properties"]
    paths_ = [descriptor["path"] for descriptor in written]
    if odd := set(paths_) ^ set(properties):
        raise HackError(
            f"olm/csv.yaml: {where}: {', '.join(sorted(odd))} must be both here and in the CRD"
        )
    return [
        descriptor | {"description": properties[descriptor["path"]]["description"]}
        for descriptor in written
    ]


def csv(release: Release) -> Manifest:
    """Return the ClusterServiceVersion."""
    chart = yaml.safe_load((chart_docs.CHART / "Chart.yaml").read_text())
    written = yaml.safe_load((WRITTEN / "csv.yaml").read_text())
    definition = crd(release)
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    examples = _examples(chart)
    (shown,) = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release.name,
            "labels": _labels(definition["metadata"]["labels"], release) | _platforms(),
            "annotations": {
                **written["metadata"]["annotations"],
                "alm-examples": _json(examples),
                "capabilities": chart["annotations"]["artifacthub.io/operatorCapabilities"],
                "containerImage": release.image,
                "operatorframework.io/initialization-resource": _json(
                    {key: value for key, value in examples[0].items() if key != "status"}
                ),
                "repository": chart["home"],
                "support": f"{chart['home']}/issues",
            },
        },
        "spec": {
            **written["spec"],
            "version": release.version,
            "description": (WRITTEN / "description.md").read_text(),
            "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
            "keywords": chart["keywords"],
            "links": yaml.safe_load(chart["annotations"]["artifacthub.io/links"]),
            "icon": [
                {
                    "base64data": base64.b64encode(_ICON.read_bytes()).decode(),
                    "mediatype": "image/svg+xml",
                }
            ],
            "installModes": [
                {"type": mode, "supported": True}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {
                "owned": [
                    {
                        "name": definition["metadata"]["name"],
                        "kind": definition["spec"]["names"]["kind"],
                        "version": version["name"],
                        "displayName": shown["displayName"],
                        "description": schema["description"],
                        "resources": written["resources"],
                        **{
                            f"{part}Descriptors": _described(
                                written[f"{part}Descriptors"],
                                schema["properties"][part],
                                f"{part}Descriptors",
                            )
                            for part in ("spec", "status")
                        },
                    }
                ]
            },
            "install": {
                "strategy": "deployment",
                "spec": {
                    "permissions": [{"serviceAccountName": NAME, "rules": _permissions()}],
                    "deployments": [_deployment(release)],
                },
            },
            "relatedImages": [
                {"name": NAME, "image": release.image},
                {"name": _IMAGE.name, "image": release.message_image},
            ],
        },
    }


# --- The files ----------------------------------------------------------------------------------


def annotations(release: Release) -> dict[str, str]:
    """Return what tells OLM's tools where in the bundle things are; the image's labels, too."""
    prefix = "operators.operatorframework.io"
    return {
        f"{prefix}.bundle.mediatype.v1": "registry+v1",
        f"{prefix}.bundle.manifests.v1": "manifests/",
        f"{prefix}.bundle.metadata.v1": "metadata/",
        f"{prefix}.bundle.package.v1": NAME,
        f"{prefix}.bundle.channels.v1": ",".join(channels(release.version)),
        f"{prefix}.bundle.channel.default.v1": default_channel([release.version]),
        f"{prefix}.test.mediatype.v1": "scorecard+v1",
        f"{prefix}.test.config.v1": "tests/scorecard/",
    }


def _scorecard() -> Manifest:
    """Return the configuration of the scorecard: its six tests, all at once."""
    return {
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [
            {
                "parallel": True,
                "tests": [
                    {
                        "entrypoint": ["scorecard-test", test],
                        "image": _SCORECARD_IMAGE,
                        "labels": {"suite": suite, "test": f"{test}-test"},
                    }
                    for suite, tests in _SCORECARD_TESTS.items()
                    for test in tests
                ],
            }
        ],
    }


def bundle(release: Release) -> dict[str, str]:
    """Return the texts of the files of a bundle, by their paths in it."""
    definition = crd(release)
    plural, _, group = definition["metadata"]["name"].partition(".")
    return {
        f"manifests/{NAME}.clusterserviceversion.yaml": dump(csv(release)),
        f"manifests/{group}_{plural}.yaml": dump(definition),
        "metadata/annotations.yaml": dump({"annotations": annotations(release)}),
        "tests/scorecard/config.yaml": dump(_scorecard()),
    }


def dockerfile(release: Release, folder: str = "bundle") -> str:
    """Return the Dockerfile of the bundle's image; it is built where the bundle's folder is."""
    lines = [
        "# Generated by hack/pack/bundle.py: do not edit, `make generate`",
        "FROM scratch",
        *(f"LABEL {key}={value}" for key, value in annotations(release).items()),
        *(
            f"COPY {folder}/{part} /{part}/"
            for part in ("manifests", "metadata", "tests/scorecard")
        ),
    ]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Return the texts of this version's bundle and its Dockerfile, by their paths here."""
    release = current()
    made = {BUNDLE / path: text for path, text in bundle(release).items()}
    return {**made, DOCKERFILE: dockerfile(release)}


def dump(*manifests: Manifest, by: str = "hack/pack/bundle.py of the chart and of olm/") -> str:
    """Return documents as YAML, with the header of what is generated."""
    return documents.dump(*manifests, by=by)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
