"""Each right that the chart grants the operator is needed, and no other is granted.

The rights are those of the roles as they are rendered. The operator runs as a process of the
machine here, with the arguments of the chart and the credentials of its ServiceAccount: so it is
started again within a second for each right that is taken away.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.pack.artifacts import Published
from tests.chart import helm
from tests.e2e import release
from tests.e2e.chart.conftest import clean_cluster
from tests.e2e.kube import Kube, Object
from tests.e2e.messages import Message, Namespace, make_namespace, uid
from tests.e2e.release import Operator
from tests.e2e.test_conflicts import foreign_pod
from tests.e2e.waiting import BOUND, wait_until
from tests.support.faults.process import free_port
from tests.support.rights import REVIEWS, Right, bound_roles, granted, review, rights, told

pytestmark = pytest.mark.long

#: Seconds that the operator has to manage without a right, once it was refused. With all rights no
#: step takes as long.
GRACE = 3.0


GRANTED = sorted(
    (role["kind"], role["metadata"]["name"], right)
    for role in bound_roles(release=release.NAME)
    for right in rights(role["rules"])
)


# --- the operator, as a process -----------------------------------------------------------------


@dataclass
class Stage:
    """An operator that may be lacking a right, and what it works on."""

    operator: Operator
    kubeconfig: Path
    folder: Path
    namespace: Namespace
    process: "subprocess.Popen[bytes] | None" = None
    port: int = 0

    @property
    def kube(self) -> Kube:
        """The cluster, with all rights."""
        return self.namespace.kube

    @property
    def identity(self) -> str:
        """What the operator calls itself in the Lease."""
        return f"process-{self.namespace.name[-6:]}"

    def start(self) -> None:
        """Start it with the arguments of the chart, but for where it serves and how it logs."""
        self.port = free_port()
        flags = (
            "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{self.port}",
            "--log-format=text", "--log-level=debug",
        )  # fmt: skip
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PYTHONPATH": str(helm.CHECKOUT / "operator"),
            "POD_NAME": self.identity,
            "POD_NAMESPACE": self.operator.namespace,
        }
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "message_operator", *self.operator.arguments(), *flags],
                stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def log(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text()

    def is_ready(self) -> bool:
        """Ask it whether it is ready."""
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.port}/readyz"
            return bool(urllib.request.urlopen(url, timeout=3).status == 200)
        return False


@pytest.fixture(scope="module")
def idle(kube: Kube, published: Published) -> Iterator[Operator]:
    """A release whose roles and ServiceAccount are there, and which runs no operator itself."""
    clean_cluster(kube)
    making = make_namespace(kube, "rights-home")
    home = next(making)
    operator = Operator(kube, published, namespace=home.name)
    operator.install("--set=replicaCount=0")
    yield operator
    operator.uninstall()
    release.remove_crd(kube)
    next(making, None)


@pytest.fixture(scope="module")
def kubeconfig(idle: Operator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of the operator's ServiceAccount."""
    kubectl = idle.kube.kubectl
    token = kubectl("-n", idle.namespace, "create", "token", idle.name, "--duration=1h").strip()
    view = ("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
    config = json.loads(kubectl(*view))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = tmp_path_factory.mktemp("rights") / "kubeconfig"
    file.touch(0o600)
    file.write_text(json.dumps(config))
    return file


@pytest.fixture
def stage(idle: Operator, kubeconfig: Path, tmp_path: Path) -> Iterator[Stage]:
    """An operator that is not started yet, and a namespace."""
    making = make_namespace(idle.kube, "rights")
    made = Stage(idle, kubeconfig, tmp_path, next(making))
    idle.kube.delete("Lease", idle.name, idle.namespace)
    yield made
    made.stop()
    next(making, None)


# --- a day of the operator ----------------------------------------------------------------------

Look = Callable[[], object]
Journey = Iterator[tuple[str, Look]]


def day(stage: Stage) -> Journey:
    """Have the operator do all that it does; yield what must be seen after each step, and how."""
    stage.start()
    yield "it leads", lambda: stage.operator.leader() == stage.identity
    yield "it is ready", stage.is_ready
    message = stage.namespace.create("first", "one")
    yield "a Message is processed", lambda: is_processed(message, generation=1)
    yield "an Event tells of it", lambda: count(message, "Created") == 1
    message.edit(text="two")
    yield "an edit replaces its Pod", lambda: is_processed(message, generation=2)
    message.edit(text="three")
    yield "a repeated Event is counted", lambda: count(message, "Replaced") == 2
    yield "another edit does, too", lambda: is_processed(message, generation=3)
    former = uid(message.pod())
    later = {"myorg.dev/message-generation": "99", "myorg.dev/template-hash": "other"}
    message.patch_pod({"metadata": {"annotations": later}})
    yield "a Pod of a later Message is doubted", lambda: is_replaced(message, former)
    stage.kube.create(foreign_pod("example.org/none"), stage.namespace.name)
    taken = stage.namespace.create("hello", "hello")
    yield "somebody else's Pod is told of", lambda: taken.ready().get("reason") == "Conflict"


def is_processed(message: Message, generation: int) -> bool:
    """Tell whether a Message is Ready as it was edited last."""
    status = message.status()
    return (status.get("phase"), status.get("observedGeneration")) == ("Processed", generation)


def is_replaced(message: Message, former: str) -> bool:
    """Tell whether it has another Pod than the one of that uid."""
    pod = message.pod()
    return pod is not None and uid(pod) != former


def count(message: Message, reason: str) -> int:
    """Tell how often an Event is said to have happened."""
    return sum(event["count"] for event in message.events() if event["reason"] == reason)


def first_failure(stage: Stage, right: Right) -> str:
    """Return the first step that fails for want of a right; empty if all succeed."""
    refusal = f'cannot {right.verb} resource "{right.resource}"'
    for what, look in day(stage):
        refused = 0.0
        began = time.monotonic()
        while not look():
            now = time.monotonic()
            if not refused and refusal in stage.log():
                refused = now
            if refused and now - refused > GRACE:
                return what
            assert now - began < BOUND, f"waited for: {what}\n{stage.log()[-5000:]}"
            time.sleep(0.1)
    return ""


def test_with_all_rights_the_operator_does_all_that_it_does(stage: Stage) -> None:
    for what, look in day(stage):
        wait_until(what, look, bool)

    assert "forbidden" not in stage.log()


@pytest.mark.parametrize(
    ("kind", "role", "right"), GRANTED, ids=[str(right) for _, _, right in GRANTED]
)
def test_without_any_right_something_fails(
    stage: Stage, kind: str, role: str, right: Right
) -> None:
    with taken_away(stage, kind, role, right):
        failed = first_failure(stage, right)

    assert failed, f"the operator does all that it does without the right to {right}"


@contextlib.contextmanager
def taken_away(stage: Stage, kind: str, role: str, right: Right) -> Iterator[None]:
    """Take a right away from a role for a while."""
    where = ("-n", stage.operator.namespace) if kind == "Role" else ()
    found = json.loads(stage.kube.kubectl(*where, "get", kind, role, "-o", "json"))
    less = [
        {
            "apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb],
            **({"resourceNames": [one.name]} if one.name else {}),
        }
        for one in sorted(rights(found["rules"]) - {right})
    ]  # fmt: skip

    def give(rules: list[Object]) -> None:
        patch = json.dumps({"rules": rules})
        stage.kube.kubectl(*where, "patch", kind, role, "--type=merge", "-p", patch)

    give(less)
    try:
        wait_until(
            f"the right to {right} to be gone",
            lambda: all_rights(stage.operator, stage.operator.namespace),
            lambda found: right not in found,
        )
        yield
    finally:
        stage.stop()
        give(found["rules"])


# --- nothing else -------------------------------------------------------------------------------


def all_rights(operator: Operator, namespace: str, account: str = "") -> set[Right]:
    """Return all that a ServiceAccount of the operator's namespace may do in a namespace."""
    user = f"system:serviceaccount:{operator.namespace}:{account or operator.name}"
    said = operator.kube.kubectl(
        *("create", "--raw", REVIEWS, f"--as={user}", "-f", "-"),
        stdin=json.dumps(review(namespace)),
    )
    return told(json.loads(said))


def own_rights(operator: Operator, namespace: str) -> set[Right]:
    """Return what the operator may do in a namespace that not everybody may."""
    return all_rights(operator, namespace) - all_rights(operator, namespace, "default")


def test_the_operator_may_do_what_its_roles_say_and_nothing_else(idle: Operator) -> None:
    roles = bound_roles(release=release.NAME)

    assert own_rights(idle, idle.namespace) == granted(roles, "ClusterRole", "Role")
    assert own_rights(idle, "kube-system") == granted(roles, "ClusterRole")
