"""A project may have several kinds, and several images: all that is generated has each of them."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bundle.package import Manifest, edit
from kopf_kit.olm.bundle import findings
from kopf_kit.project import documents
from kopf_kit.rig import paths
from kopf_kit.rig.paths import PLUGIN

BUILT = "build/generated"
_BUILD = shutil.ignore_patterns("build")
#: What the operator has beside the Widget.
LETTER = '''
from typing import Annotated
from msgspec import Meta


class LetterSpec(kr.Fields, frozen=True):
    """What is wanted."""

    address: Annotated[str, Meta(description="Where it goes.")] = ""


@kr.custom_resource("acme.example.com", "v1", "letters", status=kr.Fields, ready="it is sent")
class Letter(kr.Resource):
    """A Letter is sent."""

    spec: LetterSpec = LetterSpec()


letters = manager.controller_for(Letter)
'''
SAMPLE = """\
apiVersion: acme.example.com/v1
kind: Letter
metadata:
  name: letter
spec:
  address: Seoul
"""
SHOWN = """\
    - kind: Letter
      version: v1
      name: letters.acme.example.com
      displayName: Letter
      description: An address
"""
VALUES = """
quillPod:
  image:
    # -- Registry of the quill's image
    registry: ""
    # -- Repository of the quill's image
    repository: quill
    # -- Tag of the quill's image
    # @schema tag
    tag: "1"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a second kind and a second image; all of it is generated."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(paths.CHECKOUT, folder, dirs_exist_ok=True, ignore=_BUILD)
    operator = folder / "operator" / "widget_operator" / "operator.py"
    operator.write_text(operator.read_text() + LETTER)
    chart = folder / "charts" / "widget-operator"
    insert(chart / "Chart.yaml", SHOWN, before="  # `kopf-kit generate` writes these two")
    own_values = chart / "values.own.yaml"
    own_values.write_text(own_values.read_text() + VALUES)
    (folder / "examples" / "letter.yaml").write_text(SAMPLE)
    edit(folder / "PROJECT", add_to_project)
    edit(folder / "olm" / "csv.yaml", add_to_csv)
    kit(folder, "generate")
    return folder


def add_to_project(content: dict[str, Any]) -> None:
    content["resources"].append(content["resources"][0] | {"kind": "Letter", "plural": "letters"})
    plugin = content["plugins"][PLUGIN]
    plugin["samples"]["Letter"] = "examples/letter.yaml"
    plugin["images"].append({"name": "quill", "values": "quillPod.image"})


def add_to_csv(content: dict[str, Any]) -> None:
    content["kinds"]["Letter"] = {"status": {"observedGeneration": 1}}


def insert(file: Path, part: str, before: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, part + before))


def kit(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kopf_kit", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def csv(project: Path) -> Manifest:
    """Its ClusterServiceVersion."""
    (file,) = (project / BUILT / "bundle/manifests").glob("*.clusterserviceversion.yaml")
    found: Manifest = documents.load(file.read_text())
    return found


def test_no_rule_is_broken(project: Path) -> None:
    assert findings(project / BUILT / "bundle") == []


def test_the_bundle_has_each_kind_and_each_image(project: Path, csv: Manifest) -> None:
    manifests = project / BUILT / "bundle" / "manifests"
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}

    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    related = {image["name"]: image["image"] for image in csv["spec"]["relatedImages"]}
    assert [crd["name"] for crd in owned] == [
        "widgets.acme.example.com",
        "letters.acme.example.com",
    ]
    assert [crd["displayName"] for crd in owned] == ["Widget", "Letter"]
    assert documents.load((manifests / "acme.example.com_letters.yaml").read_text())["kind"] == (
        "CustomResourceDefinition"
    )
    assert related["quill"] == environment["RELATED_IMAGE_QUILL"] == "quill:1"
    assert environment["WIDGET_OPERATOR_QUILL_IMAGE"] == "$(RELATED_IMAGE_QUILL)"


def test_f6_what_consoles_show_of_a_kind_follows_from_the_code(csv: Manifest) -> None:
    owned = csv["spec"]["customresourcedefinitions"]["owned"]

    assert [each["kind"] for each in owned[0]["resources"]] == ["ConfigMap"]
    described = owned[1]["specDescriptors"] + owned[1]["statusDescriptors"]
    assert {
        each["path"]: (each["displayName"], each["x-descriptors"][0]) for each in described
    } == {
        "address": ("Address", "urn:alm:descriptor:com.tectonic.ui:text"),
        "observedGeneration": ("Observed generation", "urn:alm:descriptor:com.tectonic.ui:number"),
        "conditions": ("Conditions", "urn:alm:descriptor:io.kubernetes.conditions"),
    }


def test_the_sample_of_each_kind_is_shown(project: Path, csv: Manifest) -> None:
    chart = project / BUILT / "charts" / "widget-operator"
    metadata = documents.load((chart / "Chart.yaml").read_text())

    shown = documents.load(metadata["annotations"]["artifacthub.io/crdsExamples"])
    of_olm = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    assert shown[-1] == documents.load(SAMPLE)
    assert of_olm[-1] == {**shown[-1], "status": {"observedGeneration": 1}}
    notes = (chart / "templates" / "_sample.tpl").read_text()
    assert f"  text: Hello!\n---\n{SAMPLE}{{{{- end }}}}" in notes


def test_the_catalog_and_the_plain_manifests_have_each_kind(project: Path) -> None:
    (bundle,) = (project / BUILT / "catalog" / "bundles").glob("*.yaml")
    properties = documents.load(bundle.read_text())["properties"]
    deployed = documents.load_all((project / BUILT / "deploy" / "crds.yaml").read_text())
    schema = documents.load((project / BUILT / "deploy/letter_v1.json").read_text())

    kinds = [entry["value"]["kind"] for entry in properties if entry["type"] == "olm.gvk"]
    assert kinds == ["Widget", "Letter"]
    crds = [manifest["spec"] for manifest in deployed if "spec" in manifest]
    assert [crd["names"]["kind"] for crd in crds] == ["Widget", "Letter"]
    assert schema["properties"]["kind"]["enum"] == ["Letter"]
    assert "address" in schema["properties"]["spec"]["properties"]


def test_what_is_generated_is_there_when_two_need_it_at_once(project: Path) -> None:
    shutil.rmtree(project / "build")

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: kit(project, "generate", "--unless-current"), range(2)))

    assert "kind: Letter," in (project / BUILT / "deploy" / "crds.yaml").read_text()


def test_what_is_generated_follows_its_sources(project: Path) -> None:
    left = project / BUILT / "charts" / "widget-operator" / "templates" / "left.yaml"
    assert kit(project, "generate", "--unless-current") == ""

    left.touch()
    sample = project / "examples" / "letter.yaml"
    sample.write_text(sample.read_text().replace("Seoul", "Busan"))
    kit(project, "generate", "--unless-current")

    assert not left.exists()
    assert "Busan" in left.with_name("_sample.tpl").read_text()
