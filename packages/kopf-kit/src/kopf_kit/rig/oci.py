"""What a registry holds, by crane: digests, files, and which images an index lists.

It needs no container engine, and takes the user's logins. Used by all that a release publishes.
"""

import hashlib
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kopf_kit.rig import tools
from kopf_kit.rig.run import Argument, HackError, output

_ABSENT = re.compile(r"MANIFEST_UNKNOWN|NAME_UNKNOWN|status code 404")
_SECONDS = 300


def digest(ref: str) -> str | None:
    """Return the digest of a name in a registry; None if the registry does not have it.

    Raises HackError where the registry does not tell.
    """
    try:
        return crane("digest", ref).strip()
    except HackError as error:
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

    Raises HackError where the registry has another image of that name: what is published stays.
    """
    if existing := pinned(ref):
        content = next(iter(platforms(existing).values()))
        held = json.loads(crane("config", content))["rootfs"]["diff_ids"]
        if held != [_digest(layer.read_bytes())]:
            raise HackError(
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
    """Push an artifact of one file, unless the registry has it; return it by its digest."""
    return push_files([file], ref, kind=kind, media_type=media_type)


def push_files(files: Sequence[Path], ref: str, *, kind: str, media_type: str) -> str:
    """Push an artifact of files, unless the registry has it; return it by its digest.

    `kind` is the media type of the artifact's configuration, which is empty.
    """
    contents = [file.read_bytes() for file in files]
    layers = [
        {
            **_described(content, media_type),
            "annotations": {"org.opencontainers.image.title": file.name},
        }
        for file, content in zip(files, contents, strict=True)
    ]
    return _push_manifest(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described(b"{}", kind),
            "layers": layers,
        },
        [b"{}", *contents],
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
