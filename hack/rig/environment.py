"""The environment, without what a user has set for other programs and other clusters.

`python -m hack` and the tests call this first, so that a variable such as `HELM_KUBECONTEXT` or
`KUBECONFIG` never sends a command to another cluster than the one that was asked for.
"""

import os
from collections.abc import MutableMapping

from hack.rig import names

#: What kubectl, Helm and kind read; every command here names its cluster and namespace itself.
_TOOLS = ("HELM_", "KUBECTL_", "KUBERC", "KUBE_", "KIND_EXPERIMENTAL_")
#: What every operator reads.
_OPERATOR = ("WATCH_NAMESPACE", "POD_NAME", "KUBERNETES_SERVICE_")
#: What the `make` that started the tests hands to another `make`.
_MAKE = ("MAKE", "MFLAGS", "ARGS", "PLATFORMS", "BUNDLE_IMG", "REGISTRY")
#: A proxy reaches none of these.
_DIRECT = ("localhost", "127.0.0.1", "::1")


def scrub(environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove what chooses a cluster or changes how kubectl, Helm and kind behave.

    `KUBECONFIG` stays with CLUSTER=existing alone, where it is how a user names the cluster.
    """
    _remove(environ, _TOOLS)
    if environ.get("CLUSTER") != "existing":
        environ["KUBECONFIG"] = os.devnull
    for proxies in ("NO_PROXY", "no_proxy"):
        reached = [name for name in environ.get(proxies, "").split(",") if name]
        environ[proxies] = ",".join(dict.fromkeys([*reached, *_DIRECT, names.registry()]))


def scrub_for_tests(
    settings: tuple[str, ...], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Remove the operator's own settings and those of `make`, too: the tests choose them.

    `settings` is what the names of the variables begin with that this operator alone has.
    """
    scrub(environ)
    _remove(environ, settings + _OPERATOR + _MAKE)


def _remove(environ: MutableMapping[str, str], prefixes: tuple[str, ...]) -> None:
    for name in [name for name in environ if name.startswith(prefixes)]:
        del environ[name]
