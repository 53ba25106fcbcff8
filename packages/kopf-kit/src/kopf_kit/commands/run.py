"""`kopf-kit run`: runs the operator on this machine, against the cluster."""

import os
import sys

from kopf_kit.commands import crd, operators
from kopf_kit.pack import release
from kopf_kit.pack.project import PROJECT
from kopf_kit.program import passing_on
from kopf_kit.rig import base_images
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig.steps import say


def run(arguments: list[str]) -> None:
    """Replace this process with the operator, which works on the cluster from this machine.

    An operator in the cluster is not stopped; both then act on the same objects.
    """
    cluster = clusters.up()
    crd.install(cluster)
    for operator in operators.operators(cluster):
        say(f"note: the operator {operator} also runs, and both act on the same {PROJECT.many}.")
    options = []
    if cluster.registry is not None:
        public = release.current().pod_images
        options = [
            f"--{image.flag}={base_images.publish(public[image.name], image.packages)}"
            for image in PROJECT.images
        ]
    say("==> The operator runs here; press Ctrl-C to stop it")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    search = (str(PROJECT.sources), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, search))
    command = [sys.executable, "-m", PROJECT.package, *options, *arguments]
    os.execv(command[0], command)  # noqa: S606 (it replaces this process, so signals reach it)


command = passing_on(run, "OPERATOR'S OPTIONS")
