"""Programs in Python as forks of a process that has imported what they use.

Most of the time of such a program goes into its imports. What the kit works on is chosen when it is
imported, so each run needs a process of its own. Run as a program, this takes the libraries that
are imported first, and a command a line, as JSON; it answers each with its exit code.
"""

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SECONDS = 300
_CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
#: Where a program reads what does not end, the machine must not.
_MEMORY = 3 * 2**30
#: What the kit imports, and what reads the handlers of an operator on plain kopf.
_KITS = ("click", "jsonschema", "kopf_runtime", "msgspec", "rich.prompt", "yaml")
_KOPFS = ("kopf.cli",)


class Forks:
    """A process that runs programs; use one a thread."""

    def __init__(self, libraries: Sequence[str], memory: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._memory = memory
        command = [sys.executable, __file__, *libraries]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run what follows `python` in a command: `-c CODE`, `-m MODULE` or a file, with words."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        order = [[*words], str(folder), dict(environment), str(out), str(err), self._memory]
        self._server.stdin.write(json.dumps(order).encode() + b"\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess([*words], code, out.read_bytes(), err.read_bytes())

    def end(self) -> None:
        """End the process."""
        self._server.communicate()
        self._folder.cleanup()


@functools.cache
def _forks(*libraries: str) -> Forks:
    forks = Forks(libraries)
    atexit.register(forks.end)
    return forks


def output(argv: Sequence[str | Path], **options: Any) -> str:
    """Do as `kopf_kit.rig.run.output`, by a fork where this Python runs the kit or a file."""
    from kopf_kit.rig import run  # not in the process that forks

    words, environment = [str(word) for word in argv], {**os.environ, **(options.get("env") or {})}
    if words[:2] == ["env", "-i"]:
        python = next(n for n, word in enumerate(words) if n > 1 and "=" not in word)
        environment = dict(word.split("=", 1) for word in words[2:python])
        words = words[python:]
    # Who waits for an end that does not come wants a process of its own.
    if words[0] != sys.executable or options.get("timeout", run.SHORT) < run.SHORT:
        return run.output(argv, **options)
    forks = _forks(*(_KITS if "kopf_kit" in words else _KOPFS))
    done = forks.run(words[1:], options.get("cwd") or Path.cwd(), environment)
    if done.returncode:
        raise run.CommandError(run._failure(argv, done.returncode, done.stderr or done.stdout))
    return done.stdout.decode(errors="replace")


def python(*words: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run Python, to which the kit's libraries are known, in a folder."""
    done = _forks(*_KITS).run(words, folder, {**os.environ, **variables})
    texts = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, *texts)


def kit(*words: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the kit in a folder, as its author does."""
    return python("-m", "kopf_kit", *words, folder=folder, **variables)


class Kit(Forks):
    """The kit where there is neither a cluster, an engine nor a registry."""

    def __init__(self) -> None:
        super().__init__(_KITS, _MEMORY)

    def answer(self, folder: Path, *words: str) -> tuple[int, str]:
        """Run a command in a folder; return its exit code, and what it says."""
        build = f"{folder}/build"  # a plugin goes there
        environment = {**os.environ, "PWD": str(folder), "HOME": build, "CLUSTER": "existing"}
        environment |= {"XDG_CACHE_HOME": _CACHE, "KUBECONFIG": f"{build}/kubeconfig"}
        environment |= {"DOCKER_HOST": "unix:///not-there", "REGISTRY": "localhost:9/a"}
        done = self.run(("-m", "kopf_kit", *words), folder, environment)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def _serve(libraries: Sequence[str]) -> None:
    sys.path.pop(0)  # this folder
    for library in libraries:
        __import__(library)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _run(*order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(
    words: list[str], folder: str, environment: Mapping[str, str], out: str, err: str, memory: int
) -> None:
    """Run a command as a process of its own does, and end."""
    os.setsid()
    signal.alarm(_SECONDS)
    if memory:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    code: Any = 1
    try:
        _begin(words)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for text in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # it was closed
                text.flush()
        os._exit(code & 255)


def _begin(words: list[str]) -> None:
    if words[0] == "-P":
        words = words[1:]
    elif words[0] in ("-m", "-c"):
        sys.path.insert(0, os.getcwd() if words[0] == "-m" else "")
    option, *sys.argv = words
    if option == "-m":
        import runpy

        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    code = words[1] if option == "-c" else Path(option).read_text()
    if option != "-c":
        sys.argv = words
        sys.path.insert(0, os.path.dirname(option))
    exec(compile(code, option, "exec"), {"__name__": "__main__", "__file__": option})  # noqa: S102


if __name__ == "__main__":
    _serve(sys.argv[1:])
