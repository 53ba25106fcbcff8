"""What is pushed names the registry that the user names, and nothing of any other."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hack.commands import push
from hack.pack import bundle, catalog, chart_package, image, olm_images
from hack.pack.artifacts import image_parts
from hack.rig import base_images, engine, paths
from hack.rig.run import HackError
from message_operator import __version__
from tests.bundle.package import DIGEST, release, write_both

CHART = Path(__file__).parents[3] / "charts" / "message-operator"
STALE = f"sha256:{'0' * 64}"


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
        f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, without "
        "https:// and without a tag, for example REGISTRY=registry.example.com/you"
    )


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Stand in for Docker: it has former images, and prints this when it pushes an index."""
    bundle.current()  # remembered: Helm renders the chart while it can still be found
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(engine, "up", lambda: None)

    def write(printed: str) -> None:
        script = tmp_path / "docker"
        script.write_text(
            f"""#!/bin/sh
            case "$1 $2" in
              "manifest push") echo '{printed}' ;;
              "image inspect") echo registry.example.com/you/message-operator@{STALE} ;;
            esac
            """
        )
        script.chmod(0o755)

    return write


def push_operator(monkeypatch: pytest.MonkeyPatch, platforms: str) -> str:
    """Push the chart; return the operator's image that it names."""
    named: list[str] = []
    monkeypatch.setenv("REGISTRY", "registry.example.com/you")
    monkeypatch.setenv("PLATFORMS", platforms)
    monkeypatch.setattr(image, "build", lambda ref: ref)
    monkeypatch.setattr(base_images, "publish", lambda *_: "localhost:5001/busybox:1")
    monkeypatch.setattr(chart_package, "push", lambda _, release: named.append(release.image))
    push.push_chart()
    return named[0]


def test_an_image_for_several_platforms_is_named_by_the_digest_that_its_push_prints(
    docker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    docker(f"Pushed ref to a registry\n{DIGEST}")
    repository = "registry.example.com/you/message-operator"

    for_both = push_operator(monkeypatch, "linux/amd64,linux/arm64")
    for_this_machine = push_operator(monkeypatch, "")

    assert for_both == f"{repository}@{DIGEST}"
    assert for_this_machine == f"{repository}@{STALE}"


def test_an_index_of_which_no_digest_is_known_is_named_by_no_other(
    docker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    docker("denied")

    with pytest.raises(HackError, match="printed no digest for registry"):
        push_operator(monkeypatch, "linux/amd64")


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


def test_both_charts_are_pushed_and_name_the_registry_that_they_are_in(tmp_path: Path) -> None:
    images = release(__version__)

    for _ in range(2):  # the second time in the place of the first
        kind, operator = chart_package.write(tmp_path, images, "registry.example.com/you/charts")

    assert [kind.name, operator.name] == ["message-operator-crds", "message-operator"]
    for chart in (kind, operator):
        readme = (chart / "README.md").read_text()
        assert f"oci://registry.example.com/you/charts/{chart.name}" in readme
        for file in ("README.md", "templates/NOTES.txt"):
            assert "oci://ghcr.io" not in (chart / file).read_text()
    values = yaml.safe_load((operator / "values.yaml").read_text())
    assert image_parts(images.image).items() <= values["image"].items()


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
