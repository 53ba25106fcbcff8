"""The watched state: which Messages have the right Pod and status, and since when.

One `World` watches the Messages and the Pods of a control plane, so the benchmark does not rely on
any operator's own report. Used by `measures`.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from bench.watched import Watched

#: The Messages of all namespaces; no two of them have the same name.
_MESSAGES = "/apis/myorg.dev/v1/messages"
_TEXT = "MESSAGE_TEXT"


@dataclass
class _Seen:
    """The known state of one Message and its Pod."""

    uid: str = ""
    generation: int = 0
    status: dict[str, Any] = field(default_factory=dict)
    pods: dict[str, tuple[str, str]] = field(default_factory=dict)  # uid -> (text, owner's uid)


class World(Watched):
    """The watched state of the Messages, compared with the wanted one."""

    def __init__(self, *, tells_generation: bool = True) -> None:
        super().__init__({_MESSAGES: self.take_message, "/api/v1/pods": self.take_pod})
        self._tells_generation = tells_generation
        self._seen: dict[str, _Seen] = {}
        self._wanted: dict[str, str] = {}
        #: The Messages without the right Pod, and those without the right status.
        self.podless: set[str] = set()
        self.untold: set[str] = set()
        #: When each Message was first seen, and when it got the right Pod (monotonic clock).
        self.message_since: dict[str, float] = {}
        self.pod_since: dict[str, float] = {}
        #: When the last Message got its Pod, and when the last one got its status.
        self.last_pod = self.last_status = 0.0
        #: The number of Pods and of Messages.
        self.pods = self.messages = 0

    def want(self, texts: dict[str, str]) -> None:
        """Set the texts that the Messages should have from now on."""
        self._wanted = texts
        self.podless, self.untold, self.pod_since = set(texts), set(texts), {}
        for name in texts:
            self._judge(name, time.monotonic())

    async def until_right(self, patience: float) -> bool:
        """Wait until each Message has its Pod and status; return False on a timeout."""
        return await self.until(lambda: not self.podless and not self.untold, patience)

    async def until_pod(self, name: str, patience: float) -> bool:
        """Wait until one Message has its Pod."""
        return await self.until(lambda: name not in self.podless, patience)

    async def until_empty(self, patience: float) -> bool:
        """Wait until there is no Pod and no Message."""
        return await self.until(lambda: not self.pods and not self.messages, patience)

    def take_message(self, kind: str, raw: dict[str, Any], now: float) -> None:
        """Apply an event of a Message."""
        meta = raw["metadata"]
        name = str(meta["name"])
        seen = self._seen.setdefault(name, _Seen())
        self.messages += (kind == "ADDED") - (kind == "DELETED")
        if kind == "DELETED":
            seen.uid, seen.status = "", {}
        else:
            seen.uid, seen.generation = meta["uid"], meta["generation"]
            seen.status = raw.get("status") or {}
            self.message_since.setdefault(name, now)
        self._judge(name, now)

    def take_pod(self, kind: str, raw: dict[str, Any], now: float) -> None:
        """Apply an event of a Pod."""
        meta = raw["metadata"]
        name = str(meta["name"]).removeprefix("msg-")
        seen = self._seen.setdefault(name, _Seen())
        self.pods += (kind == "ADDED") - (kind == "DELETED")
        if kind == "DELETED" or "deletionTimestamp" in meta:
            seen.pods.pop(meta["uid"], None)
        else:
            env = raw["spec"]["containers"][0].get("env") or ()
            text = next((entry.get("value", "") for entry in env if entry["name"] == _TEXT), "")
            owner = next((owner["uid"] for owner in meta.get("ownerReferences") or ()), "")
            seen.pods[meta["uid"]] = text, owner
        self._judge(name, now)

    def _judge(self, name: str, now: float) -> None:
        """Update whether a Message is right."""
        if name in self._wanted:
            seen = self._seen.get(name, _Seen())
            if (self._wanted[name], seen.uid) in seen.pods.values():
                self.podless.discard(name)
                self.pod_since.setdefault(name, now)
                self.last_pod = max(self.last_pod, self.pod_since[name])
            else:
                self.podless.add(name)
                self.pod_since.pop(name, None)
            if self._told(seen):
                if name in self.untold:
                    self.untold.discard(name)
                    self.last_status = now
            else:
                self.untold.add(name)

    def _told(self, seen: _Seen) -> bool:
        if seen.status.get("phase") != "Processed":
            return False
        return not self._tells_generation or seen.status.get("observedGeneration") == (
            seen.generation
        )
