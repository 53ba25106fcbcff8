"""`python -m hack.scaffold NAME KIND GROUP FOLDER`: writes a repository without what is generated.

`make kit-update` in another repository runs it, which may be older than this one: what it is called
with stays as it is. It does not import the runtime, which may need packages that are not there yet.
"""

import sys
from pathlib import Path

from hack.rig import command
from hack.scaffold import repository
from hack.scaffold.answers import Answers


def _main() -> None:
    name, kind, group, folder = sys.argv[1:]
    repository.lay_out(Path(folder), Answers(name, kind, group))


if __name__ == "__main__":
    sys.exit(command.execute(_main))
