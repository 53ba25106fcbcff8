"""The tier `soak`: an hour of churn, or as many minutes as the variable MINUTES says."""

import os

from hack.commands import Subparsers, pytest_runs
from hack.rig import paths
from hack.rig.run import HackError

_TESTS = paths.CHECKOUT / "tests" / "faults"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("soak", help="churn for an hour: the memory stays (MINUTES=10)")
    parser.add_argument("rest", nargs="*", metavar="-- OPTION", help="passed on to pytest")
    parser.set_defaults(run=lambda arguments: run(arguments.rest))


def run(arguments: list[str]) -> int:
    """Run the test, with further options for pytest; return the exit code."""
    chosen = ("-m", "soak", "-s", *arguments)
    return pytest_runs.run(str(_TESTS), *chosen, MINUTES=str(minutes()))


def minutes() -> float:
    """Return the variable MINUTES, by default an hour; raise HackError if it is no such time."""
    value = os.environ.get("MINUTES") or "60"
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise HackError(
            f"MINUTES={value} is not valid. Use a number of minutes, such as MINUTES=10, or leave "
            "MINUTES out for an hour."
        )
    return number
