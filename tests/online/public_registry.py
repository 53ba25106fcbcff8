"""A registry that has, under their public names, the images that a newcomer's machine asks for.

They are those that the project's tools build where no registry is in reach, so that a test can
tell what is pulled from what is built. kind asks for its node image by digest; the kind of the
test therefore is one whose digest is that of the node image here.
"""

import json
import re
import tempfile
import time
from pathlib import Path

from kopf_kit.image import build
from kopf_kit.rig import dockerfiles, engine, registry, versions
from kopf_kit.rig.run import KitError, answer, output
from kopf_offline import golang, node_image
from tests.online import machine

#: Where the engine looks for docker.io, and the registry of the Dockerfile's other base.
NAMES = ("registry-1.docker.io", "gcr.io")
_FOLDER = "/front"
_NODE_NAME = "message-operator/online-node"
_KIND_IMAGE = re.compile(rb"(?P<name>kindest/node:v[\d.]+)@sha256:(?P<digest>[0-9a-f]{64})")

# What kind expects of a node image, and the project's own has no use for.
_NODE = """\
FROM {base}
COPY --chmod=0755 entrypoint /usr/local/bin/entrypoint
COPY --chmod=0644 default-cni.yaml /kind/manifests/default-cni.yaml
"""
_CNI = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: the-node-image-brings-its-own-cni, namespace: kube-system}
"""


class PublicRegistry:
    """The registry and its front door, on a network of their own."""

    def __init__(self, network: str) -> None:
        self.network = network
        self._store, self._front = f"{network}-store", f"{network}-front"
        #: A kind that asks for the node image here, by its digest; there once this is filled.
        self.kind = b""

    def start(self) -> None:
        """Start both; the registry is empty."""
        self.remove()
        engine.docker("network", "create", self.network)
        engine.docker(
            *("run", "-d", "--name", self._store, "--network", self.network),
            *("-p", "127.0.0.1::5000", registry.image()),
        )
        engine.docker(
            *("create", "--name", self._front, "--network", self.network),
            *(f"--network-alias={name}" for name in NAMES),
            *(machine.image(), "python3", f"{_FOLDER}/front.py", _FOLDER),
            *(f"{self._store}:5000", *NAMES),
        )
        program = Path(__file__).with_name("front.py").read_bytes()
        machine.write(self._front, f"{_FOLDER}/front.py", program)
        self.mood("serves")
        engine.docker("start", self._front)

    def mood(self, mood: str) -> None:
        """Have it behave in one of the ways that `front.py` tells."""
        machine.write(self._front, f"{_FOLDER}/mood", mood.encode())

    def certificate(self) -> bytes:
        """Return the certificate that machines must trust to pull from it."""
        deadline = time.monotonic() + 60
        while True:
            # The other one is made after it.
            script = f"cd {_FOLDER} && test -e untrusted.pem && cat trusted.pem"
            shown = answer(["docker", "exec", self._front, "sh", "-c", script])
            if shown:
                return shown.encode() + b"\n"
            if time.monotonic() > deadline:
                raise KitError(f"the registry's front door does not come up:\n{self.log()}")
            time.sleep(0.2)

    def fill(self) -> None:
        """Push the images."""
        self._push(dockerfiles.busybox(), f"library/busybox:{versions.BUSYBOX}")
        self._push(registry.image(), f"library/registry:{versions.REGISTRY}")
        for built, public in zip(dockerfiles.python(), build.public_bases(), strict=True):
            self._push(built, public.partition("/")[2])
        kind = golang.program("kind").read_bytes()
        asked = _KIND_IMAGE.search(kind)
        assert asked, "kind names no node image"
        digest = self._push(_node_image(), asked["name"].decode())
        engine.docker("image", "rm", _NODE_NAME)
        self.kind = kind.replace(asked["digest"], digest.encode())

    def _push(self, built: str, public: str) -> str:
        """Push an image under its public name; return its digest."""
        port = engine.docker("port", self._store, "5000").strip().rpartition(":")[2]
        name = f"127.0.0.1:{port}/{public}"
        engine.docker("tag", built, name)
        try:
            engine.docker("push", name, timeout=600)
            form = "{{json .RepoDigests}}"
            digests = json.loads(engine.docker("image", "inspect", "-f", form, name))
        finally:
            engine.docker("image", "rm", name)
        repository = name.rpartition(":")[0]
        own: str = next(digest for digest in digests if digest.startswith(f"{repository}@"))
        return own.rpartition(":")[2]

    def log(self) -> str:
        """Return what it was asked for, a line each: the name and the path."""
        return output(["sh", "-c", f"docker logs {self._front} 2>&1"])

    def remove(self) -> None:
        """Remove it with all that is in it."""
        for container in (self._front, self._store):
            engine.remove_container(container)
        answer(["docker", "network", "rm", self.network])


def _node_image() -> str:
    """Make an image that is to kind what its own are: the one built here, with kind's start."""
    module = output(
        [golang.go(), "mod", "download", "-json", "sigs.k8s.io/kind"],
        cwd=golang.PROGRAMS["kind"].folder,
        timeout=120,
    )
    entrypoint = Path(json.loads(module)["Dir"]) / "images/base/files/usr/local/bin/entrypoint"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "entrypoint").write_bytes(entrypoint.read_bytes())
        (Path(folder) / "default-cni.yaml").write_text(_CNI)
        (Path(folder) / "Dockerfile").write_text(_NODE.format(base=node_image.make([])))
        output(
            [engine.builder(), "build", "--quiet", "--tag", _NODE_NAME, folder],
            timeout=300,
            env={"DOCKER_BUILDKIT": "1"},
        )
    return _NODE_NAME
