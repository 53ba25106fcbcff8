"""Runs the operator for `kopf_kit.cli.dev`, once the cluster serves its kinds as they are now.

It writes its CRDs to the file descriptor in the first argument, then waits for a line on stdin. A
mistake in the sources is printed with the lines of the operator's own that led to it.
"""

import runpy
import sys
import traceback

from kopf_kit.crd import declared
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.run import KitError


def main() -> int:
    """Run the operator; return the exit code where it cannot run."""
    _, pipe, *arguments = sys.argv
    try:
        kinds = declared.plain(declared.of_the_project())
        with open(int(pipe), "w") as writing:
            writing.write(kinds)
        if not sys.stdin.readline():
            return 1
        sys.argv = [PROJECT.package, *arguments]
        runpy.run_module(PROJECT.package, run_name="__main__", alter_sys=True)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        print(_readable(error), end="", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _readable(error: Exception) -> str:
    """Return an error with the frames of the operator's own sources, or else with all."""
    trace = traceback.TracebackException.from_exception(error)
    ours = [frame for frame in trace.stack if frame.filename.startswith(str(PROJECT.sources))]
    trace.stack = traceback.StackSummary.from_list(ours or trace.stack)
    return "".join(trace.format())


if __name__ == "__main__":
    sys.exit(main())
