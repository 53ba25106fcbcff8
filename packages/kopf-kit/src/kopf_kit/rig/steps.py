"""What a command tells a person: each step that takes long, and how the command ended.

A command runs in an environment of its own: variables that a user has set for other programs and
clusters are taken out of it first, so that one such as `HELM_KUBECONTEXT` or `KUBECONFIG` never
sends it to another cluster than the one that was asked for. The tests do the same.
"""

import contextlib
import errno
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console

from kopf_kit.rig import paths
from kopf_kit.rig.run import Argument, KitError, elapsed, run, stop_all, stopping

#: Seconds between two lines of a long step that say that it is still running.
HEARTBEAT = 30.0

# On stderr, because stdout is for the command's result.
_console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a line of progress."""
    _console.print(text)


class Step:
    """A step in progress; its commands' output goes to `log`."""

    def __init__(self, title: str, log: Path) -> None:
        self.title = title
        self.log = log
        self.began = time.monotonic()

    @property
    def took(self) -> float:
        """The seconds since the step began."""
        return time.monotonic() - self.began

    def run(
        self,
        argv: Sequence[Argument],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Path | bytes | None = None,
    ) -> None:
        """Run a command of this step; raise KitError, which quotes the log's end, if it fails."""
        run(argv, self.log, timeout=timeout, env=env, cwd=cwd, stdin=stdin)


class StepError(KitError):
    """The failure of a step; its message contains the step's name and log."""


def _report(work: Step, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT):
        say(f"    {work.title} … {elapsed(work.took)}")


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce a step, report its progress while it runs, and print how long it took."""
    slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
    work = Step(title, paths.log(slug))
    work.log.write_bytes(b"")
    say(f"==> {title}")
    ended = threading.Event()
    threading.Thread(target=_report, args=(work, ended), daemon=True).start()
    try:
        yield work
    except StepError:  # from a step within this one, whose message is better
        raise
    except KitError as error:
        raise StepError(
            f"{title}: failed after {elapsed(work.took)}\n{error}\n"
            f"The whole log is {work.log}\n"
            "What is done so far is kept: the same command goes on from there."
        ) from error
    finally:
        ended.set()
    say(f"    {title}: {elapsed(work.took)}")


def together(*jobs: Callable[[], object]) -> None:
    """Run jobs at the same time, each in a thread; the first failure ends the others' commands.

    Use it for jobs that wait for different things, such as a download and a compiler.
    """
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(job) for job in jobs]
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failures = [error for future in done if (error := future.exception())]
        if failures:
            raise failures[0]
    finally:
        with contextlib.nullcontext() if all(f.done() for f in futures) else stopping():
            pool.shutdown(wait=True)


#: Variables that kubectl, Helm and kind read; our commands name cluster and namespace themselves.
_TOOLS = ("HELM_", "KUBECTL_", "KUBERC", "KUBE_", "KIND_EXPERIMENTAL_")
#: Variables that every operator reads.
_OPERATOR = ("WATCH_NAMESPACE", "POD_NAME", "KUBERNETES_SERVICE_")
#: Variables that the `make` that started the tests passes on to another `make`.
_BASES = ("RUNTIME_BASE", "BUILD_BASE")
_MAKE = ("MAKE", "MFLAGS", "ARGS", "PLATFORMS", "BUNDLE_IMG", "REGISTRY", *_BASES)
#: With it, each of hundreds of Pythons would compile all that it imports.
_PYTHON = ("PYTHONDONTWRITEBYTECODE",)
#: Hosts that no proxy can reach.
_DIRECT = ("localhost", "127.0.0.1", "::1")


def scrub(environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove variables that select a cluster or change how kubectl, Helm and kind behave.

    `KUBECONFIG` stays only with CLUSTER=existing, because there it names the user's cluster.
    """
    _remove(environ, _TOOLS)
    if environ.get("CLUSTER") != "existing":
        environ["KUBECONFIG"] = os.devnull
    for proxies in ("NO_PROXY", "no_proxy"):
        reached = [name for name in environ.get(proxies, "").split(",") if name]
        ours = [paths.registry()] if paths.has_project() else []
        environ[proxies] = ",".join(dict.fromkeys([*reached, *_DIRECT, *ours]))


def scrub_for_tests(
    settings: tuple[str, ...], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Also remove the operator's own settings and those of `make`: the tests choose them.

    `settings` are the prefixes of this operator's own variables. With CLUSTER=existing, images that
    they name stay, as IMG does: that cluster pulls them.
    """
    scrub(environ)
    if environ.get("CLUSTER") == "existing":
        settings = tuple(name for name in settings if not name.endswith("_IMG"))
    _remove(environ, settings + _OPERATOR + _MAKE + _PYTHON)


def _remove(environ: MutableMapping[str, str], prefixes: tuple[str, ...]) -> None:
    for name in [name for name in environ if name.startswith(prefixes)]:
        del environ[name]


#: Errors that are no mistake in the command: a missing permission, a full disk, or an odd name.
_OF_THE_MACHINE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG),
)


def execute(command: Callable[[], int | None]) -> int:
    """Run a command and return the exit code; print a KitError without its traceback."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        scrub()
        return command() or 0
    except KitError as error:
        say(f"\nerror: {error}")
        return 1
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE or error.filename is None:
            raise
        say(f"\nerror: {error.filename}: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; finished steps are kept, and the same command continues from there")
        return 130
    finally:
        stop_all()
