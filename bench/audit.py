"""Counts writes in the API server's audit log; used by `measures`."""

import json
from collections import Counter
from pathlib import Path

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Audit:
    """Reads the audit log from where it was last read."""

    def __init__(self, log: Path, user: str) -> None:
        self._log, self._user = log, user
        self._at = 0

    def writes(self) -> Counter[str]:
        """Count the user's writes since the last call, such as ``patch messages/status``."""
        found: Counter[str] = Counter()
        with self._log.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the line is still being written
                self._at += len(line)
                entry = json.loads(line)
                if entry["user"]["username"] == self._user and entry["verb"] in _WRITES:
                    where = entry["objectRef"]
                    parts = (where["resource"], where.get("subresource"))
                    found[f"{entry['verb']} {'/'.join(part for part in parts if part)}"] += 1
        return found
