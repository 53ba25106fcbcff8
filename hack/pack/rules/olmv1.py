"""The limitations of OLM v1, as rules for bundle and catalog.

operator-controller, which enforces them, cannot be built here, because one of its modules is not
available. Each rule names its source.
"""

from collections.abc import Iterator

from hack.pack.rules.package import Package, rule


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
        for i, found in enumerate(blob.get("properties") or []):
            if found["type"] in {"olm.gvk.required", "olm.package.required", "olm.constraint"}:
                what = f"{found['type']}: OLM v1 takes no dependencies"
                yield blob.wrong("properties", i, "type", what=what)


@rule
def olmv1_takes_no_webhooks_nor_apis(package: Package) -> Iterator[str]:
    """Find webhooks, which OLM v1 accepts only with a certificate provider, and API services.

    https://github.com/operator-framework/operator-controller/blob/v1.11.0/internal/operator-controller/rukpak/bundle/README.md
    """
    if package.csv.get("spec", "webhookdefinitions"):
        yield package.csv.wrong("spec", "webhookdefinitions", what="must not be there")
    if package.csv.get("spec", "apiservicedefinitions", "owned"):
        yield package.csv.wrong("spec", "apiservicedefinitions", "owned", what="must not be there")


@rule
def olmv1_has_no_operator_conditions(package: Package) -> Iterator[str]:
    """Find a use of OLM's OperatorConditions, which OLM v1 does not have.

    https://operator-framework.github.io/operator-controller/project/olmv1_limitations/
    """
    for scope in ("permissions", "clusterPermissions"):
        for where, found in package.rules(scope):
            if "operatorconditions" in found.get("resources", []):
                what = "OLM v1 has no OperatorConditions"
                yield package.csv.wrong(*where, "resources", what=what)
