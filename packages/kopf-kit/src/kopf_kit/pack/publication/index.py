"""The package index that gets the Python packages of a release; uv uploads them.

`INDEX` is its address as pip reads it, and uv's own variables say who uploads: UV_PUBLISH_TOKEN, or
UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD. Without INDEX, the workflow `release` publishes to uv's
default index, which trusts that workflow and asks for no secret. Used by
`kopf_kit.commands.release`.
"""

import os
import re
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig.run import Argument, CommandError, HackError, output

_SECONDS = 30.0


def name() -> str | None:
    """Return the index that gets the packages; None if nobody named one."""
    if address := os.environ.get("INDEX"):
        return f"INDEX={address}"
    return "uv's default index" if _is_trusted() else None


def check() -> None:
    """Raise HackError if the index in INDEX is not reached; do nothing without INDEX."""
    if not (address := os.environ.get("INDEX")):
        return
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS):  # noqa: S310 -- the user names it
            pass
    except (OSError, ValueError) as error:
        raise HackError(
            f"INDEX={address} is not reached ({getattr(error, 'reason', error)}); start the index, "
            "or name another one as pip reads it, such as https://packages.example.com/simple/"
        ) from error


def publish(files: Sequence[Path]) -> None:
    """Upload packages, but those that the index has already.

    Raise HackError if the index is not reached, refuses them, or has other files of these names.
    """
    address = os.environ.get("INDEX")
    options: Sequence[Argument] = ("--trusted-publishing", "always" if _is_trusted() else "never")
    if address:
        options = (*options, "--publish-url", _upload(address), "--check-url", address)
    try:
        output([Path(sys.executable).with_name("uv"), "publish", *options, *files], timeout=600)
    except CommandError as error:
        raise HackError(_sentence(str(error))) from error


def _is_trusted() -> bool:
    """Tell whether a workflow of GitHub runs that may ask for a token, and INDEX names no other."""
    return "ACTIONS_ID_TOKEN_REQUEST_TOKEN" in os.environ and not os.environ.get("INDEX")


def _upload(address: str) -> str:
    """Return where packages are uploaded: pypiserver and devpi list them in a folder of it."""
    return os.environ.get("UV_PUBLISH_URL") or re.sub(r"\+?simple/?$", "", address)


def _sentence(message: str) -> str:
    """Return what uv said, as one sentence that says what to do; uv breaks lines as it likes."""
    message = " ".join(message.split())
    if "Missing credentials" in message:
        return (
            f"{name()} asks who uploads; set UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and "
            "UV_PUBLISH_PASSWORD"
        )
    if match := re.search(r"do not match for `([^`]+)`", message):
        return (
            f"{name()} has another {match[1]} already; raise the version, or delete that file "
            "if nobody uses it yet"
        )
    cause = re.split(r"\b(?:cause|error): ", message)[-1]
    return f"{name()} did not take the packages ({cause})"
