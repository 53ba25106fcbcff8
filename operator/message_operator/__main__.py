"""`python -m message_operator`: the entry point of the image, also used in development."""

import sys

from message_operator.operator import manager


def main() -> int:
    """Run the operator until it is stopped; return the exit code."""
    return manager.run()


if __name__ == "__main__":
    sys.exit(main())
