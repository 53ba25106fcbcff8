"""kopf_kit.rig.preflight: a mirror that fails for a moment does not end a command."""

import os
from pathlib import Path

import pytest

from kopf_kit.rig import preflight
from kopf_kit.rig.run import KitError

# Fails as often as a file next to it has lines, and writes down how it was called.
_APT = """#!/bin/sh
for word; do case "$word" in update|install) action=$word;; esac; done
echo "$action" >>"$0.calls"
rest=$(sed 1d "$0.$action.failures" 2>/dev/null)
if [ -s "$0.$action.failures" ]; then printf '%s' "$rest" >"$0.$action.failures"; exit 100; fi
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for Debian's package manager, which makes nothing appear."""
    program = tmp_path / "apt-get"
    program.write_text(_APT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(preflight, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(preflight, "is_debian", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return program


def _calls(apt: Path) -> list[str]:
    return Path(f"{apt}.calls").read_text().split()


def test_packages_that_cannot_be_had_are_asked_for_again_with_new_lists(apt: Path) -> None:
    Path(f"{apt}.install.failures").write_text("1\n2\n")

    preflight.install("An engine", ["engine"], needs=("no-such-program",))

    assert _calls(apt) == ["update", "install"] * 3


def test_packages_that_cannot_be_had_at_all_are_told_at_the_third_attempt(apt: Path) -> None:
    Path(f"{apt}.install.failures").write_text("1\n2\n3\n")

    with pytest.raises(KitError, match="An engine: Debian packages: failed"):
        preflight.install("An engine", ["engine"], needs=("no-such-program",))


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_lists_are_asked_for_three_times_and_can_do_without_a_vendors(
    apt: Path, failures: int
) -> None:
    Path(f"{apt}.update.failures").write_text("1\n" * failures)

    preflight.update()

    assert _calls(apt) == ["update"] * min(failures + 1, 3)
