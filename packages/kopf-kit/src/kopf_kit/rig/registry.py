"""What a registry holds, and the registry beside the cluster.

crane asks a registry for digests and files; it needs no container engine, and takes the user's
logins. The local registry has one address here and in the nodes, which pull images, charts and
bundles from it as users' nodes do: nothing is loaded into a node.
"""

import contextlib
import hashlib
import io
import json
import re
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

from kopf_kit.rig import engine, paths, public_images, tools, versions
from kopf_kit.rig.run import Argument, KitError, answer, output, tail
from kopf_kit.rig.steps import say, step

_ABSENT = re.compile(r"MANIFEST_UNKNOWN|NAME_UNKNOWN|status code 404")
_SECONDS = 300


def digest(ref: str) -> str | None:
    """Return the digest of a name in a registry; None if the registry does not have it.

    Raises KitError where the registry does not tell.
    """
    try:
        return crane("digest", ref).strip()
    except KitError as error:
        if _ABSENT.search(str(error)):
            return None
        raise


def pinned(ref: str) -> str | None:
    """Return a name with its digest in a registry; None if the registry does not have it."""
    if "@" in ref:
        return ref
    sha256 = digest(ref)
    return f"{repository(ref)}@{sha256}" if sha256 else None


def repository(ref: str) -> str:
    """Return a name without tag and digest."""
    folder, slash, name = ref.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def manifest(ref: str) -> dict[str, Any]:
    """Return a manifest, or an index."""
    content: dict[str, Any] = json.loads(crane("manifest", ref))
    return content


def platforms(ref: str) -> dict[str, str]:
    """Return the image of each platform, by its digest; that without platforms is called any.

    What buildx attests of an image is listed beside it, for the platform `unknown/unknown`.
    """
    listed = manifest(ref).get("manifests")
    if listed is None:
        return {"any": ref}
    return {
        f"{image['platform']['os']}/{image['platform']['architecture']}": (
            f"{repository(ref)}@{image['digest']}"
        )
        for image in listed
        if image.get("platform", {}).get("os", "unknown") != "unknown"
    }


def listed(ref: str) -> list[str]:
    """Return all that an index lists, by its digest; an image lists nothing."""
    return [f"{repository(ref)}@{image['digest']}" for image in manifest(ref).get("manifests", [])]


def labels(ref: str) -> Mapping[str, str]:
    """Return the labels of an image, or of the first that an index lists."""
    first = next(iter(platforms(ref).values()))
    own: dict[str, str] = json.loads(crane("config", first)).get("config", {}).get("Labels") or {}
    return own


def files(ref: str, folder: str) -> dict[str, bytes]:
    """Return the files in a folder of an image, by their paths in the folder."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as exported:
        crane("export", ref, exported.name)
        with tarfile.open(exported.name) as packed:
            return {
                entry.name.removeprefix(folder): content.read()
                for entry in packed
                if entry.name.startswith(folder) and (content := packed.extractfile(entry))
            }


def push_layer(layer: Path, ref: str) -> str:
    """Push an image of one layer and no more; return it by its digest.

    Raises KitError where the registry has another image of that name: what is published stays.
    """
    if existing := pinned(ref):
        content = next(iter(platforms(existing).values()))
        held = json.loads(crane("config", content))["rootfs"]["diff_ids"]
        if held != [_digest(layer.read_bytes())]:
            raise KitError(
                f"{ref} is in the registry already with other content; raise the version, or "
                "delete that image if nobody uses it yet"
            )
        return existing
    return crane("append", "--oci-empty-base", "-f", layer, "-t", ref).strip()


def push_for(names: Sequence[str], layer: Path, ref: str, image_labels: Mapping[str, str]) -> str:
    """Push an index that has the same image of one layer for each platform; return its digest."""
    if existing := pinned(ref):
        return push_layer(layer, existing)
    # Read as a line of CSV: a value may have commas.
    options = [f'--label="{key}={value}"' for key, value in sorted(image_labels.items())]
    images = []
    for name in names:
        aside = f"{ref}-{name.rpartition('/')[2]}"
        bare = push_layer(layer, f"{aside}-bare")
        mutated = crane("mutate", bare, f"--set-platform={name}", *options, "-t", aside)
        images.append(mutated.strip())
    return push_index(images, ref)


def push_file(file: Path, ref: str, *, kind: str, media_type: str) -> str:
    """Push an artifact of one file, unless the registry has it; return it by its digest.

    `kind` is the media type of the artifact's configuration, which is empty.
    """
    content = file.read_bytes()
    layer = _described(content, media_type)
    layer["annotations"] = {"org.opencontainers.image.title": file.name}
    return _push_manifest(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described(b"{}", kind),
            "layers": [layer],
        },
        [b"{}", content],
        ref,
    )


def date(ref: str, when: datetime) -> str:
    """Give an image in a registry the date of its sources; return it by its digest.

    Its layers stay as they are.
    """
    image, config = manifest(ref), json.loads(crane("config", ref))
    for dated in (config, *config.get("history", [])):
        dated["created"] = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    written = json.dumps(config, sort_keys=True).encode()
    image["config"] = _described(written, image["config"]["mediaType"])
    return _push_manifest(image, [written], ref)


def push_index(images: Sequence[str], ref: str) -> str:
    """Push an index of images that its registry has; return it by its digest."""
    crane("index", "append", *(f"--manifest={image}" for image in images), "-t", ref)
    pushed = pinned(ref)
    assert pushed, f"{ref} was pushed"
    return pushed


def _push_manifest(content: dict[str, Any], blobs: Sequence[bytes], ref: str) -> str:
    """Push a manifest with those of its blobs that the registry lacks; return it by its digest."""
    written = json.dumps(content).encode()
    described = _described(written, content["mediaType"])
    pushed = f"{repository(ref)}@{described['digest']}"
    if pinned(ref) == pushed:
        return pushed
    with tempfile.TemporaryDirectory() as folder:
        layout = Path(folder)
        (layout / "blobs" / "sha256").mkdir(parents=True)
        for blob in (*blobs, written):
            (layout / "blobs" / "sha256" / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        index = {"schemaVersion": 2, "manifests": [described]}
        (layout / "index.json").write_text(json.dumps(index))
        crane("push", layout, ref)
    return pushed


def _described(blob: bytes, media_type: str) -> dict[str, Any]:
    """Return how a manifest names a blob."""
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def archive(files: Mapping[str, bytes], date: datetime, programs: Collection[str] = ()) -> bytes:
    """Return a tar archive of files that is the same wherever and whenever it is written."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), int(date.timestamp())
            entry.mode = 0o755 if name in programs else 0o644
            packed.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def crane(*arguments: Argument) -> str:
    """Return what crane prints."""
    return output([tools.path("crane"), *arguments], timeout=_SECONDS)


