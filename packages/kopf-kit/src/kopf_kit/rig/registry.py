"""The image registry beside the cluster, which has one address here and in the nodes.

Images, charts and bundles are therefore pulled as users pull them, not loaded into the node. Used
by `kopf_kit.rig.cluster`, `kopf_kit.pack.image` and `kopf_kit.rig.base_images`.
"""

import contextlib
import json
import time
import urllib.error
import urllib.request
import zlib
from http.client import HTTPMessage

from kopf_kit.rig import cache, engine, names, offline, public_images, versions
from kopf_kit.rig.run import HackError, answer, tail
from kopf_kit.rig.steps import step


def port(operator: str) -> int:
    """Return the port of an operator's registry, unless its PROJECT says `registryPort`.

    Each has a port of its own, so that the registries of several can run on one machine.
    """
    return 5100 + zlib.crc32(operator.encode()) % 900


NAME = names.registry()
PORT = names.registry_port() or port(names.prefix())
ADDRESS = f"localhost:{PORT}"
_NETWORK = "kind"

# Tells containerd, in a node, where that address really is: Docker resolves the name.
_HOSTS = f'[host."http://{NAME}:5000"]\n'


def up() -> None:
    """Make sure that the registry runs and answers; fast if it does."""
    engine.up()
    if _running() and _answers():
        return
    with cache.lock("registry-container"):
        if _running() and _answers():
            return
        reference = image()
        with step(f"Registry on {ADDRESS}") as work:
            engine.remove_container(NAME)
            network = ["--network", _NETWORK] if _has_network() else []
            work.run(
                [
                    *("docker", "run", "-d", "--name", NAME, "--restart", "always", *network),
                    *("-p", f"127.0.0.1:{PORT}:5000", reference),
                ],
                timeout=300,
            )
            if _answers():
                return
            log = answer(["sh", "-c", f"docker logs --tail 20 {NAME} 2>&1"]) or "it is empty"
            raise HackError(f"it does not answer; its log ends:\n{tail(log)}")


def join(node: str, host: str = ADDRESS) -> None:
    """Let a node of the cluster pull from the registry, also instead of another `host`."""
    networks = engine.docker(
        "container", "inspect", "-f", "{{json .NetworkSettings.Networks}}", NAME
    )
    if _NETWORK not in json.loads(networks):
        engine.docker("network", "connect", _NETWORK, NAME)
    folder = f"/etc/containerd/certs.d/{host}"
    script = f"mkdir -p {folder} && cat >{folder}/hosts.toml"
    engine.docker("exec", "-i", node, "sh", "-c", script, stdin=_HOSTS.encode())


def address() -> str:
    """Return the registry's address on kind's network, for programs without Docker's DNS."""
    form = f'{{{{(index .NetworkSettings.Networks "{_NETWORK}").IPAddress}}}}'
    return engine.docker("container", "inspect", "-f", form, NAME).strip()


def is_local(name: str) -> bool:
    """Return whether the name of an image, or of a folder of images, is in this registry."""
    return name.partition("/")[0] == ADDRESS


def down() -> None:
    """Remove the registry with all its contents."""
    engine.remove_container(NAME)


def has(image: str) -> bool:
    """Return whether the registry has an image, such as `busybox:1.37`."""
    return digest(image) is not None


def digest(image: str) -> str | None:
    """Return the digest of an image or a chart, or None if it does not exist.

    Raise HackError if the registry's answer contains no digest.
    """
    name, _, tag = image.partition(":")
    try:
        return _get(f"v2/{name}/manifests/{tag}")["Docker-Content-Digest"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise HackError(
            f"the registry on {ADDRESS} cannot say whether it has {image}: {error}"
        ) from error
    except OSError as error:
        raise HackError(
            f"the registry on {ADDRESS} does not answer ({error}); `kopf-kit cluster up` starts "
            f"it, and `docker logs {NAME}` shows why it stopped"
        ) from error


def image() -> str:
    """Return the registry's image; pull or build it if it is missing."""
    if public_images.are_in_reach():
        return public_images.pull(f"docker.io/library/registry:{versions.REGISTRY}")
    return offline.builder("the registry's image cannot be pulled:").image("registry")


def _has_network() -> bool:
    """Return whether kind's network exists: the first cluster creates it."""
    return answer(["docker", "network", "inspect", _NETWORK]) is not None


def _running() -> bool:
    return engine.container(NAME, "{{.State.Running}}") == "true"


def _answers() -> bool:
    """Return whether the registry answers on its published port, within some time."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            _get("v2/")
            return True
        time.sleep(0.2)
    return False


def _get(path: str) -> HTTPMessage:
    """Return the headers of an answer; raise OSError for an error status or no answer."""
    kinds = (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/{path}", headers={"Accept": ", ".join(kinds)}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        headers: HTTPMessage = response.headers
        return headers
