"""What the page of a release says of its image, of images in a registry of its own."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kopf_kit.project import releases
from kopf_kit.project.releases import NAME, Release
from kopf_kit.release import files
from kopf_kit.rig import registry
from tests.release.registry import serving

DATE = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "registry") as address:
        yield f"{address}/{NAME}"


def push(place: str, version: str, folder: Path, *packages: str) -> str:
    """Push an image with wheels of these names; return it by its digest."""
    contents = {
        f"app/{name}-1.0.dist-info/METADATA": f"Name: {name}\nVersion: 1.0\n".encode()
        for name in packages
    }
    layer = folder / "layer.tar"
    layer.write_bytes(registry.archive(contents, DATE))
    return registry.push_layer(layer, f"{place}:{version}")


def test_its_size_and_packages_stand_beside_those_of_the_last_release(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(place, "0.1.0", tmp_path, "kopf")
    push(place, "0.2.0-rc.1", tmp_path, "kopf", "yarl", "idna")
    image = push(place, "0.2.0", tmp_path, "kopf", "yarl")
    tags = ["0.1.0", "0.2.0-rc.1", "0.2.0", "0.3.0", "0.1"]
    monkeypatch.setattr(releases, "tagged", lambda _: tags)

    written = files.sizes(Release("0.2.0", image, {}, ""), DATE)

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written.splitlines()[2:]]
    assert [(row[0], row[3]) for row in rows] == [("0.2.0", "2"), ("0.1.0", "1")]
    assert all(float(row[2].removesuffix(" MB")) >= 0 for row in rows)
    tags.remove("0.1.0")
    assert "0.1.0" not in files.sizes(Release("0.2.0", image, {}, ""), DATE)
