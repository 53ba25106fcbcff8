"""Whether a repository, this kit and the runtime fit together; each command checks it first."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

KIT, RUNTIME = "kopf-kit", "kopf-runtime"


class _File(msgspec.Struct, frozen=True, rename="camel"):
    cli_version: str = ""


def problems(root: Path) -> Iterator[str]:
    """Yield a sentence if another kit wrote PROJECT; before 1.0, minor versions differ in it."""
    written, ours = paths.read(root, _File).cli_version, metadata.version(KIT)
    if not written or _line(version(written)) == _line(Version(ours)):
        return
    if version(written) > Version(ours):
        yield (
            f"PROJECT is of {KIT} {written}, and this is {ours}, which is too old for it: run "
            f"`uvx {KIT}@{written}`, or install that version"
        )
    else:
        yield (
            f"PROJECT is of {KIT} {written}, which is too old for this one, {ours}: take over "
            f"what this one writes (`{KIT} new` into another folder shows it), and raise "
            f"cliVersion; or run `uvx {KIT}@{written}`"
        )


def version(written: str) -> Version:
    """Return the version that PROJECT has; raise KitError if it is invalid."""
    try:
        return Version(written)
    except InvalidVersion as error:
        raise KitError(
            f"PROJECT: `{written}` is not a version; cliVersion is one, such as 0.1.0"
        ) from error


def _line(version: Version) -> tuple[int, ...]:
    return version.release[:1] if version.release[0] else version.release[:2]


def specifier(version: str) -> str:
    """Return the specifier of a version and of those that fit without an edit.

    Before 1.0, a minor version may break what uses it: https://semver.org/#spec-item-4
    """
    major, minor, *_ = version.split(".")
    below = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return f">={version},<{below}"
