"""The files of an operator on plain kopf that its author does not write: PROJECT is enough.

A repository that `kopf-kit new` wrote has the files that people write: Chart.yaml, the chart's
`_operator.tpl`, OLM's texts. An adopted one may have any of them, too; these are in place of those
that it has not.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kopf_kit.project import container, documents, written
from kopf_kit.rig import paths, reading, versions
from kopf_kit.rig.run import KitError

if TYPE_CHECKING:  # `kopf-kit adopt` reads CRDs and handlers where there is no PROJECT yet
    from kopf_kit.project.definition import Project
    from kopf_kit.project.written import Adopted

Manifest = dict[str, Any]
#: What Helm, kubectl and others note on an object.
_OF_TOOLS = re.compile(
    r"(meta\.)?helm\.sh/|kubectl\.kubernetes\.io/|argocd\.argoproj\.io/"
    r"|app\.kubernetes\.io/(managed-by|instance|version)$|cert-manager\.io/inject"
)

_OPERATOR = paths.KIT / "reference" / "plain" / "_operator.tpl"
_FEATURES = (
    *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)


def chart(project: "Project") -> str:
    """Return the text of Chart.yaml that people write."""
    file = project.written_chart / "Chart.yaml"
    if file.is_file() or not project.adopted:
        return reading.text(file, "it is the chart's")
    return documents.text(_chart(project, project.adopted))


def metadata(project: "Project") -> Manifest:
    """Return the fields of that Chart.yaml."""
    fields = reading.load(chart(project), file := project.written_chart / "Chart.yaml")
    return {**reading.shaped(fields, written.Chart, file)}


def files(project: "Project") -> dict[Path, str]:
    """Return the texts in place of other files that people write, by their paths in `built`."""
    if not project.adopted:
        return {}
    texts = {
        project.chart / "templates" / "_operator.tpl": _operator(project),
        project.olm / "csv.yaml": documents.text(_csv(project, project.adopted)),
        project.olm / "description.md": f"{project.adopted.description}\n\n```yaml\n$SAMPLE\n```\n",
    }
    return {
        file: text
        for file, text in texts.items()
        if not (project.root / file.relative_to(project.built)).is_file()
    }


def _operator(project: "Project") -> str:
    assert project.adopted
    folders = container.temporary(project.adopted.temporary)
    named = [(f"temporary-{n}", path) for n, path in enumerate(folders)]
    volumes = [{"name": name, "emptyDir": {}} for name, _ in named]
    mounts = [{"name": name, "mountPath": path} for name, path in named]
    words = {"widget-operator": project.name, "widgets": project.kinds[0].plural}
    words["@COMMAND@"] = documents.literal(json.dumps(project.command))
    for word, listed in (("@VOLUMES@\n", volumes), ("@MOUNTS@\n", mounts)):
        words[word] = documents.literal(documents.text(listed)) if listed else ""
    return re.sub("|".join(words), lambda found: words[found[0]], _OPERATOR.read_text())


def definitions(project: "Project") -> list[Manifest]:
    """Return the CRDs that PROJECT lists; raise KitError unless they are of its kinds."""
    assert project.adopted
    crds = [crd for name in project.adopted.crds for crd in definitions_in(project.root / name)]
    names = [crd["metadata"]["name"] for crd in crds]
    if odd := sorted({*names} ^ {kind.crd for kind in project.kinds}):
        raise KitError(
            f"{', '.join(odd)} must be both a kind in {project.root / 'PROJECT'} and in its `crds`"
        )
    return crds


def definitions_in(file: Path) -> list[Manifest]:
    """Return the CRDs in a file, which may have other objects; raise KitError if it has none."""
    definitions = []
    for manifest in manifests_in(file, "`crds` names files with CRDs"):
        match manifest:
            case {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}:
                definitions.append({**reading.shaped(manifest, written.Definition, file)})
                if not stored(definitions[-1]):
                    raise KitError(f"{file}: no version of a CRD in it has `storage: true`")
            case {"kind": "CustomResourceDefinition"}:
                definitions.clear()
                break
    if not definitions:
        raise KitError(f"{file} must have a CustomResourceDefinition of apiextensions.k8s.io/v1")
    return definitions


def manifests_in(file: Path, hint: str) -> list[Any]:
    """Return what is in a file of YAML; raise KitError, with the hint if it cannot be read."""
    try:
        return [*_unlisted(reading.documents(file, hint))]
    except reading.UnreadableError as error:
        if file.is_file() and "{{" in reading.text(file):
            raise reading.UnreadableError(
                f"{file} is a template, not YAML: name a file with what `helm template` prints"
            ) from error
        raise


def _unlisted(manifests: Iterable[Any]) -> Iterator[Any]:
    """Yield objects, and those in a List, as `kubectl get -o yaml` writes them."""
    for manifest in manifests:
        match manifest:
            case {"kind": str(kind), "items": [*items]} if kind.endswith("List"):
                yield from _unlisted(items)
            case _:
                yield manifest


def metadata_of(crd: Manifest, part: str) -> dict[str, str]:
    """Return the labels or annotations that an author gave a CRD, without those of tools."""
    kept: dict[str, str] = crd["metadata"].get(part) or {}
    return {name: text for name, text in kept.items() if not _OF_TOOLS.match(name)}


def stored(crd: Manifest) -> Manifest:
    """Return the version of a CRD in which objects are stored."""
    return next((version for version in crd["spec"]["versions"] if version.get("storage")), {})


def converter(crd: Manifest, chart: Path) -> str:
    """Return the Service that converts the objects of a kind, if a chart's templates lack it."""
    match crd["spec"].get("conversion"):
        case {"webhook": {"clientConfig": {"service": {"name": str(name)}}}}:
            files = (chart / "templates").rglob("*.y*ml")
            return "" if any(_has_service(reading.text(file), name) for file in files) else name
    return ""


