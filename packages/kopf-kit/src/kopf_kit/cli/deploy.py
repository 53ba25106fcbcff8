"""`kopf-kit deploy`, `undeploy`, `run` and `plugin`: the operator here or in the cluster."""

import base64
import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kopf_kit.cli import crd
from kopf_kit.cli.crd import NAMESPACE, RELEASE
from kopf_kit.image.build import check_given
from kopf_kit.program import passing_on
from kopf_kit.project import documents, granted, nested, registered, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import artifacts, packed
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import dockerfiles, paths, tools
from kopf_kit.rig import kind as rig_kind
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import Argument, KitError, answer, output
from kopf_kit.rig.steps import Step, say, step

_TIMEOUT = "3m"


@click.command()
def deploy_command() -> None:
    """Install the operator by Helm: from IMG, or else from the image that is built here."""
    check_given("IMG")
    cluster = clusters.up()
    install(cluster)
    kind = PROJECT.kinds[0].kind
    sample = PROJECT.samples[kind][0].relative_to(paths.CHECKOUT)
    say(
        f"The operator runs in the namespace {NAMESPACE}. Create a first {kind}:\n"
        f"  {cluster.export}\n  kubectl apply -f {sample}"
    )


@click.command()
def undeploy_command() -> None:  # noqa: D103 (the program has its help)
    undeploy()


def install(cluster: Cluster, *options: str) -> None:
    """Install the operator by Helm, or upgrade it, with these options; wait until it is ready."""
    crd.refuse_others(cluster, f"two would act on the same {PROJECT.many}")
    crd.wait_while_deleted(cluster)
    if (owner := crd.release(cluster)) not in ("", f"{NAMESPACE}/{RELEASE}"):
        say(
            f"note: the CRD {crd.NAMES} is marked as part of the Helm release {owner}; it becomes "
            f"part of {NAMESPACE}/{RELEASE}, which upgrades it from now on."
        )
    if PROJECT.converted:
        crd.redirect(cluster)
    published = artifacts.publish_installation(cluster)
    if PROJECT.adopted and not cluster.existing:  # where its roles are, besides its own namespace
        for name in {*PROJECT.adopted.watch_namespaces} - {granted.OWN}:
            answer([*cluster.kubectl_command, "create", "namespace", name])
    with step("The operator, by Helm") as work:
        if _is_half_done(cluster):
            # Helm refuses to touch a release that an interrupted run left. The CRD is kept.
            work.run(_helm_uninstall(cluster), timeout=240)
        own = [*_helm_upgrade(cluster, published), *_certificate(cluster, work)]
        work.run([*own, *options], timeout=240)


def undeploy() -> None:
    """Run `kopf-kit undeploy`: the CRD and its objects stay."""
    cluster = clusters.find()
    if cluster is None:
        return
    with step("The operator's release: uninstall") as work:
        work.run(_helm_uninstall(cluster), timeout=240)
    for other in crd.others(cluster):
        say(f"note: the operator {other} still runs; `kopf-kit deploy` did not install it.")
    if crd.is_there(cluster):
        say(f"The {PROJECT.many} and their CRD are still there; `kopf-kit uninstall` deletes all.")


# --- Helm -------------------------------------------------------------------------------------


def _helm_upgrade(cluster: Cluster, published: Published) -> list[Argument]:
    return [
        *(*cluster.helm_command, "upgrade", "--install", RELEASE, published.chart),
        *("--namespace", NAMESPACE, "--create-namespace"),
        *("--wait", "--timeout", _TIMEOUT, "--reset-values"),
        "--take-ownership",  # of a CRD that `kopf-kit install` or a former release put there
        # Helm 4 applies on the server, which tells its fields from those of `kopf-kit install`.
        *(["--force-conflicts"] if _is_helm_4(cluster) else []),
        *published.options,
    ]


def _certificate(cluster: Cluster, work: Step) -> list[Argument]:
    """Return the options with a certificate for webhooks; no cert-manager is in a kind cluster."""
    if cluster.existing or not any(webhook.handler for webhook in registered.of(PROJECT)):
        return []
    name = f"{RELEASE}-webhook"
    kubectl = [*cluster.kubectl_command, "-n", NAMESPACE]
    shown = [*kubectl, "get", "secret", name, "-o", "jsonpath={.data.tls\\.crt}"]
    if not answer(shown):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        made = [namespace, rig_kind.secret(name, NAMESPACE, name, work)]
        work.run([*kubectl, "apply", "-f", "-"], timeout=60, stdin=documents.text(*made).encode())
    bundle = base64.b64decode(output(shown)).decode()
    webhooks = {"certificate": "secret", "secretName": name, "caBundle": bundle}
    return ["--set-json", f"webhooks={json.dumps(webhooks)}"]


def _helm_uninstall(cluster: Cluster) -> list[Argument]:
    return [
        *(*cluster.helm_command, "uninstall", RELEASE, "--namespace", NAMESPACE),
        *("--ignore-not-found", "--wait", "--timeout", _TIMEOUT),
    ]


def _is_helm_4(cluster: Cluster) -> bool:
    return tools.fits("helm4", output([cluster.helm, "version", "--short"]))


