"""The rules for the bundle and the catalog.

`make verify` checks the files in git, `make release ARGS=bundle` the submission, and the tests
copies that they break. Every finding is one sentence that begins with the file and the field.

A rule named `check_…` is a rule of the pipeline that adds operators to the catalogs of
OperatorHub.io, and has the same name there:
https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/static_checks/
The other rules name their sources. The rules of OLM's own validators are not repeated here;
`validators` runs them.
"""

from pathlib import Path

from hack.pack.rules import bundle, catalog, kinds, olmv1
from hack.pack.rules.package import RULES, Package
from hack.rig.run import HackError

__all__ = ["RULES", "bundle", "catalog", "kinds", "olmv1", "problems"]


def problems(bundle: Path, catalog: Path, released: bool = False) -> list[str]:
    """Return a sentence for each mistake in a bundle and a catalog.

    `released` says that the bundle is submitted, so it must name its images by digest.
    """
    try:
        package = Package(bundle, catalog, released)
    except HackError as error:
        return [str(error)]
    return [f"{sentence} ({name})" for name, rule in RULES.items() for sentence in rule(package)]
