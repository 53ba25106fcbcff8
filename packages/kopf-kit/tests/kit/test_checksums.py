"""`checksums.txt` of a release: it has each of its files."""

import subprocess
from pathlib import Path

from kopf_kit.release import files

NAMES = ("crds.yaml", "install.yaml", "kubectl-widget", "docs/a page.md", ".hidden", "0.txt", "z")


def test_s7_the_checksums_have_each_file_of_the_folder(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)

    checksums = files._checksums(tmp_path)

    assert sorted(line.partition("  ")[2] for line in checksums.splitlines()) == sorted(NAMES)
    check = ["sha256sum", "--check", "--strict", "--quiet"]
    subprocess.run(check, cwd=tmp_path, input=checksums, text=True, check=True)
