"""Run the operator: `python -m memcached_operator`."""

import sys

from memcached_operator.operator import manager


def main() -> int:
    """Run the operator until it is stopped; return the exit code."""
    return manager.run()


if __name__ == "__main__":
    sys.exit(main())
