"""kopf_kit.rig.dockerfiles: what PLATFORMS may say, and how the images are called."""

import pytest

from kopf_kit.rig import dockerfiles
from kopf_kit.rig.run import KitError


def test_without_platforms_none_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORMS", "")

    assert dockerfiles.requested() == ()


def test_platforms_are_listed_with_commas_or_spaces_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLATFORMS", "linux/arm64, linux/amd64 linux/arm64,")

    assert dockerfiles.requested() == ("linux/arm64", "linux/amd64")


@pytest.mark.parametrize("name", ["linux/riscv64", "arm64", "windows/amd64", "linux/arm/v7"])
def test_a_platform_that_nothing_is_built_for_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATFORMS", f"linux/amd64,{name}")

    with pytest.raises(
        KitError, match=f"images cannot be built for {name}; .*linux/amd64,linux/arm64"
    ):
        dockerfiles.requested()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("localhost:5001/you/name:1.0", "localhost:5001/you/name:1.0-arm64"),
        ("localhost:5001/you/name", "localhost:5001/you/name:latest-arm64"),
    ],
)
def test_the_image_of_a_platform_is_a_tag_beside_that_of_all(reference: str, expected: str) -> None:
    assert dockerfiles.images(reference, ["linux/arm64"]) == {"linux/arm64": expected}
