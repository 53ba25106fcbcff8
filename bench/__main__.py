"""`python -m bench [OPTION …]`, of `make bench`."""

import sys

from bench import run
from hack.rig import command

if __name__ == "__main__":
    sys.exit(command.execute(lambda: run.main(sys.argv[1:])))
