"""The base images of the operator's image, and BusyBox for Pods.

If an image registry can be reached, these are public images. Otherwise they are built from Debian
packages, and are similar where it matters. Used by `kopf_kit.pack.image`, and by everything that
runs BusyBox in Pods: the demo, the end-to-end tests, OLM.
"""

import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kopf_kit.rig import (
    cache,
    dockerfiles,
    engine,
    names,
    platforms,
    public_images,
    registry,
    versions,
)
from kopf_kit.rig.debian import RootFs
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import Step, step

_NO_DOCS = (
    'rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/info "$1"/usr/share/locale '
    '"$1"/usr/share/lintian'
)
_USERS = (
    "printf 'root:x:0:0:root:/root:/sbin/nologin\\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\\n"
    'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\\n\' >"$1/etc/passwd"; '
    "printf 'root:x:0:\\nnobody:x:65534:\\nnonroot:x:65532:\\n' >\"$1/etc/group\""
)

# The packages are only unpacked: what their scripts would do, as far as it is needed.
_CERTIFICATES = (
    'cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"'
)

#: Stands in for the Dockerfile's default base to build on: Python with pip, and a shell.
_BUILD = RootFs(
    name="python-build-base",
    suite=versions.DEBIAN_IMAGES,
    packages=(
        *("base-files", "dash", "coreutils", "findutils", "ca-certificates"),
        *("python3", "python3-pip"),
    ),
    hooks=(
        _CERTIFICATES,
        _USERS,
        # As in the public image: `python` is there, and pip may install beside it.
        'ln -sf python3 "$1/usr/bin/python"; rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        _NO_DOCS,
    ),
)

#: Stands in for the Dockerfile's default base to run on: Python, and next to nothing else.
_RUNTIME = RootFs(
    name="python-runtime-base",
    suite=versions.DEBIAN_IMAGES,
    packages=(
        *("base-files", "netbase", "tzdata", "ca-certificates"),
        *("python3-minimal", "libpython3-stdlib"),
    ),
    hooks=(
        # No shell came with these packages, and no other program but Python shall stay.
        'find "$1/usr/bin" "$1/usr/sbin" "$1/usr/libexec" ! -type d ! -name "python3*" -delete',
        'ln -sf python3 "$1/usr/bin/python"',
        'rm -rf "$1"/usr/share/perl* "$1"/usr/lib/*/perl*',
        _CERTIFICATES,
        'install -d -o 65532 -g 65532 -m 700 "$1/home/nonroot"; install -d -m 1777 "$1/tmp"',
        _USERS,
        _NO_DOCS,
    ),
)
_RUNTIME_SETTINGS = (
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8",
    "USER 65532",
    "WORKDIR /home/nonroot",
    'ENTRYPOINT ["/usr/bin/python3"]',
)

_INSTALL_BUSYBOX = 'chroot "$1" /bin/busybox --install -s /bin'
_BUSYBOX = RootFs(
    name="busybox",
    suite=versions.DEBIAN_IMAGES,
    packages=("busybox-static",),
    hooks=(
        'mv "$1/usr/bin" "$1/bin"; rm -rf "$1/usr"',
        _INSTALL_BUSYBOX,
        'mkdir -p "$1/etc" "$1/root" "$1/home"; install -d -m 1777 "$1/tmp"',
        _USERS,
    ),
)
_SHELL = 'CMD ["sh"]'


def python(targets: Sequence[str] = ()) -> tuple[str, str]:
    """Return the names of the base images for building and for running the operator.

    The second is for this machine only, or for this machine and the named platforms.
    """
    if targets:
        roots = {name: _of(_RUNTIME, name) for name in sorted({platforms.host(), *targets})}
        runtime = _index("python-runtime", roots, _RUNTIME_SETTINGS)
    else:
        name = f"{names.prefix()}/python-runtime"
        runtime = engine.import_image(name, _RUNTIME, *_RUNTIME_SETTINGS)
    name = f"{names.prefix()}/python-build"
    plain = engine.import_image(name, _BUILD, "ENV LANG=C.UTF-8", 'CMD ["python3"]')
    return _with_certificates(plain), runtime


def busybox() -> str:
    """Make sure that the local registry has BusyBox; return the image's name."""
    return publish(public_images.BUSYBOX)


def publish(reference: str, packages: Sequence[str] = ()) -> str:
    """Make sure that the local registry has a public image, see `copy`; return its name there."""
    tag = reference.rpartition("/")[2]
    name = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        copy(reference, name, packages)
    return name


