"""The rules for the bundle and the catalog.

`verify` checks the files in git, `release bundle` the submission, and the tests
copies that they break. Every finding is one sentence that begins with the file and the field.

A rule named `check_…` is a rule of the pipeline that adds operators to the catalogs of
OperatorHub.io, and has the same name there:
https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/static_checks/
The other rules name their sources. They are about what an author writes, and what people record:
OLM's own validators, which `findings` runs, `opm validate` and the scorecard say the rest.
"""

from collections.abc import Mapping
from pathlib import Path

from kopf_kit.pack.rules import bundle, catalog
from kopf_kit.pack.rules.package import RULES, Package
from kopf_kit.rig import tools
from kopf_kit.rig.run import HackError, output

__all__ = ["RULES", "bundle", "catalog", "findings", "problems"]


def problems(bundle: Path, catalog: Path, released: bool = False) -> list[str]:
    """Return a sentence for each mistake in a bundle and a catalog.

    `released` says that the bundle is submitted, so it must name its images by digest.
    """
    try:
        package = Package(bundle, catalog, released)
    except HackError as error:
        return [str(error)]
    return [f"{sentence} ({name})" for name, rule in RULES.items() for sentence in rule(package)]


def findings(bundle: Path, *container_tool: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each error or warning of OLM's own validators about a bundle.

    The pipeline's rules `check_osdk_bundle_validate_operatorhub` and `…_operator_framework` are
    these: `operator-sdk bundle validate` has no others (kopf_offline/go/olm-validate). One of them
    inspects the images, and runs only with a container tool that pulls them.
    """
    program = tools.path("olm-validate")
    return output([program, bundle, *container_tool], timeout=300, env=env).splitlines()
