"""Which version of etcd may follow which one, and which flags differ between versions."""

from collections.abc import Collection

#: The oldest version that is served: 3.5.0 to 3.5.2 may corrupt data, those until 3.5.10 have no
#: /readyz, and 3.4 has no downgrade.
FLOOR = (3, 5, 11)
#: From which patch of a minor version the next one may follow.
LEAST_BEFORE = {6: (3, 5, 26), 7: (3, 6, 11)}

_CHECKS = "InitialCorruptCheck=true,CompactHashCheck=true"


def parsed(version: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(map(int, version.split(".")))


def minor(version: str) -> int:
    """Return the minor version, such as 6."""
    return parsed(version)[1]


def dotted(numbers: tuple[int, ...]) -> str:
    """Return the numbers of a version as text."""
    return ".".join(map(str, numbers))


def refusal(running: Collection[str], wanted: str) -> str:
    """Return why members cannot go from these versions to the wanted one; empty if they can."""
    if parsed(wanted) < FLOOR:
        return f"etcd {wanted} is not served: use {dotted(FLOOR)} or later"
    minors = {minor(version) for version in running} or {minor(wanted)}
    if minor(wanted) > min(minors) + 1:
        return f"{wanted} is more than one minor version above 3.{min(minors)}: take each in turn"
    if minor(wanted) < max(minors) - 1:
        return f"{wanted} is more than one minor version below 3.{max(minors)}: take each in turn"
    least = LEAST_BEFORE.get(minor(wanted))
    early = [version for version in running if minor(version) < minor(wanted)]
    if least and any(parsed(version) < least for version in early):
        return f"3.{minor(wanted)} follows only on {dotted(least)} or later: take that first"
    return ""


def flags(version: str) -> list[str]:
    """Return the flags whose form depends on the version.

    With them, a peer needs only a certificate of the right authority. By default, a peer whose
    certificate has DNS names must also come from an address that one of these names resolves to,
    which breaks joins while DNS is slow.
    """
    if minor(version) > 5:
        return ["--peer-skip-client-san-verification", f"--feature-gates={_CHECKS}"]
    return [
        "--experimental-peer-skip-client-san-verification",
        "--experimental-initial-corrupt-check=true",
        "--experimental-compact-hash-check-enabled=true",
    ]
