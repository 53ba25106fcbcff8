"""`make bump` takes a version that can follow, and says of any other what is wrong with it."""

from pathlib import Path

import pytest

from hack.commands import bump
from hack.pack import catalog, numbered
from hack.rig.run import HackError


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("", "VERSION is missing: say for example VERSION=0.2.1"),
        ("1.2", "'1.2' is no version such as 1.2.3 or 1.2.3-rc.1"),
        ("v1.2.3", "'v1.2.3' is no version such as 1.2.3 or 1.2.3-rc.1"),
        ("1.2.3; rm -rf .", "'1.2.3; rm -rf .' is no version such as 1.2.3 or 1.2.3-rc.1"),
        (
            "0.1.9",
            "VERSION=0.1.9 is older than 0.2.0, which is checked out: versions only go up; say "
            "for example VERSION=0.2.1",
        ),
        (
            "0.2.0-rc.1",
            "VERSION=0.2.0-rc.1 is older than 0.2.0, which is checked out: versions only go up; "
            "say for example VERSION=0.2.1",
        ),
    ],
)
def test_a_version_that_cannot_follow_is_refused_in_one_sentence(
    version: str, sentence: str
) -> None:
    with pytest.raises(HackError) as error:
        bump.check(version, current="0.2.0")

    assert str(error.value) == sentence


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.3.0-rc.1", "1.0.0"])
def test_a_version_that_can_follow_is_taken_and_so_is_that_of_an_interrupted_run(
    version: str,
) -> None:
    bump.check(version, current="0.2.0")


def test_a_version_that_is_released_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "CATALOG", tmp_path / "catalog")
    released = tmp_path / "catalog" / "bundles" / "v0.3.0.yaml"
    released.parent.mkdir(parents=True)
    released.write_text("image: registry.example/bundle@sha256:0123\n")

    with pytest.raises(HackError, match=r"VERSION=0\.3\.0 is released .* VERSION=0\.3\.1$"):
        bump.check("0.3.0", current="0.2.0")


@pytest.mark.parametrize(
    ("line", "follows"),
    [
        ("version: 0.1.0", "version: 1.2.3-rc.1"),
        ("ghcr.io/you/message-operator:0.1.0", "ghcr.io/you/message-operator:1.2.3-rc.1"),
        ("you/message-operator-catalog:v0.1.0", "you/message-operator-catalog:v1.2.3-rc.1"),
        ("//deploy?ref=v0.1.0`.", "//deploy?ref=v1.2.3-rc.1`."),
        ("channel: stable-v0.1", "channel: stable-v1.2"),
        ('artifacthub.io/prerelease: "false"', 'artifacthub.io/prerelease: "true"'),
        ("startingCSV: message-operator.vX.Y.Z", "startingCSV: message-operator.vX.Y.Z"),
        ("busybox:1.37.0 needs kubeVersion: 1.29.0", "busybox:1.37.0 needs kubeVersion: 1.29.0"),
    ],
)
def test_what_names_the_version_follows_and_nothing_else(line: str, follows: str) -> None:
    assert numbered.named(line, "1.2.3-rc.1") == follows
