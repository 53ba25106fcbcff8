"""kopf_offline.archive: what is written is what `docker load` and containerd read."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from kopf_offline import archive


def _content(archived: Path) -> dict[str, bytes]:
    with tarfile.open(archived) as file:
        return {
            name: reader.read() for name in file.getnames() if (reader := file.extractfile(name))
        }


def test_an_archive_names_its_images_and_their_layers_rightly(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    base = tmp_path / "rootfs.tar"
    with tarfile.open(base, "w"):
        pass
    target = tmp_path / "images.tar"

    archive.write(
        target,
        [
            archive.Image("example.org/pause:1", program, entrypoint=True),
            archive.Image("example.org/based:1", program, base=base),
        ],
    )

    content = _content(target)
    manifest = json.loads(content["manifest.json"])
    assert [image["RepoTags"] for image in manifest] == [
        ["example.org/pause:1"],
        ["example.org/based:1"],
    ]
    for image in manifest:
        config = json.loads(content[image["Config"]])
        assert config["rootfs"]["diff_ids"] == [
            f"sha256:{hashlib.sha256(content[layer]).hexdigest()}" for layer in image["Layers"]
        ]
    assert json.loads(content[manifest[0]["Config"]])["config"]["Entrypoint"] == [
        "/usr/local/bin/pause"
    ]
    assert len(manifest[1]["Layers"]) == 2


def test_the_same_program_makes_the_same_layer(tmp_path: Path) -> None:
    layers = []
    for moment in (0, 1_000_000):
        folder = tmp_path / str(moment)
        folder.mkdir()
        program = folder / "pause"
        program.write_bytes(b"\x7fELF")
        target = folder / "images.tar"

        archive.write(target, [archive.Image("example.org/pause:1", program)])

        layers.append(_content(target)["manifest.json"])
    assert layers[0] == layers[1]


def test_images_of_one_program_share_its_layer(tmp_path: Path) -> None:
    program = tmp_path / "kubernetes"
    program.write_bytes(b"\x7fELF")
    base = tmp_path / "rootfs.tar"
    with tarfile.open(base, "w"):
        pass
    links = ("kubelet", "kube-proxy")
    target = tmp_path / "images.tar"

    archive.write(
        target,
        [
            archive.Image("example.org/kubelet:1", program, links),
            archive.Image("example.org/kube-proxy:1", program, links, base=base),
        ],
    )

    content = _content(target)
    kubelet, proxy = json.loads(content["manifest.json"])
    assert kubelet["Layers"] == proxy["Layers"][:1]
    with tarfile.open(fileobj=io.BytesIO(content[kubelet["Layers"][0]])) as layer:
        for name in links:
            reader = layer.extractfile(f"usr/local/bin/{name}")
            assert reader is not None
            assert reader.read() == b"\x7fELF"
