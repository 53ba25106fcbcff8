"""The life of a version of the Memcached, by Helm and by OLM, while somebody reads and writes.

Its releases are made of examples/memcached, as docs/versions.md says. That page has the table that
is printed here.
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.rig import registry, tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.paths import BUILD, CHECKOUT
from kopf_kit.rig.run import output
from kopf_kit.rig.steps import say, step
from kopf_kit.testing.installed import Installed, Kubectl, namespace, subscribe
from kopf_kit.testing.requests import wait_until
from tests.support.walkthrough import listings

NAME, GROUP = "memcached-operator", "cache.example.com"
CRD, ALPHA, BETA = f"memcacheds.{GROUP}", "v1alpha1", "v1beta1"
EXAMPLE, FOLDER = CHECKOUT / "examples" / "memcached", BUILD / "life-of-a-version"
MODULE = Path("operator", "memcached_operator", "operator.py")
TUTORIAL, PAGE = (
    (CHECKOUT / "docs" / f"{page}.md").read_text()
    for page in ("write-your-own-operator", "versions")
)
#: What each release has, as the page says it.
FIRST, BOTH, STORED, UNSERVED, LAST = RELEASES = (
    "`v1alpha1` alone",
    "`v1beta1` beside `v1alpha1`",
    "`v1beta1` is stored",
    "`v1alpha1` is no longer served",
    "`v1beta1` alone",
)
#: Objects that nobody writes; one is written, and one has a Pod.
KEPT = [f"kept-{number}" for number in range(98)]
REWRITTEN = f"{len(KEPT) + 2} objects are rewritten"
#: Seconds that OLM may take on a busy machine.
BOUND = 900.0
#: What Helm leaves beside the kind.
ROLES = ("view", "edit", "admin")


# --- the releases -----------------------------------------------------------------------------


def edited(text: str, *edits: tuple[str, str]) -> str:
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text, flags=re.DOTALL)
        assert count == 1, f"{pattern} is there {count} times"
    return text


def code(release: str) -> str:
    """Return the operator's module in a release."""
    if release == FIRST:
        parts = [part.text for part in listings(TUTORIAL) if part.file == str(MODULE)]
        return "\n\n".join(parts)
    text = (EXAMPLE / MODULE).read_text()
    if release in (STORED, UNSERVED):
        moved = (r'(?<=short_names=\["mc"\],\n)', "    storage=True,\n")
        text = edited(text, ("    storage=True,\n", ""), moved)
    if release == UNSERVED:
        text = edited(text, (r'(?<=    kind="Memcached",\n)', "    served=False,\n"))
    if release == LAST:
        classes = ("class AlphaSpec.*?(?=@dataclass)", "")
        functions = (r"@controller\.convert.*?(?=@controller\.desired)", "")
        text = edited(text, classes, functions)
    return text


def version(release: str) -> str:
    return f"0.{RELEASES.index(release) + 1}.0"


def write(release: str) -> None:
    """Write a release's sources over those of the one before, of which catalog/ has a record."""
    shutil.copytree(EXAMPLE, FOLDER, dirs_exist_ok=True)
    (FOLDER / MODULE).write_text(code(release))
    edits = {MODULE.with_name("__init__.py"): [("0.1.0", version(release))]}
    if release == FIRST:
        shown = [(f"version: {BETA}", f"version: {ALPHA}")]
        nodes = ("path: replicas(?=\n +displayName: Nodes)", "path: size")
        sample = [(BETA, ALPHA), ("replicas", "size"), ("limits:\n    ", "")]
        edits |= {
            Path("PROJECT"): shown,
            Path("charts", NAME, "Chart.yaml"): shown,
            Path("olm", "csv.yaml"): [nodes, ("path: limits", "path: memory")],
            Path("examples", "sample.yaml"): sample,
        }
    for file, changes in edits.items():
        (FOLDER / file).write_text(edited((FOLDER / file).read_text(), *changes))


def kit(*words: str) -> str:
    """Run kopf-kit as their author; return what it prints."""
    variables = {"PROJECT": str(FOLDER.relative_to(CHECKOUT)), "REGISTRY": registry.ADDRESS}
    command = [sys.executable, "-m", "kopf_kit", *words]
    return output(command, cwd=CHECKOUT, env=variables, timeout=1200)


@pytest.fixture(scope="module")
def catalogs(hack_made: Cluster) -> dict[str, str]:
    """Push all releases; return the catalog's image for each, with those before it, too."""
    for folder in (FOLDER, BUILD / FOLDER.relative_to(CHECKOUT)):
        shutil.rmtree(folder, ignore_errors=True)
    pushed = {}
    for release in RELEASES:
        with step(f"Release {version(release)} of {NAME}"):
            write(release)
            kit("generate")
            pushed[release] = kit("push").split()[-1]
            kit("release", "bundle", version(release))
    return pushed


# --- what is installed ------------------------------------------------------------------------


