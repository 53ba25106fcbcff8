"""`make recording`: what `make demo` prints, recorded on a cluster of its own, as docs/demo.svg."""

import os
import subprocess
import time
from collections.abc import Iterator

from hack.commands import Subparsers
from hack.pack import recording
from hack.pack.recording import Line
from hack.rig import cluster, kind, paths
from hack.rig.run import HackError
from hack.rig.steps import say, step

PICTURE = paths.CHECKOUT / "docs" / "demo.svg"
_SUFFIX = "-recording"
_CLUSTER = cluster.NAME + _SUFFIX
_TITLE = "make demo: a cluster, the operator by Helm, a Message in Korean, its log, an edit"
#: The last line that is recorded; then come the paths of this machine.
_END = "Done: "


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("recording", help="record the demo as an animated picture")
    parser.set_defaults(run=lambda _: _record())


def _record() -> None:
    try:
        lines = list(_printed())
    finally:
        with step(f"Delete the cluster {_CLUSTER}") as work:
            if kind.is_there(_CLUSTER):
                kind.delete(_CLUSTER, work)
            kind.kubeconfig(_CLUSTER).unlink(missing_ok=True)
    PICTURE.write_text(recording.draw(_TITLE, lines))
    say(f"Written: {PICTURE.relative_to(paths.CHECKOUT)}")


def _printed() -> Iterator[Line]:
    """Run the demo; yield what a user of it sees, up to the last line."""
    # A dumb terminal gets lines only: nothing that is drawn over later.
    environment = {**os.environ, "KIND_CLUSTER_NAME": _CLUSTER, "TERM": "dumb"}
    with subprocess.Popen(
        ["make", "demo"], cwd=paths.CHECKOUT, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        began, ended = time.monotonic(), False
        yield Line(0.0, "$ make demo")
        for printed in demo.stdout:
            print(printed, end="", flush=True)
            if not ended:
                yield Line(time.monotonic() - began, _named_as_of_the_user(printed.rstrip("\n")))
            ended = ended or printed.startswith(_END)
    if demo.returncode or not ended:
        raise HackError("`make demo` failed, see above; nothing is recorded")


def _named_as_of_the_user(text: str) -> str:
    """Return a line with the name of the demo's own cluster, and its columns below each other."""
    text = text.replace(_CLUSTER, cluster.NAME)
    return text.replace("NODE" + " " * len(_SUFFIX), "NODE")
