"""`python -m bench [OPTION …]`, which `make bench` runs."""

import sys

from bench import run
from hack.rig import command

if __name__ == "__main__":
    sys.exit(command.execute(lambda: run.main(sys.argv[1:])))
