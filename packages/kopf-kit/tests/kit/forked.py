"""The program `kopf-kit` as forks of a process that has imported the libraries that it uses.

What it works on is chosen when it is imported, so each run needs a process of its own. Run as a
program, it takes a folder and arguments a line, as JSON, and answers each with its exit code.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_SECONDS = 300
_CACHE = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
#: Where a program reads what does not end, the machine must not.
_MEMORY = 3 * 2**30
_LIBRARIES = "click", "jsonschema", "kopf_runtime", "msgspec", "rich.prompt", "yaml"


class Kit:
    """The kit, ready to run; use one a thread."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._server = subprocess.Popen(
            [sys.executable, __file__, output], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, folder: Path, *words: str) -> tuple[int, str]:
        """Run a command in a folder; return its exit code, and what it says."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([str(folder), *words]).encode() + b"\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return code, self._output.read_text(errors="replace")

    def end(self) -> None:
        """End the process."""
        self._server.communicate()


def _serve(output: str) -> None:
    for library in _LIBRARIES:
        __import__(library)
    for line in sys.stdin:
        folder, *words = json.loads(line)
        child = os.fork()
        if not child:
            _run(output, folder, words)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(output: str, folder: str, words: list[str]) -> None:
    """Run a command as a program of its own does, and end."""
    signal.alarm(_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    file, nothing = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.open(os.devnull, 0)
    for stream, target in ((0, nothing), (1, file), (2, file)):
        os.dup2(target, stream)
    os.chdir(folder)
    # There is neither a cluster, an engine nor a registry, and a plugin goes into `build`.
    os.environ |= {"PWD": folder, "HOME": f"{folder}/build", "CLUSTER": "existing"}
    os.environ |= {"XDG_CACHE_HOME": str(_CACHE), "KUBECONFIG": f"{folder}/build/kubeconfig"}
    os.environ |= {"DOCKER_HOST": "unix:///not-there", "REGISTRY": "localhost:9/a"}
    sys.argv = ["kopf-kit", *words]
    code: Any = 70
    try:
        from kopf_kit import __main__

        code = __main__.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
