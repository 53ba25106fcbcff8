"""Not a command: reports what this machine lacks for tests with a cluster, before they begin."""

from hack.rig import cluster, engine, preflight, public_images


def check() -> None:
    """Raise HackError with what is missing, and how to get it."""
    preflight.check(preflight.TESTS)
    if not cluster.is_existing():
        engine.up()
        public_images.are_in_reach()
