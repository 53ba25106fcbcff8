"""Releases of an operator on plain kopf: `kopf-kit adopt` wrote nothing but PROJECT for it."""

import os
import shutil
from pathlib import Path

from kopf_kit.release import signatures
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import locked, registry
from tests.release import releasing
from tests.release.releasing import CHECKOUT, Clone

NOTES = CHECKOUT / "examples" / "plain-kopf"
LEFT_OUT = shutil.ignore_patterns("tests", "__pycache__", "README*")


def test_it_is_released_and_the_next_version_is(address: str, tmp_path: Path) -> None:
    folder = shutil.copytree(NOTES, tmp_path / "notes", ignore=LEFT_OUT)
    lock = locked.part((CHECKOUT / "requirements.txt").read_text(), "kopf-runtime")
    (folder / "requirements.txt").write_text(lock)
    prefix = f"{address}/notes"
    image = f"{prefix}/stand-in:v1"
    given = releasing.push_stand_ins([image], f"{prefix}/catalog:v1", tmp_path, "a commit")
    ours = {"REGISTRY": prefix, "IMG": image, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    notes = Clone(folder, {"COSIGN_PASSWORD": releasing.PASSPHRASE, **given, **ours})
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=first")):
        notes.git(*words)
    made = notes.kit("release", "keys")
    assert made.returncode == 0, made.stdout + made.stderr
    keys = Keys(folder / "build" / "keys")

    for version in ("0.1.0", "0.2.0"):
        notes.release(version)

        files = notes.files(version)
        assert {"install.yaml", "checksums.txt.sigstore.json"} <= {
            file.name for file in files.iterdir()
        }
        assert '"name": "kopf"' in (files / "image-linux-amd64.cdx.json").read_text()
        published = dict(line.split() for line in (files / "images.txt").read_text().splitlines())
        assert {"notes-operator", "charts/notes-operator", "notes-operator-bundle"} <= {*published}
        for ref in published.values():
            assert signatures.signed(keys, ref), ref
        assert registry.digest(f"{prefix}/charts/notes-operator:{version}")
    assert notes.git("tag").split() == ["v0.1.0", "v0.2.0"]
    assert notes.git("status", "--porcelain") == ""
