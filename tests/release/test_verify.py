"""The page "Verify what you run", as a stranger: a registry, the public key, and nothing else."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from kopf_kit.release import signatures
from kopf_kit.release.signatures import PASSPHRASE, Keys
from kopf_kit.rig import registry, tools
from kopf_offline import golang
from message_operator import __version__
from tests.release import releasing
from tests.release.conftest import Released
from tests.release.releasing import CHECKOUT
from tests.support.console import commands

PAGES = [CHECKOUT / "docs" / name for name in ("policy.md", "policy.ko.md")]
#: The images that a tag is verified of, on the page or as the page says it.
TAGS = (
    f"message-operator:{__version__}",
    f"message-operator-bundle:v{__version__}",
    f"message-operator-catalog:v{__version__}",
    f"message-operator-release:v{__version__}",
    f"charts/message-operator:{__version__}",
)


class Stranger:
    """Somebody with the public key of `keys`, who types what the page says."""

    def __init__(
        self, folder: Path, keys: Keys, prefix: str, version: str = __version__, index: str = ""
    ) -> None:
        self.folder = folder
        shutil.copy(keys.cosign_public, folder)
        programs = folder / "bin"
        programs.mkdir()
        for name in ("cosign", "crane"):
            (programs / name).symlink_to(golang.program(name))
        # A public registry has a certificate; that of the tests has none.
        helm = programs / "helm"
        helm.write_text(f'#!/bin/sh\nexec {tools.path("helm4")} "$@" --plain-http\n')
        helm.chmod(helm.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "REGISTRY": prefix,
            "VERSION": version,
            # What a user's pip is set up for.
            "PIP_INDEX_URL": index,
        }

    def types(self, *lines: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def verifies(self, name: str, what: str = "verify") -> bool:
        """Tell whether cosign verifies something in the registry, by the page's flags."""
        done = self.types(
            f"cosign {what} --key cosign.pub --insecure-ignore-tlog=true $REGISTRY/{name}"
        )
        assert done.returncode in (0, 1, 10, 12), done.stderr
        return done.returncode == 0


def of_page(page: Path) -> list[str]:
    """Return the commands of a page, but for the one that says which release it is about."""
    return [line for line in commands(page.read_text()) if not line.startswith("export REGISTRY=")]


@pytest.fixture
def stranger(tmp_path: Path, released: Released) -> Stranger:
    return Stranger(tmp_path, released.keys, released.prefix, index=released.index)


def test_every_command_of_the_page_verifies_what_was_released(stranger: Stranger) -> None:
    done = stranger.types(*of_page(PAGES[0]))

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    release = stranger.folder / "release"
    assert (release / f"kopf_runtime-{__version__}-py3-none-any.whl").is_file()
    (wheel,) = stranger.folder.glob("kopf_runtime-*.whl")
    assert wheel.read_bytes() == (release / wheel.name).read_bytes()
    materials = json.loads((release / "image-linux-amd64.cdx.json").read_text())
    assert {part["purl"] for part in materials["components"]} == {
        "pkg:pypi/kopf@1.45.2",
        "pkg:deb/debian/libc6@2.41-12?arch=amd64",
    }


@pytest.mark.parametrize("name", TAGS)
def test_what_was_put_in_the_place_of_a_release_is_refused(
    released: Released, stranger: Stranger, name: str
) -> None:
    ref = f"{released.prefix}/{name}"
    genuine = registry.pinned(ref)
    assert genuine
    image = next(iter(registry.platforms(genuine).values()))
    registry.crane("mutate", image, "--annotation=of=an-attacker", "-t", ref)
    try:
        tampered = stranger.verifies(name)
    finally:
        registry.crane("tag", genuine, name.partition(":")[2])

    assert not tampered
    assert stranger.verifies(name), "the genuine one is not verified"


def test_what_somebody_else_signed_is_refused(
    released: Released,
    stranger: Stranger,
    other_keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    registry.crane("copy", f"{released.prefix}/{TAGS[0]}", f"{released.prefix}/of-others:1")
    ref = registry.pinned(f"{released.prefix}/of-others:1")
    assert ref
    name = ref.removeprefix(f"{released.prefix}/")
    monkeypatch.setenv(PASSPHRASE, releasing.PASSPHRASE)
    signatures.sign(other_keys, ref)
    signatures.attest(other_keys, ref, "cyclonedx", json.dumps({"bomFormat": "CycloneDX"}))
    statement = "verify-attestation --type cyclonedx"

    assert not stranger.verifies(name)
    assert not stranger.verifies(name, statement)
    other = Stranger(tmp_path_factory.mktemp("other"), other_keys, released.prefix)
    assert other.verifies(name), "it is refused for another reason than its key"
    assert other.verifies(name, statement)


def test_a_file_that_was_changed_is_told_by_the_checksums(stranger: Stranger) -> None:
    *getting, check = [line for line in of_page(PAGES[0]) if "release" in line][:4]
    assert stranger.types(*getting, check).returncode == 0
    materials = stranger.folder / "release" / "image-linux-amd64.cdx.json"
    materials.write_text(materials.read_text().replace("MIT", "GPL"))

    done = stranger.types(check)

    assert done.returncode != 0
    assert "image-linux-amd64.cdx.json: FAILED" in done.stdout


def test_a_package_that_the_index_changed_is_told_by_the_checksums(stranger: Stranger) -> None:
    lines = of_page(PAGES[0])
    getting = lines[: next(at for at, line in enumerate(lines) if line.startswith("cat release"))]
    download, check = (line for line in lines if " pip download " in line or "--ignore-" in line)
    assert stranger.types(*getting, download, check).returncode == 0
    (wheel,) = stranger.folder.glob("kopf_kit-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"more")

    done = stranger.types(check)

    assert done.returncode != 0
    assert f"{wheel.name}: FAILED" in done.stdout


def test_artifact_hub_finds_the_owners_of_a_chart(released: Released) -> None:
    chart = f"{released.prefix}/charts/message-operator"

    (layer,) = registry.manifest(f"{chart}:artifacthub.io")["layers"]

    assert layer["mediaType"].endswith("artifacthub.repository-metadata.layer.v1.yaml")
    owners = registry.crane("blob", f"{chart}@{layer['digest']}")
    assert owners == (CHECKOUT / "artifacthub-repo.yml").read_text()
