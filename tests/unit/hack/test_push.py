"""What is pushed names the registry that the user names, and nothing of any other."""

import shutil
from pathlib import Path

import pytest
import yaml

from hack.commands import push
from hack.pack import catalog, chart_package, olm_images
from hack.pack.artifacts import image_parts
from hack.rig.run import HackError
from message_operator import __version__
from tests.bundle.package import DIGEST, release, write_both

CHART = Path(__file__).parents[3] / "charts" / "message-operator"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "localhost:5001"),
        ("localhost:5001", "localhost:5001"),
        ("registry.example.com/you/", "registry.example.com/you"),
        ("ghcr.io/you", "ghcr.io/you"),
        ("registry:5000/a/b-c/d_e", "registry:5000/a/b-c/d_e"),
        ("10.0.0.1:5000", "10.0.0.1:5000"),
    ],
)
def test_a_registry_is_a_host_and_may_have_a_port_and_a_path(
    given: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", given)

    assert push.prefix() == used


@pytest.mark.parametrize(
    "given",
    [
        *("https://ghcr.io/you", "you", "you/name", "ghcr.io/You", "ghcr.io/you:1.0", "/you"),
        *("ghcr.io//you", "ghcr.io/you name", "ghcr.io/you@sha256:0", "oci://ghcr.io/you", "-"),
    ],
)
def test_what_is_no_registry_is_refused_in_a_sentence(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", given)

    with pytest.raises(HackError) as error:
        push.prefix()

    assert str(error.value) == (
        f"REGISTRY={given} is no registry: say host[:port][/path] in lower case, without https:// "
        "and without a tag, for example REGISTRY=registry.example.com/you"
    )


def test_the_chart_has_the_images_as_its_defaults_and_every_comment_as_it_was() -> None:
    text = (CHART / "values.yaml").read_text()
    image, message = f"host:5000/you/operator@{DIGEST}", "host:5000/you/busybox:1"

    changed = chart_package.with_values(
        text,
        {
            **{f"image.{key}": part for key, part in image_parts(image).items()},
            **{f"messagePod.image.{key}": part for key, part in image_parts(message).items()},
        },
    )

    values, ours = yaml.safe_load(changed), yaml.safe_load(text)
    ours["image"] |= {
        "registry": "host:5000", "repository": "you/operator", "tag": "", "digest": DIGEST,
    }  # fmt: skip
    ours["messagePod"]["image"] |= {
        "registry": "host:5000", "repository": "you/busybox", "tag": "1", "digest": "",
    }  # fmt: skip
    assert values == ours
    assert [line for line in changed.splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ]


def test_a_value_that_the_chart_has_not_is_no_silent_loss() -> None:
    with pytest.raises(LookupError, match=r"image\.nonsense"):
        chart_package.with_values("image:\n  tag: a\n", {"image.nonsense": "b"})


def test_a_catalog_keeps_the_releases_that_git_has_and_takes_this_version_from_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = write_both(tmp_path, "0.0.8", "0.0.9")
    shutil.copy2(catalog.CATALOG / catalog.file(__version__), folder / "bundles")
    monkeypatch.setattr(catalog, "CATALOG", folder)

    files = olm_images.catalog_with(release(__version__))

    assert {file for file in files if file.startswith("bundles/")} == {
        f"bundles/v{version}.yaml" for version in ("0.0.8", "0.0.9", __version__)
    }
    blob = yaml.safe_load(files[catalog.file(__version__)])
    assert blob["image"] == release(__version__).bundle_image
    assert {image["image"].partition("/")[0] for image in blob["relatedImages"]} == {
        "registry.example.com"
    }
    assert files["bundles/v0.0.9.yaml"] == (folder / "bundles" / "v0.0.9.yaml").read_text()
