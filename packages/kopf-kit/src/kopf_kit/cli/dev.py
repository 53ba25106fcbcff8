"""`kopf-kit dev`: runs the operator here, and starts it again after each change of its sources.

The operator that `kopf-kit deploy` installed is paused meanwhile. A mistake in the sources ends the
process of the operator (`kopf_kit.cli.dev_operator`), not this command.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence

import click
import watchfiles

from kopf_kit.cli import crd, operators, run
from kopf_kit.program import PASSES_ON
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.control_plane import end_with_parent
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

#: Seconds that the operator has to end, and milliseconds between two looks at it.
_GRACE, _LOOK = 5.0, 200


@click.command(context_settings=PASSES_ON)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPERATOR'S OPTIONS]")
def command(rest: tuple[str, ...]) -> None:
    """Run the operator here, against the cluster, and again after each change of its sources.

    A kind that changed is applied again. The deployed operator is paused until Ctrl-C ends this.
    """
    if PROJECT.adopted:
        raise KitError("`kopf-kit dev` is for operators on the runtime: use `kopf-kit run`")
    cluster = clusters.up()
    operators.refuse_others(cluster, f"two would act on the same {PROJECT.many}")
    crd.wait_while_deleted(cluster)
    operator = _Operator(cluster, rest)
    try:
        operators.pause(cluster)
        operator.start()
        _follow(operator)
    except KeyboardInterrupt:
        say("")
    finally:
        operator.end()
        operators.resume(cluster)


def _follow(operator: "_Operator") -> None:
    """Start the operator again after each change of its Python files, until Ctrl-C."""
    for changed in watchfiles.watch(
        PROJECT.sources,
        watch_filter=watchfiles.PythonFilter(),
        rust_timeout=_LOOK,
        yield_on_timeout=True,
        raise_interrupt=True,
    ):
        if changed:
            names = sorted({os.path.relpath(name, PROJECT.sources) for _, name in changed})
            say(f"==> {', '.join(names)} changed: the operator starts again")
            operator.start()
        elif (code := operator.ended()) is not None:
            say(f"the operator ended ({code}); a change of its code starts it")


class _Operator:
    """The operator's process, and its CRDs as they were last applied."""

    def __init__(self, cluster: Cluster, arguments: Sequence[str]) -> None:
        self._cluster, self._applied = cluster, b""
        self._options, self._environment = run.settings(cluster, arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the operator, or start it again; the former process ends meanwhile."""
        former, self._process = self._process, None
        if former is not None:
            former.terminate()
        reading, writing = os.pipe()
        program = (sys.executable, "-m", "kopf_kit.cli.dev_operator", str(writing))
        self._process = subprocess.Popen(
            (*program, *self._options),
            env=self._environment,
            stdin=subprocess.PIPE,
            pass_fds=[writing],
            preexec_fn=end_with_parent,
        )
        os.close(writing)
        with open(reading, "rb") as pipe:
            kinds = pipe.read()  # nothing, if the sources have a mistake
        _end(former)
        assert self._process.stdin
        with self._process.stdin as stdin, contextlib.suppress(BrokenPipeError):
            if kinds and self._apply(kinds):
                stdin.write(b"\n")

    def _apply(self, kinds: bytes) -> bool:
        """Apply the CRDs if they changed; return whether the cluster has them."""
        try:
            if any(len(kind["spec"]["versions"]) > 1 for kind in documents.load_all(kinds)):
                raise KitError(run.CONVERTS)
            if kinds != self._applied:
                crd.apply(self._cluster, kinds)
        except KitError as error:
            say(f"error: {error}")
            return False
        self._applied = kinds
        return True

    def ended(self) -> int | None:
        """Return the exit code of a process that ended, once."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            self._process = None
        return code

    def end(self) -> None:
        """End it."""
        _end(self._process)


def _end(process: "subprocess.Popen[bytes] | None") -> None:
    if process is None:
        return
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    process.kill()
    process.wait()
