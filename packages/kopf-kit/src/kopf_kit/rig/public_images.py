"""Public images: pulled if a registry can be reached, with a clear message if none can.

`are_in_reach()` decides between pulling all images, which takes minutes, and building them here
from Debian packages and Go modules. IMAGES=build or IMAGES=pull decides it beforehand.
Used by `kopf_kit.rig.cluster`, `kopf_kit.image.build`, `kopf_kit.rig.registry` and
`kopf_kit.rig.dockerfiles`.
"""

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kopf_kit.rig import engine, preflight, versions
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import Step, say, step

#: A small image, which is needed anyway, to find out whether a registry can be reached.
BUSYBOX = f"docker.io/library/busybox:{versions.BUSYBOX}"

#: How long building takes, on two processors.
BUILD_TIME = "about 7 minutes"

#: Seconds after which a pull is reported as slow; a node's image is large.
_SLOW = 20.0
_SLOW_FOR_NODE = 150.0
#: Timeout in seconds for one image; the largest, a node's, is about 400 MB.
LIMIT = 60 * 60.0


@dataclass(frozen=True)
class Trouble:
    """Why an image cannot be pulled."""

    #: A sentence that follows "registry.example: ".
    reason: str
    advice: str = ""
    #: Whether no registry answers at all, so that everything has to be built here.
    is_unreachable: bool = False
    #: Whether the next try may well succeed.
    is_passing: bool = False


_FROM_ENGINE = "Error response from daemon: "
_AGAIN = "Then run the same command again."

#: Patterns of the engine's messages, and what they mean; the first match counts.
_TROUBLES = (
    (
        r"toomanyrequests|429 Too Many Requests|rate limit",
        Trouble(
            "it limits how much it serves to one address (429 Too Many Requests)",
            "Log in with `docker login`, which raises the limit, or wait: the limit is lifted "
            f"within hours. {_AGAIN}",
        ),
    ),
    (
        r"x509|certificate|tls: ",
        Trouble(
            "the Docker engine does not trust its certificate",
            "If a proxy is in between, make the engine trust the proxy's certificate authority "
            f"(https://docs.docker.com/engine/security/certificates). {_AGAIN}",
            is_unreachable=True,
        ),
    ),
    (
        r"timeout|timed out|deadline exceeded",
        Trouble(
            "it does not answer in time: the connection is slow, or a firewall drops packets",
            f"Use a faster connection, or check the firewall. {_AGAIN}",
            is_unreachable=True,
            is_passing=True,
        ),
    ),
    (
        r"no such host|server misbehaving|name resolution|connection refused|unreachable|"
        r"no route to host|connection reset|: EOF",
        Trouble(
            "it cannot be reached",
            f"Check the network and the Docker engine's proxy settings. {_AGAIN}",
            is_unreachable=True,
        ),
    ),
    (
        r"unauthorized|denied|forbidden|authentication required",
        Trouble("it requires a login", f"Log in with `docker login`. {_AGAIN}"),
    ),
    (
        r"manifest unknown|not found|no matching manifest",
        Trouble("it does not have this image for this machine's processor"),
    ),
)
_UNKNOWN = Trouble("it does not serve the image", f"Read the engine's error below. {_AGAIN}")


@functools.cache
def are_in_reach() -> bool:
    """Return whether public images can be pulled; once per run, let the engine pull one.

    Only the engine knows its proxies, mirrors and credentials. Raise KitError if a registry
    answers but refuses, or if none answers and this machine cannot build the images.
    """
    chosen = choice()
    if chosen == "build":
        preflight.check(preflight.FROM_SOURCE)
        return False
    if engine.has_image(BUSYBOX):
        return True
    with step("Look for an image registry") as work:
        error = _pull(BUSYBOX, work)
        if error and diagnose(error).is_passing:
            say(
                f"    {_host(BUSYBOX)} does not answer in time ({_reason(error)}); asking once more"
            )
            error = _pull(BUSYBOX, work)
        if error is None:
            return True
        trouble = diagnose(error)
        if chosen == "pull" or not trouble.is_unreachable:
            raise KitError(_explain(BUSYBOX, error))
    say(f"    {_host(BUSYBOX)}: {trouble.reason} ({_reason(error)})")
    preflight.check(preflight.FROM_SOURCE)
    return False


def pull(reference: str) -> str:
    """Make sure that the engine has a public image; return its name."""
    if not engine.has_image(reference):
        with step(f"Pull {reference}") as work:
            error = _pull(reference, work)
            if error is not None:
                raise KitError(_explain(reference, error))
    return reference


@contextlib.contextmanager
def explained(reference: str, is_there: Callable[[], bool]) -> Iterator[None]:
    """Explain why a program that itself pulls an image, such as kind, is slow or fails.

    `is_there` returns whether it has the image and is busy with something else.
    """
    try:
        with _told_if_slow(reference, _SLOW_FOR_NODE, is_there):
            yield
    except KitError as error:
        if "failed to pull image" not in str(error):
            raise
        raise KitError(f"{error}\n{_explain(reference, str(error))}") from error


def diagnose(message: str) -> Trouble:
    """Return why an image cannot be pulled, according to the engine's message."""
    reason = _reason(message)
    matching = (trouble for sign, trouble in _TROUBLES if re.search(sign, reason, re.IGNORECASE))
    return next(matching, _UNKNOWN)


def choice() -> str:
    """Return the value of IMAGES: auto, pull or build; raise KitError for any other."""
    value = os.environ.get("IMAGES") or "auto"
    if value not in ("auto", "pull", "build"):
        raise KitError(
            f"IMAGES={value} is not valid. Use IMAGES=pull to pull public images only, or "
            "IMAGES=build to build all images here. If you leave IMAGES out, they are built only "
            "if no registry can be reached."
        )
    return value


def _pull(reference: str, work: Step) -> str | None:
    """Pull an image; return the engine's message if it fails, else None."""
    try:
        with _told_if_slow(reference, _SLOW):
            work.run(["docker", "pull", reference], timeout=LIMIT)
    except KitError as error:
        return str(error)
    return None


@contextlib.contextmanager
def _told_if_slow(
    reference: str, after: float, is_there: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Report that a pull is slow, and the alternatives, while it continues."""

    def tell() -> None:
        if is_there():
            return
        line = f"    {_host(reference)}, or the line to it, is slow; waiting for {reference}"
        if preflight.are_met(preflight.FROM_SOURCE):
            line += f". To build all images here instead, {BUILD_TIME}: Ctrl-C, then IMAGES=build"
        say(line)

    timer = threading.Timer(after, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _explain(reference: str, message: str) -> str:
    """Return a message about an image that cannot be pulled, with what to do."""
    trouble = diagnose(message)
    lines = [
        f"{_host(reference)}: {trouble.reason}. {trouble.advice}".rstrip(),
        f"    {_reason(message)}",
    ]
    if preflight.are_met(preflight.FROM_SOURCE):
        lines.append(f"To build all images here instead, {BUILD_TIME}, set IMAGES=build.")
    return "\n".join(lines)


def _host(reference: str) -> str:
    return reference.partition("/")[0]


def _reason(message: str) -> str:
    """Return the engine's reason, taken from its whole output."""
    lines = message.strip().splitlines()
    of_engine = [line for line in lines if _FROM_ENGINE in line]
    return (of_engine or lines)[-1].rpartition(_FROM_ENGINE)[2].strip()