class ByHelm:
    """An operator that Helm moves from release to release."""

    program = "helm3"
    #: What the page says of the last release.
    last = tuple(re.findall(r"`helm upgrade (--reset-values)`", PAGE))

    def __init__(self, cluster: Cluster, catalogs: dict[str, str]) -> None:
        self.catalogs = catalogs
        cluster = replace(cluster, helm=tools.path(self.program))
        self.installed = Installed(Kubectl(cluster, type(self).__name__.lower()))
        self.kubectl = self.installed.kubectl

    def move(self, release: str, *options: str) -> None:
        if release == LAST:
            options = (*options, *self.last)
        chart = f"oci://{registry.ADDRESS}/charts/{NAME}"
        self.installed.helm(
            *("upgrade", "--install", NAME, chart, f"--version={version(release)}"),
            *("--plain-http", "--create-namespace", "--wait", "--timeout=5m", *options),
        )

    def migrate(self) -> None:
        self.move(STORED, "--set=controller.migrateStorage=true")

    def remove(self) -> None:
        gone = ("--ignore-not-found", "--timeout=300s")
        self.kubectl("delete", "crd", CRD, *gone)
        self.kubectl("delete", "clusterrole", *(f"{CRD}-{role}" for role in ROLES), *gone)
        self.uninstall()
        self.kubectl("delete", "namespace", self.kubectl.namespace, *gone)

    def uninstall(self) -> None:
        self.installed.helm("uninstall", NAME, "--ignore-not-found", "--wait", "--timeout=3m")


class ByHelm4(ByHelm):
    """The same by Helm 4, which applies on the server, where it leaves what others own."""

    program = "helm4"
    last = (*ByHelm.last, *re.findall(r"`helm upgrade (--server-side=\S+)`", PAGE))


class ByOLM(ByHelm):
    """The same by a Subscription; a change begins with another image of the catalog."""

    def move(self, release: str, *_: str) -> None:
        image = self.catalogs[release]
        if release == FIRST:
            subscribe(self.kubectl, NAME, image)
        else:
            patch = f'--patch={{"spec": {{"image": "{image}"}}}}'
            self.kubectl("patch", "catalogsource", "catalog", "--type=merge", patch)
        wanted = f"{NAME}.v{version(release)}"

        def phases() -> dict[str, str]:
            every = {csv["metadata"]["name"]: csv for csv in self.kubectl.get("csv")["items"]}
            ours = {name: csv for name, csv in every.items() if name.startswith(NAME)}
            return {name: csv.get("status", {}).get("phase", "") for name, csv in ours.items()}

        wait_until(wanted, phases, lambda seen: seen == {wanted: "Succeeded"}, bound=BOUND)

    def migrate(self) -> None:
        """Nothing has to be asked for."""

    def uninstall(self) -> None:
        self.kubectl("delete", "subscriptions.operators.coreos.com,csv", "--all", "--timeout=300s")


@pytest.fixture(params=[ByHelm, ByHelm4, ByOLM])
def operator(
    request: pytest.FixtureRequest, hack_made: Cluster, catalogs: dict[str, str]
) -> Iterator[ByHelm]:
    made: ByHelm = request.param(hack_made, catalogs)
    made.remove()  # what an interrupted run left
    yield made
    made.remove()


@pytest.fixture
def theirs(operator: ByHelm) -> Iterator[Kubectl]:
    with namespace(operator.installed, "life-of-a-version") as kubectl:
        yield kubectl


# --- who uses it ------------------------------------------------------------------------------


class User(threading.Thread):
    """Writes a number into a field of one version, reads it there, and writes the next one."""

    def __init__(self, url: str, *path: str) -> None:
        super().__init__(daemon=True)
        self._url, self._path = url, path
        self.ended = threading.Event()
        #: When a number was written and read, by `time.monotonic`.
        self.served: list[float] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        for number in itertools.count(100):
            if self.ended.is_set():
                return
            wanted: Any = number
            for name in reversed(self._path):
                wanted = {name: wanted}
            while not (self._ask(wanted) and (read := self._ask())):
                if self.ended.wait(0.1):
                    return
            self.served.append(time.monotonic())
            # The other one may have written beside it, but nobody else into this field.
            time.sleep(0.2)
            for found in (read, self._ask() or read):
                at = found
                for name in self._path:
                    at = at[name]
                if at != number:
                    self.wrong.append(f"{self._url}: {number} was written, and {found} was read")

    def _ask(self, written: Any = None) -> Any:
        asked = urllib.request.Request(  # noqa: S310
            self._url,
            json.dumps({"spec": written}).encode() if written else None,
            {"Content-Type": "application/merge-patch+json"},
            method="PATCH" if written else "GET",
        )
        try:
            with urllib.request.urlopen(asked, timeout=40) as answer:  # noqa: S310
                return json.load(answer)["spec"]
        except (OSError, HTTPException):
            return None

    def unserved(self, since: float) -> float:
        """Return the longest time without it since then, once it is there again."""
        now = time.monotonic()
        wait_until(f"{self._url} to be served", lambda: self.served[-1:], lambda at: at > [now])
        times = [since, *(at for at in self.served if at > since)]
        return max(after - before for before, after in itertools.pairwise(times))