def port(operator: str) -> int:
    """Return the port of an operator's registry, unless its PROJECT says `registryPort`.

    Each has a port of its own, so that the registries of several can run on one machine.
    """
    return 5100 + zlib.crc32(operator.encode()) % 900


NAME = paths.registry()
PORT = paths.registry_port() or port(paths.prefix())
ADDRESS = f"localhost:{PORT}"
_NETWORK = "kind"

# Tells containerd, in a node, where that address really is: Docker resolves the name.
_HOSTS = f'[host."http://{NAME}:5000"]\n'


def up() -> None:
    """Make sure that the registry runs and answers; fast if it does."""
    engine.up()
    if _running() and _answers():
        return
    with tools.lock("registry-container"):
        if _running() and _answers():
            return
        reference = image()
        with step(f"Registry on {ADDRESS}") as work:
            engine.remove_container(NAME)
            # The first cluster creates it.
            there = answer(["docker", "network", "inspect", _NETWORK]) is not None
            network = ["--network", _NETWORK] if there else []
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
            raise KitError(f"it does not answer; its log ends:\n{tail(log)}")


_MIRRORS = "/etc/containerd/certs.d"


def join(node: str, host: str = ADDRESS) -> None:
    """Let a node of the cluster pull from the registry, also instead of another `host`."""
    networks = engine.docker(
        "container", "inspect", "-f", "{{json .NetworkSettings.Networks}}", NAME
    )
    if _NETWORK not in json.loads(networks):
        engine.docker("network", "connect", _NETWORK, NAME)
    folder = f"{_MIRRORS}/{host}"
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
    """Remove the registry with all its contents, unless other checkouts' clusters use it."""
    label = "io.x-k8s.kind.role=control-plane"
    nodes = engine.docker("ps", "--filter", f"label={label}", "--format", "{{.Names}}").split()
    joined = f"test ! -d {_MIRRORS}/{ADDRESS} || echo joined"
    if pulling := [node for node in nodes if engine.docker("exec", node, "sh", "-c", joined)]:
        say(f"note: {', '.join(pulling)} still pulls from {NAME}, so this registry stays.")
    else:
        engine.remove_container(NAME)


def has(image: str) -> bool:
    """Return whether the registry has an image, such as `busybox:1.37`."""
    return local_digest(image) is not None


def local_digest(image: str) -> str | None:
    """Return the digest of an image or a chart, or None if it does not exist.

    Raise KitError if the registry's answer contains no digest.
    """
    name, _, tag = image.partition(":")
    try:
        return _get(f"v2/{name}/manifests/{tag}")["Docker-Content-Digest"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise KitError(
            f"the registry on {ADDRESS} cannot say whether it has {image}: {error}"
        ) from error
    except OSError as error:
        raise KitError(
            f"the registry on {ADDRESS} does not answer ({error}); `kopf-kit cluster up` starts "
            f"it, and `docker logs {NAME}` shows why it stopped"
        ) from error


def image() -> str:
    """Return the registry's image; pull or build it if it is missing."""
    if public_images.are_in_reach():
        return public_images.pull(f"docker.io/library/registry:{versions.REGISTRY}")
    return tools.builder("the registry's image cannot be pulled:").image("registry")


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