def _has_service(text: str, name: str) -> bool:
    """Return whether a manifest, or a template of one, has a Service of that name."""
    text = re.sub(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}|(?m:(?<!\S)#.*$)", "", text, flags=re.DOTALL)
    return any(
        re.search(r"\bkind[\"']?:\s*[\"']?Service\b", each)
        and re.search(rf"\bname[\"']?:[^\n,]*(?<![\w.-]){re.escape(name)}(?![\w.-])", each)
        for each in re.split(r"(?m)^---", text)
    )


def _chart(project: "Project", adopted: "Adopted") -> Manifest:
    repository = adopted.home.rpartition("/")[0]
    authors = {"name": f"The {project.name} authors", "url": adopted.home}
    kinds = [
        {
            "kind": kind.kind,
            "version": kind.version,
            "name": kind.crd,
            "displayName": kind.kind,
            "description": f"Served by {project.name}",
        }
        for kind in project.kinds
    ]
    owner = repository.rpartition("/")[2].lower()  # that of an image
    image = {"name": project.name, "image": f"ghcr.io/{owner}/{project.name}:{adopted.version}"}
    return {
        "apiVersion": "v2",
        "name": project.name,
        "description": adopted.description,
        "type": "application",
        "version": adopted.version,
        "appVersion": adopted.version,
        "kubeVersion": f">={versions.OLDEST}.0-0",
        "home": adopted.home,
        "icon": f"{adopted.home}/raw/main/docs/icon.svg",
        "sources": [adopted.home],
        "keywords": ["operator", "kopf", "python"],
        "maintainers": [authors],
        "annotations": {
            "artifacthub.io/category": "integration-delivery",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": "Basic Install",
            "artifacthub.io/prerelease": "false",
            "artifacthub.io/crds": documents.text(kinds),
            "artifacthub.io/crdsExamples": "# the samples\n",
            "artifacthub.io/images": documents.text([image]),
            "artifacthub.io/links": documents.text([{"name": "Source", "url": adopted.home}]),
        },
    }


def _csv(project: "Project", adopted: "Adopted") -> Manifest:
    """Return what the ClusterServiceVersion says beyond the chart."""
    authors, host = f"The {project.name} authors", project.kinds[0].qualified_group
    crds = {crd["spec"]["names"]["kind"]: crd for crd in definitions(project)}
    return {
        "metadata": {
            "annotations": {
                "categories": "Developer Tools",
                "certified": "false",
                "createdAt": f"{adopted.created}T00:00:00Z",
                "description": adopted.description,
                "operatorframework.io/suggested-namespace": project.name,
                **{f"features.operators.openshift.io/{name}": "false" for name in _FEATURES},
            }
        },
        "spec": {
            "displayName": project.name.replace("-", " ").title(),
            "maturity": "alpha",
            "provider": {"name": authors, "url": adopted.home},
            "maintainers": [{"name": authors, "email": f"{project.name}@{host}"}],
        },
        "kinds": {
            kind: {
                "resources": [{"kind": kind, "name": "", "version": stored(crd)["name"]}],
                "status": {},
            }
            for kind, crd in crds.items()
        },
    }
