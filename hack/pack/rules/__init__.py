"""What must hold for the bundle and the catalog.

`make verify` runs them over what is in git, `make release-bundle` over what is handed in,
the tests over copies that they break. Every finding is one sentence that begins with the file and
the field.

A rule that is called `check_…` is one of the pipeline that takes operators into the catalogs of
OperatorHub.io, under its name there:
https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/static_checks/
The others name where they come from. What OLM's own validators find is not said here again
(`validators` runs those).
"""

from pathlib import Path

from hack.pack.rules import bundle, catalog, kinds, olmv1
from hack.pack.rules.package import RULES, Package
from hack.rig.run import HackError

__all__ = ["RULES", "bundle", "catalog", "kinds", "olmv1", "problems"]


def problems(bundle: Path, catalog: Path, released: bool = False) -> list[str]:
    """Return what is wrong with a bundle and a catalog, a sentence each.

    `released` says that the bundle is handed in: then it must name its images by digest.
    """
    try:
        package = Package(bundle, catalog, released)
    except HackError as error:
        return [str(error)]
    return [f"{sentence} ({name})" for name, rule in RULES.items() for sentence in rule(package)]