def copy(
    reference: str, name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()
) -> None:
    """Push a public image under another name: for this machine, or as an index of platforms.

    If it cannot be pulled, it is built from these Debian packages; BusyBox needs none.
    """
    public = public_images.are_in_reach()
    with step(f"Push {name}") as work:
        if public and targets:
            listed = dockerfiles.listed(reference)
            for each, tag in platforms.images(name, targets).items():
                work.run(["docker", "pull", "--platform", each, listed[each]], timeout=600)
                engine.docker("tag", listed[each], tag)
        elif public:
            engine.docker("tag", public_images.pull(reference), name)
        elif targets:
            root, command = _stand_in(reference, packages)
            _build(work, name, {each: _of(root, each) for each in targets}, [command])
        else:
            root, command = _stand_in(reference, packages)
            plain = engine.import_image(f"{names.prefix()}/{root.name}", root, command)
            engine.docker("tag", plain, name)
        dockerfiles.push(work, name, targets)


def _stand_in(reference: str, packages: Sequence[str]) -> tuple[RootFs, str]:
    """Return an image's substitute and its command; raise HackError if there is none."""
    if reference == public_images.BUSYBOX:
        return _BUSYBOX, _SHELL
    if packages:
        repository = reference.rpartition("/")[2].partition(":")[0]
        hooks = ('install -d -m 1777 "$1/tmp"', _USERS, _NO_DOCS)
        root = RootFs(repository, versions.DEBIAN_IMAGES, ("base-files", *packages), hooks=hooks)
        return root, f'CMD ["{repository}"]'
    raise HackError(
        f"{reference} cannot be pulled; name in PROJECT the Debian `packages` of that image, so "
        "that it is made here"
    )


def busybox_for(targets: Sequence[str]) -> str:
    """Return the name of BusyBox for platforms, as an index."""
    if public_images.are_in_reach():
        return public_images.BUSYBOX
    return _index("busybox", {name: _of(_BUSYBOX, name) for name in targets}, [_SHELL])


def _of(root: RootFs, name: str) -> RootFs:
    """Return a root file system for a platform.

    If its BusyBox cannot run here, ours provides the names of its commands.
    """
    if name == platforms.host():
        return root
    architecture = platforms.architecture(name)
    hooks = tuple(_name_commands() if hook == _INSTALL_BUSYBOX else hook for hook in root.hooks)
    return replace(root, name=f"{root.name}-{architecture}", architecture=architecture, hooks=hooks)


def _name_commands() -> str:
    """Return the hook that links a BusyBox under the names of our own one's commands."""
    with tarfile.open(_BUSYBOX.tar()) as ours:
        links = [Path(entry.name).name for entry in ours if entry.linkname == "/bin/busybox"]
    return f'for name in {" ".join(links)}; do ln -sf /bin/busybox "$1/bin/$name"; done'


def _index(repository: str, roots: Mapping[str, RootFs], settings: Sequence[str]) -> str:
    """Push one index of root file systems for platforms to the local registry; return its name."""
    recipe = cache.digest(*(root.recipe for root in roots.values()), *settings)
    tag = f"{names.prefix()}/{repository}:{versions.DEBIAN_IMAGES}-{recipe}"
    reference = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        with step(f"{repository} for {', '.join(roots)}") as work:
            _build(work, reference, roots, settings)
            dockerfiles.push(work, reference, list(roots))
    return reference


def _build(
    work: Step, reference: str, roots: Mapping[str, RootFs], settings: Sequence[str]
) -> None:
    """Build an image of the root file system of each platform."""
    dockerfile = "\n".join(["FROM scratch", "ADD rootfs.tar /", *settings, ""]).encode()
    for name, root in roots.items():
        dockerfiles.build(work, reference, root.tar().parent, dockerfile, [name])


def fetch_packages() -> None:
    """Build the root file systems, which mostly waits for the Debian mirror."""
    for root in (_BUILD, _RUNTIME, _BUSYBOX):
        root.tar()


def _with_certificates(image: str) -> str:
    """Return the image with this machine's certificate authorities, for pip.

    A machine without an image registry often reaches the package index through a proxy, whose
    authority only this machine knows. They are only in the image for building, never in a shipped
    one.
    """
    bundle = certificates()
    if bundle is None:
        return image
    inside = "/etc/ssl/certs/ca-certificates.crt"
    name = f"{image}-{cache.digest(bundle)}"
    if not engine.has_image(name):
        container = engine.docker("create", image).strip()
        try:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "ca-certificates.crt"
                copy.write_bytes(bundle)
                copy.chmod(0o644)
                engine.docker("cp", copy, f"{container}:{inside}")
            setting = f"ENV PIP_CERT={inside} SSL_CERT_FILE={inside}"
            engine.docker("commit", "--change", setting, container, name)
        finally:
            engine.remove_container(container)
    return name


def certificates() -> bytes | None:
    """Return the certificate authorities that this machine trusts, as PEM."""
    places = [os.environ.get(name) for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    for place in (*places, "/etc/ssl/certs/ca-certificates.crt"):
        if place and Path(place).is_file():
            return Path(place).read_bytes()
    return None
