"""`python -m bench [OPTION …]`, which `make bench` runs."""

import sys

from kopf_kit.rig import steps


def main() -> int:
    """Run the benchmark; its import reads the file PROJECT, and can fail."""
    from bench import run

    return run.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(steps.execute(main))
