"""The chart as Helm's users install, upgrade, render and move it."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.helm import (
    CHART,
    FULLNAME,
    HELM_3_IN_TIME,
    NAMESPACE,
    PROGRAMS,
    RELEASE,
    HelmError,
    Manifest,
    find,
    helm,
    render,
)
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.api_server import kubectl, running

CRD = PROJECT.kinds[0].crd
WIDGET: Manifest = {
    "apiVersion": "acme.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"text": "kept"},
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with running() as started:
        yield started


class Helm:
    """A program of Helm for the release of a namespace of its own."""

    def __init__(self, plane: ControlPlane, program: str) -> None:
        self.plane, self.program, self.forced = plane, program, list[str]()
        if program == "helm4":  # it applies on the server, which tells kubectl's fields from Helm's
            self.forced = ["--force-conflicts"]

    def __call__(self, verb: str, *arguments: str | Path, release: str = RELEASE) -> str:
        where = ("--namespace", NAMESPACE, "--kubeconfig", self.plane.kubeconfig(ADMIN))
        return helm(*verb.split(), release, *arguments, *where, program=self.program)

    def install(self, *options: str | Path, release: str = RELEASE) -> str:
        return self("install", CHART, "--create-namespace", *options, release=release)

    def uid(self) -> str:
        """Return the uid of a Widget that a user has, which is made if it is not there."""
        kubectl(self.plane, "wait", "--for=condition=Established", f"crd/{CRD}")
        kubectl(self.plane, "apply", "--filename=-", stdin=[WIDGET])
        where = ("-n", "default", "get", "widget", "one", "-o", "jsonpath={.metadata.uid}")
        return kubectl(self.plane, *where)


@pytest.fixture(params=HELM_3_IN_TIME)
def users(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Helm]:
    """A Helm without a release, which leaves neither one nor the kind behind."""
    program = Helm(plane, request.param)
    yield program
    for release in (RELEASE, "another"):
        program("uninstall", "--ignore-not-found", release=release)
    kinds = [f"clusterrole/{CRD}-{role}" for role in ("view", "edit", "admin")]
    kubectl(plane, "delete", "--ignore-not-found", f"crd/{CRD}", *kinds)


def former(folder: Path, *missing: str) -> Path:
    """Return the chart of a former release, whose values and schema lack some keys."""
    chart = folder / "former"
    shutil.copytree(CHART, chart)
    values = documents.load((chart / "values.yaml").read_text())
    (chart / "values.schema.json").unlink()
    for file in (chart / "templates").rglob("*"):  # the others would need what is missing
        if file.suffix in (".yaml", ".txt") and file.name != "serviceaccount.yaml":
            file.unlink()
    for key in missing:
        *path, last = key.split(".")
        section = values
        for name in path:
            section = section[name]
        del section[last]
    (chart / "values.yaml").write_text(documents.text(values))
    return chart


def test_reused_values_that_lack_a_new_key_are_refused_with_the_option_that_helps(
    users: Helm, tmp_path: Path
) -> None:
    chart = former(tmp_path, "tests", "leaderElection.enabled")
    users("install", chart, "--create-namespace", "--set=replicaCount=2")

    with pytest.raises(HelmError) as error:
        users("upgrade", CHART, "--reuse-values")
    users("upgrade", CHART, "--reset-then-reuse-values", *users.forced)

    assert "missing property 'tests'" in str(error.value)
    assert "upgrade with --reset-then-reuse-values, not --reuse-values" in str(error.value)
    deployment = find(documents.load_all(users("get manifest")), "Deployment")
    assert deployment["spec"]["replicas"] == 2


def test_a_value_that_is_wrong_is_refused_without_that_option() -> None:
    with pytest.raises(HelmError) as error:
        render({"replicaCount": "two"})

    assert "--reset-then-reuse-values" not in str(error.value)


def kustomization(folder: Path, **fields: object) -> None:
    about = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (folder / "kustomization.yaml").write_text(documents.text({**about, **fields}))


PREFIXED = {"namePrefix": "our-", "labels": [{"pairs": {"team": "a"}}]}


def check_prefixed(manifests: list[Manifest]) -> None:
    """Check that kustomize's names lead from the operator to its rights and its Lease."""
    deployment = find(manifests, "Deployment", f"our-{FULLNAME}")
    assert deployment["metadata"]["labels"]["team"] == "a"
    pod = deployment["spec"]["template"]["spec"]
    bindings = [m for m in manifests if m["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert bindings
    roles = {(m["kind"], m["metadata"]["name"]): m for m in manifests}
    rules = list[Manifest]()
    for binding in bindings:
        assert binding["subjects"][0]["name"] == pod["serviceAccountName"]
        rules += roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]["rules"]
    (lease,) = (arg for arg in pod["containers"][0]["args"] if arg.startswith("--lease-name="))
    assert lease.partition("=")[2] in {n for r in rules for n in r.get("resourceNames", ())}


def test_a_post_renderer_may_rename_all_of_it(plane: ControlPlane, tmp_path: Path) -> None:
    kustomization(tmp_path, resources=["all.yaml"], **PREFIXED)
    script = tmp_path / "render.sh"
    kubectl_program = shutil.which("kubectl") or str(tools.path("kubectl"))
    script.write_text(
        f"#!/bin/sh\ncat >{tmp_path}/all.yaml\nexec {kubectl_program} kustomize {tmp_path}\n"
    )
    script.chmod(0o755)
    users = Helm(plane, "helm3")  # Helm 4 takes a plugin instead

    users.install("--post-renderer", script, "--set=crds.install=false")
    manifests = documents.load_all(users("get manifest"))
    users("uninstall")

    check_prefixed(manifests)


def test_kustomize_inflates_it(tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    shutil.copytree(CHART, charts / CHART.name)
    values = {"replicaCount": 2, "tests": {"enabled": False}}
    chart = {"name": CHART.name, "releaseName": RELEASE, "namespace": NAMESPACE}
    inflated = [{**chart, "includeCRDs": True, "valuesInline": values}]
    kustomization(tmp_path, helmCharts=inflated, **PREFIXED)
    command = [str(tools.path("kubectl")), "kustomize", str(tmp_path), "--enable-helm"]

    done = subprocess.run(
        [*command, "--helm-command", str(tools.path("helm3"))],
        env={**os.environ, "HELM_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    manifests = documents.load_all(done.stdout)
    check_prefixed(manifests)
    assert len(manifests) == len(render(values))
    assert find(manifests, "Deployment", f"our-{FULLNAME}")["spec"]["replicas"] == 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_argo_cd_and_flux_render_without_a_cluster_what_helm_installs(
    users: Helm, program: str
) -> None:
    # https://argo-cd.readthedocs.io/en/stable/user-guide/helm/ and `flux build`: they know the
    # cluster's versions, but look nothing up; every rendering is an installation to Argo CD.
    users.install()
    hooks = documents.load_all(users("get hooks"))
    installed = [*documents.load_all(users("get manifest")), *hooks]
    argo = ("template", ".", "--name-template", RELEASE, "--include-crds")
    versions = ("--api-versions=monitoring.coreos.com/v1", "--api-versions=policy/v1")
    flux = ("template", RELEASE, ".", "--is-upgrade", "--dry-run=client")

    for command in ((*argo, *versions), flux):
        where = (f"--namespace={NAMESPACE}", "--kube-version=1.35.0")
        done = subprocess.run(
            [tools.path(program), *command, *where],
            cwd=CHART,
            env={**os.environ, "KUBECONFIG": os.devnull},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(documents.load_all(done.stdout), key=str) == sorted(installed, key=str)


def test_what_was_rendered_and_applied_is_taken_over(users: Helm) -> None:
    rendered = [m for m in render() if m["kind"] != "Pod"]  # without that of `helm test`
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl(users.plane, "apply", "--filename=-", stdin=[space])
    kubectl(users.plane, "apply", "--filename=-", stdin=rendered)
    uid = users.uid()

    with pytest.raises(HelmError, match="invalid ownership metadata"):
        users.install()
    users("uninstall", "--ignore-not-found")
    users.install("--take-ownership", *users.forced)

    made = documents.load_all(users("get manifest"))
    assert sorted(made, key=str) == sorted(rendered, key=str)
    assert users.uid() == uid


def test_a_kept_kind_goes_to_a_release_of_another_name(users: Helm) -> None:
    users.install()
    uid = users.uid()
    users("uninstall")
    assert users.uid() == uid

    with pytest.raises(HelmError, match="invalid ownership metadata"):
        users.install(release="another")
    users("uninstall", "--ignore-not-found", release="another")
    users.install("--take-ownership", *users.forced, release="another")

    assert users.uid() == uid
    users("uninstall", release="another")
    assert users.uid() == uid


def test_a_rollback_over_a_new_field_loses_no_object(users: Helm, tmp_path: Path) -> None:
    users.install()
    uid = users.uid()
    newer = tmp_path / "newer"
    shutil.copytree(CHART, newer)
    (crd,) = (f for f in (newer / "templates").rglob("*crd*") if "kind: CustomR" in f.read_text())
    field = "text:"
    text = crd.read_text()
    at = text.index(field)
    indent = " " * (at - text.rindex("\n", 0, at) - 1)
    crd.write_text(f"{text[:at]}added:\n{indent}  type: string\n{indent}{text[at:]}")

    users("upgrade", newer, *users.forced)
    patch = '--patch={"spec":{"added":"by the newer release"}}'
    kubectl(users.plane, "-n", "default", "patch", "widget", "one", "--type=merge", patch)
    users("rollback", "1", *users.forced)

    assert users.uid() == uid
    spec = ("-n", "default", "get", "widget", "one", "-o", "jsonpath={.spec}")
    kubectl(users.plane, "-n", "default", "annotate", "widget", "one", "a=b")
    assert json.loads(kubectl(users.plane, *spec)) == WIDGET["spec"]
    users("upgrade", newer, *users.forced)
    assert users.uid() == uid


def test_an_interrupted_installation_is_tried_again(users: Helm) -> None:
    where = [f"--namespace={NAMESPACE}", "--create-namespace"]
    where.append(f"--kubeconfig={users.plane.kubeconfig(ADMIN)}")
    command = [str(tools.path(users.program)), "install", RELEASE, str(CHART), "--wait"]
    with subprocess.Popen([*command, *where], stderr=subprocess.DEVNULL) as interrupted:
        uid = ""
        while not uid:  # no kubelet runs the operator, so it waits once all is there
            time.sleep(0.2)
            assert interrupted.poll() is None
            with contextlib.suppress(AssertionError):
                uid = users.uid()
        interrupted.kill()
    assert '"pending-install"' in users("status", "--output=json")

    with pytest.raises(HelmError, match=r"another operation .* is in progress"):
        users("upgrade", CHART, "--install")
    users("uninstall")
    users.install()

    assert '"deployed"' in users("status", "--output=json")
    assert users.uid() == uid


# --- the kind, which belongs to one release or to nobody ------------------------------------------

CRDS = documents.load_all(texts()["crds.yaml"])
WITHOUT = "--set=crds.install=false"


@pytest.mark.long
def test_the_kind_leaves_a_release_and_comes_back(users: Helm) -> None:
    reused = ("upgrade", CHART, "--reset-then-reuse-values")
    users.install()
    uid = users.uid()

    users(*reused, WITHOUT)
    assert users.uid() == uid
    kubectl(users.plane, "apply", "--filename=-", stdin=CRDS)
    users(*reused)
    assert users.uid() == uid

    users(*reused, "--set=crds.install=true", "--take-ownership", *users.forced)
    users("uninstall")
    assert users.uid() == uid


def test_a_release_beside_crds_yaml_does_not_take_the_kind_unless_it_is_told(users: Helm) -> None:
    kubectl(users.plane, "apply", "--filename=-", stdin=CRDS)
    uid = users.uid()

    with pytest.raises(HelmError, match="invalid ownership metadata"):
        users.install()

    users("upgrade", CHART, "--install", "--create-namespace", WITHOUT)
    users("uninstall")
    assert users.uid() == uid


def test_kubectl_prunes_no_kind_that_is_no_longer_applied(plane: ControlPlane) -> None:
    manifests = [m for m in render() if m["kind"] != "Pod"]  # without that of `helm test`
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    ours = f"--selector=app.kubernetes.io/name={CHART.name}"
    kubectl(plane, "apply", "--filename=-", stdin=[home, *manifests])
    uid = Helm(plane, "helm3").uid()
    rest = [m for m in manifests if not m["metadata"]["name"].startswith(CRD)]
    rest = [m for m in rest if m["kind"] != "Service"]

    said = kubectl(plane, "apply", "--prune", ours, "--filename=-", stdin=rest)

    assert f"service/{FULLNAME}-metrics pruned" in said
    assert Helm(plane, "helm3").uid() == uid
    # It deletes what one names to it, whatever annotations there are: docs/install.md says so.
    crds = "--prune-allowlist=apiextensions.k8s.io/v1/CustomResourceDefinition"
    command = ("apply", "--prune", crds, ours, "--dry-run=server", "--filename=-")
    assert f"{CRD} pruned (server dry run)" in kubectl(plane, *command, stdin=rest)
    kubectl(plane, "delete", "--ignore-not-found", "--filename=-", stdin=manifests)


def test_j6_a_second_installation_over_the_same_namespaces_is_told_of_the_first(
    plane: ControlPlane,
) -> None:
    config = ("--kubeconfig", plane.kubeconfig(ADMIN))

    def install(release: str, *options: str) -> str:
        where = ("--namespace", release, "--create-namespace", *config)
        return helm("install", release, CHART, *where, WITHOUT, *options)

    group, name = "rbac.authorization.k8s.io", f"{CHART.name}.v0.1.0-abc"
    by_olm = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"olm.owner": f"{CHART.name}.v0.1.0"}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": CHART.name, "namespace": "olm"}],
    }
    warning = f"another {CHART.name}, installed in the namespace {{}}, serves"

    assert "WARNING" not in install("first")
    second = install("second")
    kubectl(plane, "create", "-f", "-", stdin=[by_olm])
    third = install("third", "--set=watchNamespaceSelector=a=b")
    apart = install("apart", "--set=watchNamespaces={apart}")

    assert warning.format("first") in second
    assert second.count("WARNING") == 1
    others = ("first", "second", "olm")
    assert [other for other in others if warning.format(other) in third] == [*others]
    assert "WARNING" not in apart
    for release in ("apart", "third", "second", "first"):
        helm("uninstall", release, "--namespace", release, *config)
    kubectl(plane, "delete", "clusterrolebinding", name)
