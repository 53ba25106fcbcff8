"""The kind node's image, made from Debian packages and Go modules.

It stands in for kind's own where no image registry is reached. It is what kind expects of a node,
and no more: systemd, containerd, the kubelet and kubeadm, and the images of the control plane
already imported. The files in kopf_offline/node/ are copied into it.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig import engine, paths, preflight, public_images, versions
from kopf_kit.rig import tools as rig_tools
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import Step, say, step, together
from kopf_offline import archive, golang, images
from kopf_offline.rootfs import RootFs

_NAME = f"{paths.prefix()}/node"

_BASE = RootFs(
    name="node-base",
    suite=versions.DEBIAN_NODE,
    variant="essential",
    packages=(
        *("systemd", "systemd-sysv", "dbus", "udev"),
        *("containerd", "runc", "containernetworking-plugins"),
        *("iptables", "conntrack", "iproute2", "ethtool", "socat", "kmod"),
        *("mount", "procps", "util-linux", "ca-certificates"),
    ),
)

# iptables comes with scripts that choose between its two kinds; unpacked only, it needs links.
_PROXY_BASE = RootFs(
    name="kube-proxy-base",
    suite=versions.DEBIAN_NODE,
    packages=("iptables", "conntrack", "kmod"),
    hooks=(
        "for name in iptables iptables-save iptables-restore ip6tables ip6tables-save"
        ' ip6tables-restore; do ln -sf xtables-nft-multi "$1/usr/sbin/$name"; done',
    ),
)

#: What is on the node, and in its images.
PROGRAMS = ("kubernetes", "kubectl", "etcd", "coredns", "pause")


def reference() -> str:
    """Return the name of the image that belongs to the present recipe."""
    recipe = rig_tools.digest(
        _BASE.recipe,
        _PROXY_BASE.recipe,
        golang.recipe("kubernetes"),
        golang.RECIPES / "node",
        Path(__file__),
        Path(archive.__file__),
    )
    return f"{_NAME}:{versions.KUBERNETES}-{recipe}"


def make(tools: Sequence[str]) -> str:
    """Return the name of the node image, built where the engine does not have it.

    Then the tools are built, too, at the same time as the programs of the node.
    """
    name = reference()
    if engine.has_image(name):
        return name
    preflight.check(preflight.ROOM)
    say(
        "    all images are built here instead, from Debian packages and Go modules: "
        f"{public_images.BUILD_TIME} on two processors, once"
    )
    golang.go()
    together(lambda: golang.programs([*tools, *PROGRAMS]), _fetch_packages)
    with rig_tools.lock("node-image"):
        if not engine.has_image(name):
            _make(name)
            _remove_others(name)
    return name


def _fetch_packages() -> None:
    """Make the root file systems, those of the other images, too; waits for the Debian mirror."""
    _BASE.tar()
    _PROXY_BASE.tar()
    images.fetch_packages()


def _remove_others(name: str) -> None:
    """Remove the images of former recipes, a gigabyte each; one that is in use stays."""
    listed = engine.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", _NAME)
    for other in listed.split():
        if other != name:
            answer(["docker", "image", "rm", other])


def _make(name: str) -> None:
    """Make the image: fill a container, and keep it."""
    images = _control_plane(golang.program("kubeadm"))
    base = _BASE.image(f"{_NAME}-base")
    container = f"{paths.prefix()}-node-build"
    entrypoint = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
    change = ("--change", "ENV container=docker", "--change", "CMD []", "--change", entrypoint)
    with step(f"Node image for Kubernetes {versions.KUBERNETES}") as work:
        engine.remove_container(container)
        try:
            # Privileged, for containerd to run in it; the signal, systemd's, goes with the image.
            run = ("docker", "run", "-d", "--privileged", "--stop-signal", "SIGRTMIN+3")
            work.run([*run, "--name", container, base, "sleep", "1h"], timeout=120)
            _fill(work, container, images)
            work.run(["docker", "commit", *change, container, name], timeout=300)
        finally:
            engine.remove_container(container)


def _fill(work: Step, container: str, images: list[archive.Image]) -> None:
    """Copy programs and files into the container, and let it import the control plane."""
    for name in ("kubernetes", "kubectl"):
        work.run(["docker", "cp", golang.program(name), f"{container}:/usr/bin/"], timeout=120)
    for part in ("etc", "kind", "usr"):
        files = f"{golang.RECIPES}/node/{part}/."
        work.run(["docker", "cp", files, f"{container}:/{part}"], timeout=60)
    pause = next(image.reference for image in images if image.program.name == "pause")
    settings = ("-e", f"PAUSE={pause}", "-e", f"KUBERNETES={versions.KUBERNETES}")
    with tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".node-image.") as folder:
        control_plane = Path(folder) / "images.tar"
        archive.write(control_plane, images)
        work.run(
            ["docker", "exec", "-i", *settings, container, "/kind/setup"],
            timeout=300,
            stdin=control_plane,
        )


def _control_plane(kubeadm: Path) -> list[archive.Image]:
    """Return the images that kubeadm will ask for, by the names it knows them by."""
    wanted = output(
        [kubeadm, "config", "images", "list", "--kubernetes-version", versions.KUBERNETES]
    ).split()
    return [_image(name) for name in wanted]


def _image(reference: str) -> archive.Image:
    program = reference.rpartition(":")[0].rpartition("/")[2]
    if program in golang.KUBERNETES:
        return archive.Image(
            reference,
            golang.program("kubernetes"),
            links=golang.KUBERNETES,
            base=_PROXY_BASE.tar() if program == "kube-proxy" else None,
        )
    if program not in PROGRAMS:
        raise KitError(
            f"kubeadm needs the image {reference}, which kopf_offline/node_image.py does not "
            "build; add it there"
        )
    return archive.Image(
        reference, golang.program(program), entrypoint=program in ("pause", "coredns")
    )
