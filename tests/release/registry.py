"""A registry in a process of its own."""

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kopf_kit.rig import registry as oci
from kopf_offline import golang


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve an empty registry; yield its host and port."""
    folder.mkdir()
    process = subprocess.Popen(
        [golang.program("crane"), "registry", "serve", "--address=127.0.0.1:0", f"--disk={folder}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        port = next(
            match[1]
            for line in process.stderr
            if (match := re.search(r"serving on port (\d+)", line))
        )
        # Its log is long, and a full pipe would stop it.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def content(registry: str) -> dict[str, str]:
    """Return the digest of each tag in a registry, by its name."""
    return {
        f"{repository}:{tag}": str(oci.digest(f"{registry}/{repository}:{tag}"))
        for repository in oci.crane("catalog", registry).split()
        for tag in oci.crane("ls", f"{registry}/{repository}").split()
    }
