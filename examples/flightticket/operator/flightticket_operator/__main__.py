"""Run the operator: `python -m flightticket_operator`."""

import sys

from flightticket_operator.operator import manager


def main() -> int:
    """Run the operator until it is stopped; return the exit code."""
    return manager.run()


if __name__ == "__main__":
    sys.exit(main())
