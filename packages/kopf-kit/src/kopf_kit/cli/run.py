"""`kopf-kit run`: runs the operator on this machine, against the cluster."""

import os
import sys
from collections.abc import Sequence

from kopf_kit.cli import crd, operators
from kopf_kit.program import passing_on
from kopf_kit.project import nested, registered, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import dockerfiles
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

#: Why an operator whose kind has several versions does not run here.
CONVERTS = (
    f"the API server has the operator convert {PROJECT.many} between their versions, and cannot "
    "ask it on this machine; use `kopf-kit deploy`"
)


def run(arguments: list[str]) -> None:
    """Replace this process with the operator, which works on the cluster from this machine.

    An operator in the cluster is not stopped; both then act on the same objects.
    """
    if PROJECT.converted:
        raise KitError(CONVERTS)
    cluster = clusters.up()
    crd.install(cluster)
    for operator in operators.operators(cluster):
        say(f"note: the operator {operator} also runs, and both act on the same {PROJECT.many}.")
    options, environment = settings(cluster, arguments)
    say("==> The operator runs here; press Ctrl-C to stop it")
    command = [sys.executable, *PROJECT.command[1:], *options]
    if PROJECT.adopted:
        command[0] = str(registered.python(PROJECT.root))
        if registered.of(PROJECT):
            command[1:3] = ["-c", registered.server()]  # kopf does not start without a server
        command += [] if arguments else ["--all-namespaces"]
    os.execve(command[0], command, environment)  # noqa: S606 (so that signals reach it)


def settings(cluster: Cluster, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the options and the environment of the operator on this machine."""
    options = []
    if cluster.registry is not None and PROJECT.images:
        nested.ensure(PROJECT)
        public = releases.current().pod_images
        options = [
            f"--{image.flag}={dockerfiles.publish(public[image.name], image.packages)}"
            for image in PROJECT.images
        ]
    search = (str(PROJECT.sources), os.environ.get("PYTHONPATH", ""))
    environment = {
        # No API server asks on this machine, so there is nothing to serve.
        f"{PROJECT.variables}WEBHOOK_BIND_ADDRESS": "0",
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
    }
    return [*options, *arguments], environment


command = passing_on(run, "OPERATOR'S OPTIONS")