def _is_half_done(cluster: Cluster) -> bool:
    """Return whether a Helm command was interrupted while it worked on the release."""
    states = ("--pending", "--uninstalling")
    half_done = output([*cluster.helm_command, "list", "-n", NAMESPACE, *states, "--short"])
    return RELEASE in half_done.split()


def run(arguments: list[str]) -> None:
    """Replace this process with the operator, which works on the cluster from this machine.

    An operator in the cluster is not stopped; both then act on the same objects.
    """
    cluster = clusters.up()
    options, environment = _settings(cluster, arguments)
    client = None
    if "--dry-run" not in arguments:  # which writes nothing
        if PROJECT.converted:
            client, answering = _converting(cluster)
            options = [*answering, *options]
        crd.install(cluster, client)
    for operator in crd.operators(cluster):
        say(f"note: the operator {operator} also runs, and both act on the same {PROJECT.many}.")
    if not cluster.existing:
        say(f"In another terminal: {cluster.export}")
    say("==> The operator runs here; press Ctrl-C to stop it")
    command = [sys.executable, *PROJECT.command[1:], *options]
    if PROJECT.adopted:
        command[0] = str(registered.python(PROJECT.root))
        if not PROJECT.adopted.command:
            command[1:3] = ["-c", registered.program(PROJECT)]
        command += [] if arguments else ["--all-namespaces"]
    os.execve(command[0], command, environment)  # noqa: S606 (so that signals reach it)


def _converting(cluster: Cluster) -> tuple[dict[str, str], Sequence[str]]:
    """Return where the API server has objects converted here, and the options for that."""
    for operator in crd.operators(cluster):
        raise KitError(
            f"the operator {operator} converts {PROJECT.many} between their versions, and only one "
            "can; run `kopf-kit undeploy` first"
        )
    try:
        host = clusters.address_here(cluster)
    except KitError as error:
        raise KitError(
            f"the API server has the operator convert {PROJECT.many} between their versions, but "
            f"{error}; use `kopf-kit deploy`"
        ) from error
    with step("A certificate for conversions") as work, socket.socket() as free:
        free.bind((host, 0))
        address = f"{host}:{free.getsockname()[1]}"
        folder = PROJECT.built / "webhook"
        folder.mkdir(0o700, parents=True, exist_ok=True)
        parts = rig_kind.certificate(f"IP:{host}", host, work)
        for name, text in zip(("tls.key", "tls.crt"), parts, strict=True):
            (folder / name).write_text(text)
    authority = base64.b64encode(parts[1].encode()).decode()
    client = {"url": f"https://{address}/convert", "caBundle": authority}
    return client, (f"--webhook-bind-address={address}", f"--webhook-cert-path={folder}")


def _settings(cluster: Cluster, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the options and the environment of the operator on this machine."""
    options = []
    if cluster.registry is not None and PROJECT.images:
        nested.ensure(PROJECT)
        public = releases.current().pod_images
        options = [
            f"--{image.flag}={dockerfiles.publish(public[image.name], image.packages)}"
            for image in PROJECT.images
        ]
    # The program of `registered.program` looks into the folder of an adopted one's handlers.
    ours = "" if PROJECT.adopted and not PROJECT.adopted.command else str(PROJECT.sources)
    search = (ours, os.environ.get("PYTHONPATH", ""))
    environment = {
        # Of what the API server asks, only conversions are asked on this machine.
        f"{PROJECT.variables}WEBHOOK_BIND_ADDRESS": "0",
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
    }
    return [*options, *arguments], environment


run_command = passing_on(run, "OPERATOR'S OPTIONS")


#: The folder of a user's programs in systemd's file hierarchy; most distributions add it to PATH.
HOME = Path(".local") / "bin"


@click.command()
def plugin_command() -> None:  # noqa: D103 (the program has its help)
    folder = (paths.BUILD if PROJECT.is_the_checkouts else PROJECT.built) / "plugin"
    packed.write(folder)
    print(f"{folder.relative_to(paths.CHECKOUT)}/ has {packed.PROGRAM}")
    installed = install_plugin(folder / packed.PROGRAM)
    print(f"{installed} is installed")
    if (on_path := shutil.which(packed.PROGRAM)) is not None and Path(on_path) == installed:
        print(f"Try it: kubectl {packed.COMMAND} --help")
        return
    print("kubectl finds plugins on the PATH, and it is not there yet. Put this into ~/.profile:")
    print(f'  export PATH="{installed.parent}:$PATH"')


def install_plugin(program: Path) -> Path:
    """Copy the program to the folder of the user's programs; return the copy's path.

    If it is already on the PATH, it is replaced. Raise KitError if the folder is not writable.
    """
    former = shutil.which(packed.PROGRAM)
    folder = Path(former).parent if former else Path.home() / HOME
    if not os.access(folder, os.W_OK):
        folder = Path.home() / HOME
    target = folder / packed.PROGRAM
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        shutil.copy2(program, fresh)
        fresh.replace(target)  # in one step: it may be running
    except OSError as error:
        raise KitError(
            f"cannot write {target}: {error.strerror}; copy {program} to a folder on the PATH"
        ) from error
    return target
