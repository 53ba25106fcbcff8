"""The folders to submit to the two hubs that share community operators, in each one's layout.

`release bundle` writes them:

- community-operators (OperatorHub.io) has bundles alone: what each replaces and skips is in its
  ClusterServiceVersion. It takes no file-based catalogs (its pull request 8737 was closed).
- community-operators-prod (OpenShift) has file-based catalogs: its pipeline adds the bundle to the
  channels that release-config.yaml names, and creates the catalog's template with the first one.

Both pipelines build the bundle's image themselves. That of a registry of one's own is built of
`bundle/`, beside them; catalogs of file-based channels need not know what it replaces.

https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/operator-ci-yaml/
https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/fbc_autorelease/
"""

import functools
import shutil
from pathlib import Path

from kopf_kit.chart.templates import Manifest
from kopf_kit.olm import bundle, catalog, service_version
from kopf_kit.project import documents, releases, written
from kopf_kit.project.releases import NAME, Release
from kopf_kit.rig import reading

_dump = functools.partial(documents.dump, by="kopf_kit/release/submission.py")
TEMPLATE = "basic.yaml"
#: The hubs' repositories on GitHub, by their folders.
HUBS = {
    "community-operators": "k8s-operatorhub/community-operators",
    "community-operators-prod": "redhat-openshift-ecosystem/community-operators-prod",
}
#: The newest version of OpenShift that has a catalog there.
_NEWEST = 22


def lay_out(release: Release, folder: Path) -> list[Path]:
    """Write everything into a folder, which is emptied before; return the operator's folders."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in bundle.bundle(release).items():
        (folder / "bundle" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "bundle" / path).write_text(text)
    (folder / "bundle.Dockerfile").write_text(bundle.dockerfile(release))
    operators = []
    for hub, files in _files(catalog.placed(release)).items():
        operator = folder / hub / "operators" / NAME
        for path, text in files.items():
            (operator / path).parent.mkdir(parents=True, exist_ok=True)
            (operator / path).write_text(text)
        operators.append(operator)
    return operators


def _files(release: Release) -> dict[str, dict[str, str]]:
    """Return the texts of the files below operators/<name>/, for each hub."""
    common = {f"{release.version}/{path}": text for path, text in bundle.bundle(release).items()}
    said = reading.document(service_version.WRITTEN / "csv.yaml", written.ServiceVersion)
    reviewers = {"reviewers": said["reviewers"]} if said.get("reviewers") else {}
    plain, prod = HUBS
    return {
        plain: {**common, "ci.yaml": _dump({"updateGraph": "replaces-mode", **reviewers})},
        prod: {
            **common,
            f"{release.version}/release-config.yaml": _dump(_release_config(release)),
            "ci.yaml": _dump({"fbc": _fbc(), **reviewers}),
        },
    }


def _fbc() -> Manifest:
    """Return the catalogs that offer the operator: of each OpenShift with a fitting Kubernetes."""
    return {
        "enabled": True,
        "catalog_mapping": [
            {
                "template_name": TEMPLATE,
                "catalog_names": [
                    f"v4.{minor}" for minor in range(bundle.oldest_openshift(), _NEWEST + 1)
                ],
                "type": "olm.template.basic",
            }
        ],
    }


def _release_config(release: Release) -> Manifest:
    """Return release-config.yaml, which adds the release at the head of channels.

    The pipeline can add entries only at the head. It cannot put a fix of an older minor version
    below the newest release of `stable`, but users of `stable` do not need that fix.
    """
    versions = {*catalog.known(), release.version}
    entries = [
        {
            "template_name": TEMPLATE,
            "channels": [channel["name"]],
            "defaultChannel": releases.default_channel(versions),
            **{key: value for key, value in channel["entries"][-1].items() if key != "name"},
        }
        for channel in catalog.headed(release.version)
    ]
    return {"catalog_templates": entries}


def problems(release: Release, operators: list[Path]) -> list[str]:
    """Return a sentence for each mistake in the folders, as OLM's own validators tell it."""
    return bundle.findings(operators[0] / release.version)
