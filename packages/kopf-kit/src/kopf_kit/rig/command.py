"""Runs one command for a person, with readable errors, in an environment of its own.

Variables that a user has set for other programs and clusters are taken out of it first, so that one
such as `HELM_KUBECONTEXT` or `KUBECONFIG` never sends a command to another cluster than the one
that was asked for. The tests do the same.
"""

import errno
import os
import signal
from collections.abc import Callable, MutableMapping
from typing import NoReturn

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, stop_all
from kopf_kit.rig.steps import say

#: Variables that kubectl, Helm and kind read; our commands name cluster and namespace themselves.
_TOOLS = ("HELM_", "KUBECTL_", "KUBERC", "KUBE_", "KIND_EXPERIMENTAL_")
#: Variables that every operator reads.
_OPERATOR = ("WATCH_NAMESPACE", "POD_NAME", "KUBERNETES_SERVICE_")
#: Variables that the `make` that started the tests passes on to another `make`.
_MAKE = ("MAKE", "MFLAGS", "ARGS", "PLATFORMS", "BUNDLE_IMG", "REGISTRY")
#: Hosts that no proxy can reach.
_DIRECT = ("localhost", "127.0.0.1", "::1")


def scrub(environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove variables that select a cluster or change how kubectl, Helm and kind behave.

    `KUBECONFIG` stays only with CLUSTER=existing, because there it names the user's cluster.
    """
    _remove(environ, _TOOLS)
    if environ.get("CLUSTER") != "existing":
        environ["KUBECONFIG"] = os.devnull
    for proxies in ("NO_PROXY", "no_proxy"):
        reached = [name for name in environ.get(proxies, "").split(",") if name]
        ours = [paths.registry()] if paths.has_project() else []
        environ[proxies] = ",".join(dict.fromkeys([*reached, *_DIRECT, *ours]))


def scrub_for_tests(
    settings: tuple[str, ...], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Also remove the operator's own settings and those of `make`: the tests choose them.

    `settings` are the prefixes of this operator's own variables. With CLUSTER=existing, images that
    they name stay, as IMG does: that cluster pulls them.
    """
    scrub(environ)
    if environ.get("CLUSTER") == "existing":
        settings = tuple(name for name in settings if not name.endswith("_IMG"))
    _remove(environ, settings + _OPERATOR + _MAKE)


def _remove(environ: MutableMapping[str, str], prefixes: tuple[str, ...]) -> None:
    for name in [name for name in environ if name.startswith(prefixes)]:
        del environ[name]


#: Errors that are no mistake in the command: a missing permission, a full disk, or an odd name.
_OF_THE_MACHINE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG),
)


def execute(command: Callable[[], int | None]) -> int:
    """Run a command and return the exit code; print a KitError without its traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        scrub()
        return command() or 0
    except KitError as error:
        say(f"\nerror: {error}")
        return 1
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE or error.filename is None:
            raise
        say(f"\nerror: {error.filename}: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; finished steps are kept, and the same command continues from there")
        return 130
    finally:
        stop_all()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
