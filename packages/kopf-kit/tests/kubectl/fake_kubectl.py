"""A kubectl for the tests: it answers from a file with objects, and like the real one it obeys
options wherever they stand: `--server=URL` sends it there, with the user's token.

OBJECTS names the file, by resource; "granted" has the accounts that may do everything, each with a
namespace or with "" for all.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

Objects = dict[str, Any]


def answer(objects: Objects, argv: list[str], stdin: str) -> tuple[int, str]:
    """Return the exit code and the output of a command."""
    before = argv[: argv.index("--")] if "--" in argv else argv
    after = argv[len(before) + 1 :]
    for option in before:
        if option.startswith("--server="):
            visit(option.partition("=")[2])
            return 1, ""
    words = [*(word for word in before if not word.startswith("-")), *after]
    options = dict(word.lstrip("-").partition("=")[::2] for word in before if word.startswith("-"))
    verb, *names = words
    if verb == "version":
        version = {"gitVersion": "v1.36.4"}
        return 0, json.dumps({"clientVersion": version, "serverVersion": version})
    if verb == "create":
        return 0, "\n".join(
            json.dumps(reviewed(objects, item)) for item in json.loads(stdin)["items"]
        )
    if verb == "config":
        return 0, "team"
    if verb != "get":
        return 0, ""
    found = listed(objects, names[0], options)
    if len(names) == 1:
        return 0, json.dumps({"items": found})
    named = [raw for raw in found if raw["metadata"]["name"] == names[1]]
    return 0, json.dumps(named[0]) if named else ""


def visit(url: str) -> None:
    """Do what kubectl does with another server: send the token there."""
    with suppress(OSError, ValueError):
        host, _, port = url.partition("//")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")


def listed(objects: Objects, resources: str, options: dict[str, str]) -> list[Any]:
    kinds = [resource.partition(".")[0] for resource in resources.split(",")]
    where = options.get("namespace")
    return [
        raw
        for kind in kinds
        for raw in objects.get(kind, [])
        if where is None or raw["metadata"].get("namespace", where) == where
    ]


def reviewed(objects: Objects, review: Any) -> Any:
    spec = review["spec"]
    place = spec["resourceAttributes"].get("namespace", "")
    granted = {tuple(pair) for pair in objects["granted"]}
    allowed = bool({(spec["user"], ""), (spec["user"], place)} & granted)
    return {**review, "status": {"allowed": allowed}}


if __name__ == "__main__":
    known = json.loads(Path(os.environ["OBJECTS"]).read_text())
    sent = sys.stdin.read() if "--filename=-" in sys.argv else ""
    code, printed = answer(known, sys.argv[1:], sent)
    sys.stdout.write(printed)
    sys.exit(code)
