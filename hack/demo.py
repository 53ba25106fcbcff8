"""`make demo`: the main job from start to end, as a user would do it by hand.

It creates a cluster, installs the operator by Helm from the local registry, applies a Message in
Korean, shows its Pod's log, edits the Message, and shows the new Pod's log. Each kubectl command is
printed before it runs.
"""

import json
import time
from collections.abc import Callable

import click

from kopf_kit.cli import deploy
from kopf_kit.project import documents
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError, answer, elapsed, output
from kopf_kit.rig.steps import say

_EXAMPLE = "examples/hello.yaml"
_NAME = "hello-msg"
_EDITED = "수정된 메시지입니다. 🎉"
_WAIT = 120.0


class _Shell:
    """Runs kubectl and shows it to the user."""

    def __init__(self, cluster: Cluster) -> None:
        self._command = cluster.kubectl_command

    def show(self, *arguments: str) -> None:
        """Print the command and its output."""
        shown = " ".join(f"'{a}'" if set(a) & set(' {}"') else a for a in arguments)
        print(f"\n$ kubectl {shown}", flush=True)
        print(self.ask(*arguments).rstrip(), flush=True)

    def ask(self, *arguments: str) -> str:
        """Return the output of a command."""
        return output([*self._command, *arguments], timeout=_WAIT + 30, cwd=paths.CHECKOUT)

    def until(self, condition: str, holds: Callable[[], bool]) -> None:
        """Wait for a condition; raise KitError with the Message's state if it is never met."""
        deadline = time.monotonic() + _WAIT
        while not holds():
            if time.monotonic() > deadline:
                state = answer([*self._command, "describe", "message", _NAME]) or ""
                raise KitError(f"waited {elapsed(_WAIT)} in vain until {condition}\n{state}")
            time.sleep(0.2)


@click.command()
def command() -> None:  # noqa: D103 (the program has its help)
    began = time.monotonic()
    cluster = clusters.up()
    deploy.install(cluster)
    ready = time.monotonic()
    kubectl = _Shell(cluster)

    text = documents.load((paths.CHECKOUT / _EXAMPLE).read_text())["spec"]["text"]
    say("\n==> A Message in Korean, and the Pod that prints it")
    kubectl.show("apply", "-f", _EXAMPLE)
    kubectl.until("the Pod has printed the text", lambda: _prints(cluster, text))
    kubectl.show("wait", "--for=condition=Ready", f"message/{_NAME}", f"--timeout={_WAIT:.0f}s")
    kubectl.show("get", "messages", "-o", "wide")
    kubectl.show("logs", f"msg-{_NAME}")
    kubectl.show("events", "--for", f"message/{_NAME}")

    say("\n==> The Message is edited, so its Pod is replaced")
    patch = json.dumps({"spec": {"text": _EDITED}}, ensure_ascii=False)
    kubectl.show("patch", "message", _NAME, "--type=merge", "-p", patch)
    kubectl.until("the new Pod has printed the new text", lambda: _prints(cluster, _EDITED))
    kubectl.show("wait", "--for=condition=Ready", f"message/{_NAME}", f"--timeout={_WAIT:.0f}s")
    kubectl.show("logs", f"msg-{_NAME}")
    kubectl.show("get", "messages", "-o", "wide")

    now = time.monotonic()
    say(
        f"\nDone: {elapsed(ready - began)} for the cluster and the operator, "
        f"{elapsed(now - ready)} for the Message.\n{_farewell(cluster)}"
    )


def _prints(cluster: Cluster, text: str) -> bool:
    log = answer([*cluster.kubectl_command, "logs", f"msg-{_NAME}"]) or ""
    return text in log.splitlines()


def _farewell(cluster: Cluster) -> str:
    remove = "make undeploy uninstall" if cluster.existing else "make cluster-down"
    removed = "the operator, its CRD and every Message" if cluster.existing else "the cluster"
    suffix = " CLUSTER=existing" if cluster.existing else ""
    return f"""\
Try next:
  {cluster.export}
  kubectl edit message {_NAME}         # change the text, and see the Pod replaced
  kubectl delete pod msg-{_NAME}       # and see it come back
  kubectl describe message {_NAME}     # its state and Events
  kubectl apply -f examples/             # more Messages
Remove {removed}:
  {remove}{suffix}"""
