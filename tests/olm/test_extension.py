"""OLM v1 as far as it runs here: its kind takes what the guide applies, and the rights suffice.

Its operator-controller cannot be built here, so kubectl does in its place, as the account that
installs, what it would do with the bundle: the API server decides.
"""

import json
from collections.abc import Iterator

import pytest
import yaml

from hack.pack import bundle, olmv1
from hack.pack.bundle import NAME
from hack.rig import catalogd
from tests.e2e import release
from tests.e2e.kube import Kube, Object
from tests.support.registry_v1 import rendered

pytestmark = pytest.mark.long

KIND = "clusterextensions.olm.operatorframework.io"
INSTALLER = f"--as=system:serviceaccount:{NAME}:{olmv1.INSTALLER}"
#: As a controller applies, and the fields are its own.
APPLY = ("apply", "--server-side", "--force-conflicts", "-f", "-")


@pytest.fixture
def extension(kube: Kube) -> Iterator[Kube]:
    """A cluster that knows OLM v1's kind, and has nothing of the guide's."""
    kube.kubectl("apply", "--server-side", "-f", str(catalogd.extension_kind()))
    kube.kubectl("wait", "--for=condition=Established", f"crd/{KIND}", "--timeout=60s")
    yield kube
    kube.kubectl("delete", "crd", KIND)
    for file in (olmv1.EXTENSION, olmv1.WITH_INSTALLER):
        manifests = [
            m for m in yaml.safe_load_all(file.read_text()) if m["kind"] != "ClusterExtension"
        ]
        kube.kubectl(
            *("delete", "--ignore-not-found", "-f", "-"), stdin=yaml.safe_dump_all(manifests)
        )
    release.remove_crd(kube)


@pytest.mark.parametrize("file", [olmv1.EXTENSION, olmv1.WITH_INSTALLER], ids=lambda f: f.name)
def test_the_kind_takes_what_the_guide_applies(extension: Kube, file: object) -> None:
    extension.kubectl("apply", "--server-side", "--validate=strict", "-f", str(file))

    found = json.loads(extension.kubectl("get", KIND, NAME, "-o", "json"))
    assert found["spec"]["source"]["catalog"]["packageName"] == NAME


@pytest.fixture
def made() -> list[Object]:
    """What OLM v1 makes of the bundle."""
    return rendered(bundle.bundle(bundle.current()), NAME)


def test_the_installer_makes_changes_and_removes_what_is_in_the_bundle(
    extension: Kube, made: list[Object]
) -> None:
    extension.kubectl("apply", "--server-side", "-f", str(olmv1.WITH_INSTALLER))

    for manifest in made:
        extension.kubectl(*APPLY, INSTALLER, stdin=json.dumps(manifest))
        manifest["metadata"].setdefault("labels", {})["changed"] = "yes"
        extension.kubectl(*APPLY, INSTALLER, stdin=json.dumps(manifest))
        kind, where = manifest["kind"], manifest["metadata"].get("namespace", NAME)
        look = ("get", kind, manifest["metadata"]["name"], "-n", where, INSTALLER)
        assert "changed" in extension.kubectl(*look, "-o", "jsonpath={.metadata.labels}")
    extension.kubectl(
        *("delete", "-f", "-", "--wait=false", INSTALLER), stdin=json.dumps(listed(made))
    )


def listed(manifests: list[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": manifests}


def test_the_installer_may_grant_nothing_but_the_operator_s_rights_and_touch_nothing_else(
    extension: Kube, made: list[Object]
) -> None:
    extension.kubectl("apply", "--server-side", "-f", str(olmv1.WITH_INSTALLER))
    (role,) = (manifest for manifest in made if manifest["kind"] == "ClusterRole")
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}

    more = json.dumps({**role, "rules": [*role["rules"], secrets]})
    assert "attempting to grant RBAC permissions not currently held" in extension.refusal(
        *APPLY, INSTALLER, stdin=more
    )
    for verb, what, where in (
        ("delete", "clusterrole/view", NAME),
        ("patch", f"crd/{KIND}", NAME),
        ("patch", "deployment/another", NAME),
        ("get", "secrets", NAME),
        ("create", "deployments", "kube-system"),
        ("escalate", f"clusterrole/{role['metadata']['name']}", NAME),
        ("bind", "clusterrole/cluster-admin", NAME),
        ("impersonate", "users", NAME),
    ):
        asked = ("auth", "can-i", verb, what, "-n", where, INSTALLER)
        assert extension.output(*asked).strip() == b"no", (verb, what)
