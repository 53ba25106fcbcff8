"""`python -m message_operator`: the image's entry point, and a developer's."""

import sys

from message_operator.operator import manager


def main() -> int:
    """Run the operator until it is told to stop; return the exit code."""
    return manager.run()


if __name__ == "__main__":
    sys.exit(main())
