"""OLM v1's catalogd serves the project's catalog image, and the bundle is found in it."""

import json
from collections.abc import Iterator

import pytest

from kopf_kit.olm.bundle import NAME
from kopf_kit.rig import olm
from tests.e2e.kube import Kube, Object
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.conftest import Offers
from tests.olm.subscription import BOUND, csv_name

#: catalogd's own address, https://catalogd-service.olmv1-system.svc, through the API server.
SERVICE = f"/api/v1/namespaces/{olm.CATALOGD_NAMESPACE}/services/https:catalogd-service:https/proxy"


@pytest.fixture
def served(kube: Kube, offers: Offers) -> Iterator[Object]:
    """The catalog as a ClusterCatalog, once it is served."""
    image = {"type": "Image", "image": {"ref": offers.present}}
    kube.create({"kind": "ClusterCatalog", "metadata": {"name": NAME}, "spec": {"source": image}})

    def conditions() -> dict[str, Object]:
        status = (kube.get("ClusterCatalog", NAME) or {}).get("status") or {}
        return {found["type"]: found for found in status.get("conditions") or []}

    wait_until(
        "catalogd to serve the catalog",
        conditions,
        lambda found: found.get("Serving", {}).get("status") == "True",
        bound=BOUND,
    )
    yield kube.get("ClusterCatalog", NAME) or {}
    kube.delete("ClusterCatalog", NAME)


def test_the_bundle_is_found_through_the_api_of_the_catalog(kube: Kube, served: Object) -> None:
    assert served["status"]["urls"]["base"].endswith(f"/catalogs/{NAME}")

    lines = kube.raw(f"{SERVICE}/catalogs/{NAME}/api/v1/all").splitlines()

    found = [json.loads(line) for line in lines]
    (package,) = (blob for blob in found if blob["schema"] == "olm.package")
    assert (package["name"], package["defaultChannel"]) == (NAME, "stable")
    channels = {blob["name"]: blob for blob in found if blob["schema"] == "olm.channel"}
    assert channels["stable"]["entries"][-1]["name"] == csv_name(releases.PRESENT)
    bundles = {blob["name"]: blob for blob in found if blob["schema"] == "olm.bundle"}
    assert f"/{NAME}-bundle@sha256:" in bundles[csv_name(releases.PRESENT)]["image"]
