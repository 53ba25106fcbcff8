"""The cluster of the current kubeconfig, for CLUSTER=existing; used by `kopf_kit.rig.cluster`."""

import os
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError, answer, output


def current(kubectl: Path) -> tuple[str, Path]:
    """Return the current context and its kubeconfig; raise HackError if no cluster answers."""
    files = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    kubeconfigs = [Path(f).absolute() for f in files.split(os.pathsep) if Path(f).is_file()]
    if Path(files).is_dir():
        raise HackError(f"CLUSTER=existing: {files} is a folder; set KUBECONFIG to a file in it.")
    if not kubeconfigs:
        raise HackError(
            f"CLUSTER=existing: there is no kubeconfig at {files}. Set KUBECONFIG to the file of "
            "the cluster to use, or leave CLUSTER out to have a kind cluster created for you."
        )
    file = kubeconfigs[0] if len(kubeconfigs) == 1 else _merged(kubectl)
    ask = (kubectl, "--kubeconfig", file)
    minified = "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    try:
        server = output([*ask, *minified]).strip()
    except HackError as error:
        raise HackError(
            f"CLUSTER=existing: kubeconfig {files} cannot be used ({_reason(error)}). Set "
            "KUBECONFIG to the file of the cluster to use, or choose one of its contexts (kubectl "
            "config use-context …)."
        ) from error
    context = answer([*ask, "config", "current-context"])
    try:
        output([*ask, "get", "--raw", "/version", "--request-timeout=5s"], timeout=15)
    except HackError as error:
        raise HackError(
            f"CLUSTER=existing: the cluster does not answer ({_reason(error)}). Tried kubeconfig "
            f"{files}, context {context or 'none is chosen'}, server {server or 'unknown'}. Start "
            "that cluster, choose another context (kubectl config use-context …), set KUBECONFIG, "
            "or leave CLUSTER out to have a kind cluster created for you."
        ) from error
    return context or "existing", file


def _reason(error: HackError) -> str:
    return str(error).rstrip().splitlines()[-1].strip()


def _merged(kubectl: Path) -> Path:
    """Merge the several files in KUBECONFIG into one; return its path."""
    file = paths.BUILD / "kubeconfig-existing"
    file.parent.mkdir(exist_ok=True)
    file.touch(0o600)
    file.write_text(output([kubectl, "config", "view", "--raw", "--flatten"]))
    return file
