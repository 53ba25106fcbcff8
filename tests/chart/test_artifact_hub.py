"""What Artifact Hub shows is what the chart has.

https://artifacthub.io/docs/topics/annotations/helm
"""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from chart.helm import CHART, container, find, render
from kopf_kit.project import documents
from kopf_kit.rig.paths import CHECKOUT
from message_operator import __version__

METADATA = documents.load((CHART / "Chart.yaml").read_text())


def annotation(name: str) -> Any:
    """Return an annotation, as YAML."""
    return documents.load(METADATA["annotations"][f"artifacthub.io/{name}"])


def test_the_kind_is_shown_as_it_is() -> None:
    crd = find(render(), "CustomResourceDefinition", "messages.myorg.dev")

    (shown,) = annotation("crds")

    assert shown["name"] == crd["metadata"]["name"]
    assert shown["kind"] == crd["spec"]["names"]["kind"]
    assert [shown["version"]] == [version["name"] for version in crd["spec"]["versions"]]
    assert shown["displayName"]
    assert shown["description"]


def test_the_images_are_those_that_run() -> None:
    images = {image["name"]: image["image"] for image in annotation("images")}

    assert images["message-operator"] == container()["image"]
    assert f"--message-image={images['message']}" in container()["args"]
    assert images["message-operator"].endswith(f":{__version__}")


def test_the_level_is_one_that_artifact_hub_knows() -> None:
    assert METADATA["annotations"]["artifacthub.io/operatorCapabilities"] in {
        *("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")
    }
    assert annotation("operator") is True


@pytest.mark.parametrize("link", annotation("links"), ids=lambda link: link["name"])
def test_links_into_the_project_lead_somewhere(link: dict[str, str]) -> None:
    inside = re.fullmatch(rf"{METADATA['home']}/(?:blob|tree)/main/(.*)", link["url"])

    assert link["url"].startswith(METADATA["home"])
    path, _, heading = inside[1].partition("#") if inside else ("", "", "")
    assert (CHECKOUT / path).exists()
    words = re.findall(r"^#+ (.+)$", (CHECKOUT / path).read_text(), re.MULTILINE) if heading else []
    assert not heading or heading in [word.lower().replace(" ", "-") for word in words]


def test_the_icon_is_a_square_drawing_of_ours() -> None:
    path = METADATA["icon"].partition("/main/")[2]
    drawing = ET.parse(CHECKOUT / path).getroot()  # noqa: S314 (our own file)

    assert drawing.attrib["viewBox"] == "0 0 128 128"
    assert drawing.findtext("{http://www.w3.org/2000/svg}title") == "message-operator"