@contextmanager
def using(kubectl: Kubectl) -> Iterator[dict[str, User]]:
    """Have a user of each version of the object `written`; both must read what they wrote."""
    proxy = kubectl.command("proxy", "--port=0")
    with subprocess.Popen(proxy, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        root = f"http://{process.stdout.readline().split()[-1]}/apis/{GROUP}"
        at = f"namespaces/{kubectl.namespace}/memcacheds/written"
        users = {
            ALPHA: User(f"{root}/{ALPHA}/{at}", "memory"),
            BETA: User(f"{root}/{BETA}/{at}", "limits", "connections"),
        }
        for user in users.values():
            user.start()
        try:
            yield users
        finally:
            for user in users.values():
                user.ended.set()
            process.terminate()
        for user in users.values():
            user.join()
            assert user.wrong == []


def declare(kubectl: Kubectl) -> None:
    specs = {name: {"size": 0, "memory": 100 + at} for at, name in enumerate(KEPT)}
    specs |= {"written": {"size": 0, "memory": 99}, "running": {"size": 1, "memory": 64}}
    head = {"apiVersion": f"{GROUP}/{ALPHA}", "kind": "Memcached"}
    made = [{**head, "metadata": {"name": name}, "spec": spec} for name, spec in specs.items()]
    every = {"apiVersion": "v1", "kind": "List", "items": made}
    kubectl("apply", "--filename=-", stdin=json.dumps(every))


def specs(kubectl: Kubectl) -> dict[str, Any]:
    found = kubectl.get(f"memcacheds.{BETA}.{GROUP}")["items"]
    return {each["metadata"]["name"]: each["spec"] for each in found}


def children(kubectl: Kubectl) -> dict[str, Any]:
    """Return what would be other than it was after a restart."""
    found = kubectl.get("deployments,pods", "--selector=app.kubernetes.io/instance!=written")
    return {
        each["metadata"]["uid"]: [
            each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            if each["kind"] == "Deployment"
            else each["status"]["containerStatuses"][0]["restartCount"]
        ]
        for each in found["items"]
    }


def wait_for_nodes(kubectl: Kubectl, option: str) -> None:
    """Wait until all nodes are run with an option, and the one that runs is there alone."""

    def lacking() -> list[str]:
        found = kubectl.get("deployments,pods")["items"]
        pods = [each for each in found if each["kind"] == "Pod"]
        return [
            each["metadata"]["name"]
            for each in found
            if option not in json.dumps(each["spec"]) or len(pods) != 1
        ]

    names = len(KEPT) + 2
    wait_until(
        f"{names} Deployments",
        lambda: len(kubectl.get("deployments")["items"]),
        lambda seen: seen == names,
    )
    wait_until(f"nodes with {option}", lacking, lambda seen: not seen)
    kubectl("wait", "--for=condition=Ready", "pods", "--all", "--timeout=300s")


def test_a_version_comes_and_another_goes_and_nothing_is_lost_or_restarted(
    operator: ByHelm, theirs: Kubectl
) -> None:
    rows: dict[str, str] = {}

    def change(row: str, what: Callable[[], object], *used: User) -> None:
        """Make a change, and note how long it takes, and how long requests fail meanwhile."""
        began = time.monotonic()
        what()
        took = time.monotonic() - began
        unserved = max(user.unserved(began) for user in used)
        rows[row] = f"{took:.0f} s" + (f" ({unserved:.0f} s)" if unserved >= 2 else "")

    def migrate() -> None:
        operator.migrate()
        wait_until(
            f"only {BETA} to be stored",
            lambda: theirs.get("crd", CRD)["status"]["storedVersions"],
            lambda stored: stored == [BETA],
        )

    operator.move(FIRST)
    declare(theirs)
    wait_for_nodes(theirs, "--memory-limit")
    with using(theirs) as users:
        alpha, beta = users[ALPHA], users[BETA]
        change(BOTH, lambda: operator.move(BOTH), alpha)
        # This release runs all nodes with another option.
        wait_for_nodes(theirs, "--conn-limit")
        before = children(theirs)
        change(STORED, lambda: operator.move(STORED), alpha, beta)
        change(REWRITTEN, migrate, alpha, beta)
        change(UNSERVED, lambda: operator.move(UNSERVED), beta)
        change(LAST, lambda: operator.move(LAST), beta)
        beta.unserved(time.monotonic())
    say("\n".join(f"| {row} | {times} |" for row, times in rows.items()))

    found = specs(theirs)
    del found["written"]
    memory = {name: 100 + at for at, name in enumerate(KEPT)}
    limits = {name: {"memory": each, "connections": 1024} for name, each in memory.items()}
    kept = {name: {"replicas": 0, "limits": each} for name, each in limits.items()}
    running = {"replicas": 1, "limits": {"memory": 64, "connections": 1024}}
    assert found == {**kept, "running": running}
    assert children(theirs) == before
    assert [*rows] == re.findall(r"^\| (.+?) \| \d+ s", PAGE, re.MULTILINE)
