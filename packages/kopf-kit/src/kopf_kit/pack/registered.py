"""What an operator's code registers with kopf, as the operator's own Python reads it."""

import functools
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from kopf_kit.rig import paths
from kopf_kit.rig.run import CommandError, HackError, output

_READER = Path(__file__).with_name("handlers.py")
_SECONDS = 120
#: A kubeconfig that a module may load when it is imported; nothing answers there.
NO_CLUSTER = Path(__file__).with_name("no-cluster.yaml")
#: The variables of this machine with which the operator's Python runs.
_KEPT = re.compile("HOME|LANG|LC_.*|PATH|PYTHON.*|TMPDIR|TZ|USER|VIRTUAL_ENV|.*_proxy|SSL_CERT_.*")
#: The first one of which handlers succeed on the Python of the image.
_OLDEST_KOPF = Version("1.37.3")
#: The kinds of Kubernetes' core group: kopf finds them by the plural, the kind or a short name.
_CORE = {
    "configmaps": ("ConfigMap", "cm"),
    "namespaces": ("Namespace", "ns"),
    "nodes": ("Node", "no"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "pvc"),
    "persistentvolumes": ("PersistentVolume", "pv"),
    "pods": ("Pod", "po"),
    "secrets": ("Secret",),
    "serviceaccounts": ("ServiceAccount", "sa"),
    "services": ("Service", "svc"),
}


def python(root: Path) -> Path:
    """Return the operator's own Python: its repository's, or that of the active environment."""
    folders = (root / ".venv", Path(os.environ.get("VIRTUAL_ENV", os.devnull)))
    pythons = (folder / "bin" / "python" for folder in folders)
    return next((python for python in pythons if python.exists()), Path(sys.executable))


def read(module: str, root: Path, environment: Mapping[str, str]) -> Any:
    """Return what `handlers.py` prints about a module, which is imported without a cluster.

    Of this machine's environment it gets what Python needs, and nothing that could decide which
    handlers it registers. Raise HackError if it cannot be imported, or if its kopf is too old.
    """
    return _read(module, root, tuple(sorted(environment.items())))


@functools.cache
def _read(module: str, root: Path, environment: tuple[tuple[str, str], ...]) -> Any:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise HackError(
            f"{top} is also a module of Python's own, which `kopf run -m {module}` imports: give "
            "the operator's another name"
        )
    folder = paths.sources(root, top)
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    no_cluster = {"KUBECONFIG": str(NO_CLUSTER), "PYTHONDONTWRITEBYTECODE": "1"}
    variables = (
        kept | no_cluster | {name: text for name, text in environment if name != "PYTHONPATH"}
    ).items()
    program = ("env", "-i", *(f"{name}={value}" for name, value in variables), str(python(root)))
    try:
        printed = output([*program, str(_READER), module], cwd=folder, timeout=_SECONDS)
    except CommandError as error:
        raise HackError(
            f"{module} cannot be imported in {folder} without a cluster: {error.reason}; install "
            "what it needs, and move what asks a cluster into a function with @kopf.on.startup()"
        ) from error
    except HackError as error:
        raise HackError(
            f"{module} is still being imported after {_SECONDS} seconds: it must only register "
            "handlers then; move what else it does into a function with @kopf.on.startup()"
        ) from error
    answer = json.loads(printed.splitlines()[-1])
    if failed := answer.get("failed"):
        unset = ", ".join(answer["unset"])
        raise HackError(
            f"{module} cannot be imported in {folder}: {failed}; it reads the variables {unset}, "
            "which are not set: give them by --env NAME=VALUE, or as `environment` in PROJECT"
        )
    if Version(answer["kopf"]) < _OLDEST_KOPF:
        raise HackError(
            f"{module} runs with kopf {answer['kopf']}, and the kit packages operators on "
            f"{_OLDEST_KOPF} or newer; upgrade it"
        )
    return answer


def resource(
    group: str | None, name: str | None, crds: list[dict[str, Any]]
) -> tuple[str, str] | None:
    """Return the group and the plural of what kopf finds under a name, if that can be known."""
    for spec in (crd["spec"] for crd in crds):
        names = spec["names"]
        called = names["plural"], names["kind"], names.get("singular"), *names.get("shortNames", ())
        if name in called and group in (None, spec["group"]):
            return spec["group"], names["plural"]
    if group in (None, ""):
        for plural, called in _CORE.items():
            if name in (plural, plural.removesuffix("s"), *called):
                return "", plural
    # Only an API server knows the plural of a kind; most handlers are registered for plurals.
    if group and name and name.islower() and name.endswith("s"):
        return group, name
    return None
