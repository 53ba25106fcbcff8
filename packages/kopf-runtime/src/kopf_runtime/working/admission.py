"""Asks an author's function about a write, and answers the API server.

`manager` has `endpoints.reviews` call it at the path of each webhook. A function that fails, or
takes too long, is answered as the author has declared, and in words.
"""

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from msgspec import Raw

from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.fence import for_a_review
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.conditions import stored
from kopf_runtime.declaring.context import ReviewContext, User
from kopf_runtime.declaring.errors import Denied
from kopf_runtime.declaring.objects import Decoder, Resource
from kopf_runtime.endpoints.reviews import Admission
from kopf_runtime.working.ending import ending

logger = logging.getLogger(__name__)

#: Warnings of one answer, and characters of one: the API server cuts what is longer.
_MAX_WARNINGS, _MAX_LENGTH = 16, 256
#: What the metadata of a new object lacks.
_NEW = {"name": "", "uid": "", "resourceVersion": ""}
#: What a function of `default` may change of the metadata.
_FREE = ("labels", "annotations")


class Asking(ABC):
    """Asks one function.

    `own` returns the operator's user, whose writes are let through, as are the control plane's: the
    chart's configuration leaves out both, but OLM's cannot.
    """

    def __init__(self, webhook: Webhook, own: Callable[[], Awaitable[str]]) -> None:
        self._webhook, self._own = webhook, own
        self._logged: set[str] = set()

    async def answer(self, request: Admission) -> dict[str, Any]:
        """Return the response to a request, without its uid."""
        if request.user_info.is_control_plane or request.user_info.username == await self._own():
            return {"allowed": True}
        raw, old = _parsed(request.object), _parsed(request.old_object)
        whole = old if request.operation == "DELETE" else raw
        if whole.get("metadata", {}).get("deletionTimestamp"):
            return {"allowed": True}  # nothing may keep it from its end
        try:
            with for_a_review():
                return await ending(self._judge(request, raw, old), self._webhook.timeout)
        except Denied as refusal:
            return _refused(422, "Invalid", str(refusal))
        except TimeoutError:
            return self._failed(f"no answer within {self._webhook.timeout:g} s")
        except Exception as error:
            self._log(error)
            return self._failed(f"{type(error).__name__}: {describe_error(error)}")

    @abstractmethod
    async def _judge(
        self, request: Admission, raw: dict[str, Any], old: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the response to a request for an object that replaces another; one is empty."""

    def _failed(self, why: str) -> dict[str, Any]:
        """Return the answer if the function has not judged."""
        text = f"{self._webhook.name}: {why}"[:500]
        if self._webhook.failure_policy == "Fail":
            return _refused(500, "InternalError", text)
        logger.warning("%s; the write is let through", text)
        return {"allowed": True, "warnings": [f"It was not checked: {text}"[:_MAX_LENGTH]]}

    def _log(self, error: Exception) -> None:
        """Log where a function failed, once for each place: users may make it fail as they like."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{type(error).__name__} {trace.tb_lineno if trace else 0}"
        if place not in self._logged:
            self._logged.add(place)
            logger.exception("%s failed", self._webhook.name)


class Asked(Asking):
    """Asks a function of ours; `given` returns what its context has of the operator."""

    def __init__(
        self,
        webhook: Webhook,
        type_: type[Resource],
        decoder: Decoder[Resource],
        given: Callable[[Resource], Awaitable[dict[str, Any]]],
        own: Callable[[], Awaitable[str]],
    ) -> None:
        super().__init__(webhook, own)
        self._type, self._decoder, self._given = type_, decoder, given

    async def _judge(
        self, request: Admission, raw: dict[str, Any], old: dict[str, Any]
    ) -> dict[str, Any]:
        deletes = request.operation == "DELETE"
        try:
            thing = self._decoder.decode(_complete(old if deletes else raw))
        except msgspec.MsgspecError as error:
            if deletes or self._webhook.kind == "mutating":  # its fields are not checked yet
                return {"allowed": True}
            return self._failed(f"the object cannot be read: {error}")
        try:
            before = None if deletes or not old else self._decoder.decode(_complete(old))
        except msgspec.MsgspecError:
            before = None
        return self._response(thing, raw, await self._call(request, thing, before))

    async def _call(self, request: Admission, thing: Resource, old: Resource | None) -> Any:
        user = User(request.user_info.username, tuple(request.user_info.groups))
        context = ReviewContext[Any](
            **await self._given(thing),
            namespace=request.namespace,
            old=old,
            user=user,
            operation=request.operation.lower(),
        )
        result = self._webhook.function(thing, context)
        return await result if inspect.isawaitable(result) else result

    def _response(self, thing: Resource, raw: dict[str, Any], result: Any) -> dict[str, Any]:
        if self._webhook.kind == "validating":
            texts = [result] if isinstance(result, str) else list(result or ())
            warnings = [str(text)[:_MAX_LENGTH] for text in texts[:_MAX_WARNINGS]]
            return {"allowed": True, **({"warnings": warnings} if warnings else {})}
        patch = [] if result is None else list(self._patch(thing, result, raw))
        if not patch:
            return {"allowed": True}
        return {"allowed": True, "patchType": "JSONPatch", "patch": msgspec.json.encode(patch)}

    def _patch(self, thing: Resource, new: Any, raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not isinstance(new, self._type):
            raise TypeError(f"it returned {type(new).__name__}, not {self._type.__name__}")
        plain = (msgspec.to_builtins(version, str_keys=True) for version in (thing, new))
        before, after = map(stored, plain)
        if _fixed(before) != _fixed(after):
            raise ValueError("it changed more than the spec, the labels and the annotations")
        msgspec.convert(after, self._type)  # what is invalid is refused here, with its reason
        return _differences(before, after, raw, "")


def _parsed(payload: Raw) -> dict[str, Any]:
    """Return an object of a request; empty if there is no object."""
    whole = msgspec.json.decode(payload, type=dict[str, Any] | None) or {}
    if whole:
        # Not only the API server may ask.
        whole["metadata"] = msgspec.convert(whole.get("metadata") or {}, dict[str, Any])
    return whole


def _complete(whole: dict[str, Any]) -> bytes:
    """Return an object as JSON, with what its class needs."""
    metadata = {**_NEW, **whole.get("metadata", {}), "managedFields": None}
    return msgspec.json.encode({**whole, "metadata": metadata})


def _fixed(whole: dict[str, Any]) -> Any:
    """Return what a function of `default` may not change."""
    metadata = {name: part for name, part in whole["metadata"].items() if name not in _FREE}
    return metadata, whole.get("status")


def _refused(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"allowed": False, "status": {"code": code, "reason": reason, "message": message}}


def _differences(
    before: dict[str, Any], after: dict[str, Any], raw: dict[str, Any], path: str
) -> Iterator[dict[str, Any]]:
    """Yield the steps of a JSON patch, which keep what an object has that its class has not."""
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if was == now:
            continue
        if all(isinstance(value, dict) for value in (was, now, raw.get(name))):
            yield from _differences(was, now, raw[name], where)  # type: ignore[arg-type]
        elif now is not None:
            yield {"op": "add", "path": where, "value": now}
        elif name in raw:
            yield {"op": "remove", "path": where}
