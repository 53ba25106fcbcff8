"""Images of Debian packages, which stand in for public ones and are similar where it matters.

They are the base images of the operator's image, BusyBox, the registry, and what PROJECT names
Debian packages for. Used by `kopf_offline.entry`.
"""

import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kopf_kit.rig import dockerfiles, engine, paths, public_images, registry, tools, versions
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import Step, step
from kopf_offline.rootfs import RootFs

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

_REGISTRY_CONFIG = """\
version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: /var/lib/registry}
  delete: {enabled: true}
http: {addr: ":5000"}
"""

# Debian's own configuration asks for a password.
_REGISTRY = RootFs(
    name="registry",
    suite=versions.DEBIAN_IMAGES,
    packages=("base-files", "docker-registry"),
    hooks=(
        f"printf %s '{_REGISTRY_CONFIG}' >\"$1/etc/docker/registry/config.yml\"",
        'install -d -m 1777 "$1/tmp"',
    ),
)

#: Each image that is always made of the same: by its name here, or as a public one.
_OURS: Mapping[str, tuple[RootFs, Sequence[str]]] = {
    "python-build": (_BUILD, ("ENV LANG=C.UTF-8", 'CMD ["python3"]')),
    "python-runtime": (_RUNTIME, _RUNTIME_SETTINGS),
    "registry": (
        _REGISTRY,
        (
            'CMD ["/usr/bin/docker-registry", "serve", "/etc/docker/registry/config.yml"]',
            "VOLUME /var/lib/registry",
        ),
    ),
    public_images.BUSYBOX: (_BUSYBOX, ('CMD ["sh"]',)),
}


def image(name: str, packages: Sequence[str], targets: Sequence[str]) -> str:
    """Return the name of an image, see `kopf_offline.entry.image`."""
    root, settings = _recipe(name, packages)
    repository = root.name.removesuffix("-base")
    if targets:
        # What the operator's image is built on has to run here, too.
        wanted = sorted({dockerfiles.host(), *targets}) if root == _RUNTIME else targets
        return _index(repository, {each: _of(root, each) for each in wanted}, settings)
    plain = root.image(f"{paths.prefix()}/{repository}", *settings)
    return _with_certificates(plain) if root == _BUILD else plain


def _recipe(name: str, packages: Sequence[str]) -> tuple[RootFs, Sequence[str]]:
    """Return what an image is made of; raise KitError if a public one has no substitute."""
    if name in _OURS:
        return _OURS[name]
    if packages:
        repository = name.rpartition("/")[2].partition(":")[0]
        hooks = ('install -d -m 1777 "$1/tmp"', _USERS, _NO_DOCS)
        root = RootFs(repository, versions.DEBIAN_IMAGES, ("base-files", *packages), hooks=hooks)
        return root, [f'CMD ["{repository}"]']
    raise KitError(
        f"{name} cannot be pulled; to have it built here, list the Debian `packages` of that image "
        "in PROJECT"
    )


def _of(root: RootFs, name: str) -> RootFs:
    """Return a root file system for a platform.

    If its BusyBox cannot run here, ours provides the names of its commands.
    """
    if name == dockerfiles.host():
        return root
    architecture = dockerfiles.architecture(name)
    hooks = tuple(_name_commands() if hook == _INSTALL_BUSYBOX else hook for hook in root.hooks)
    return replace(root, name=f"{root.name}-{architecture}", architecture=architecture, hooks=hooks)


def _name_commands() -> str:
    """Return the hook that links a BusyBox under the names of our own one's commands."""
    with tarfile.open(_BUSYBOX.tar()) as ours:
        links = [Path(entry.name).name for entry in ours if entry.linkname == "/bin/busybox"]
    return f'for name in {" ".join(links)}; do ln -sf /bin/busybox "$1/bin/$name"; done'


def _index(repository: str, roots: Mapping[str, RootFs], settings: Sequence[str]) -> str:
    """Push one index of root file systems for platforms to the local registry; return its name."""
    recipe = tools.digest(*(root.recipe for root in roots.values()), *settings)
    tag = f"{paths.prefix()}/{repository}:{versions.DEBIAN_IMAGES}-{recipe}"
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
    for root, _ in _OURS.values():
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
    name = f"{image}-{tools.digest(bundle)}"
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
