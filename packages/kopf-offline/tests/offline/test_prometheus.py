"""kopf_offline.prometheus: the tests have promtool without anybody who is root."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from kopf_offline import prometheus

APT_GET = """\
#!/bin/sh
[ "$*" = "download prometheus" ] && : >prometheus_2.45.3_amd64.deb
"""
APT_CACHE = """\
#!/bin/sh
echo "  Candidate: 2.45.3+ds-2ubuntu0.3"
"""
DPKG_DEB = """\
#!/bin/sh
mkdir -p "$3/usr/bin" && echo 'echo promtool, version 2.45.3' >"$3/usr/bin/promtool"
"""


def test_on_ubuntu_its_package_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg-deb": DPKG_DEB}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("mkdir", "openssl"):
        (programs / name).symlink_to("/bin/mkdir")
    release = {"ID": "ubuntu", "ID_LIKE": "debian"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    promtool = prometheus.path.__wrapped__("promtool")

    said = subprocess.run(["/bin/sh", promtool], capture_output=True, text=True, check=True).stdout
    assert said == "promtool, version 2.45.3\n"
