"""kopf's own handlers of admission, `@kopf.on.validate` and `@kopf.on.mutate`.

kopf would serve them on the leader, with a certificate of its own. Here `endpoints.reviews` does,
in every replica, and has kopf call a handler as it would itself.
"""

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import kopf
import msgspec

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring import objects
from kopf_runtime.declaring.admission import EXEMPT, MARGIN, MAX_TIMEOUT, Webhook
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.declaring.parsers import DNS_LABEL
from kopf_runtime.endpoints.reviews import Admission
from kopf_runtime.process.kopf_private import (
    Insights,
    MemoGetter,
    Resource,
    build_webhooks,
    serve_admission_request,
)
from kopf_runtime.process.kopf_registry import handlers, is_index, is_of_admission
from kopf_runtime.working.admission import Asking


def webhooks(
    registry: kopf.OperatorRegistry, types: Iterable[type[objects.Resource]]
) -> Iterator[tuple[str, Webhook | None]]:
    """Yield the id of each handler in a registry, with its webhook; raise `DeclarationError`.

    It has none unless it is for a kind that a controller serves, of which `types` are the classes:
    nothing could start the operator again if its Pods, for example, had to wait for it.
    """
    resources = []
    for known in map(declared, types):
        kind, short = known.kind, frozenset(known.short_names)
        resources.append(Resource(*kind[:3], kind.kind, kind.kind.lower(), short))
    for handler in filter(is_of_admission, handlers(registry)):
        selector = handler.selector
        matching = selector.select(resources) if selector and selector.is_specific else ()
        one = len(matching) == 1
        yield handler.id, _webhook(registry, handler, *matching) if one else None


def _webhook(registry: kopf.OperatorRegistry, handler: Any, resource: Resource) -> Webhook:
    (entry,) = build_webhooks([handler], resources=[resource], name_suffix="", client_config={})
    (rule,), reason = entry["rules"], handler.reason.value
    operations = tuple(rule["operations"])
    if reason == "mutating" and "*" in operations:
        operations = "CREATE", "UPDATE"  # a handler that names none is not called for a deletion
    label = re.sub("[^a-z0-9]+", "-", handler.id.lower()).strip("-")
    if not DNS_LABEL.fullmatch(label):
        raise DeclarationError(f"{handler.id!r} cannot name a webhook; give the handler an id=")
    name = f"{label}.{resource.plural}.{resource.group}"
    return Webhook(
        kind=reason,
        name=name,
        path=f"/kopf/{reason}/{name}",
        group=resource.group,
        versions=(resource.version,),
        resource=rule["resources"][0],
        operations=operations,
        failure_policy=entry["failurePolicy"],
        match_conditions=EXEMPT,
        timeout_seconds=int(MAX_TIMEOUT) + MARGIN,
        timeout=MAX_TIMEOUT,
        function=partial(
            serve_admission_request,
            webhook=handler.id,
            reason=handler.reason,
            registry=registry,
            insights=Insights(webhook_resources={resource}),
        ),
        object_selector=entry["objectSelector"] or {},
        side_effects=entry["sideEffects"],
    )


def declared_webhooks(
    registry: kopf.OperatorRegistry, types: Iterable[type[objects.Resource]]
) -> list[Webhook]:
    """Return the webhooks of the handlers; raise `DeclarationError`."""
    handled = [webhook for _, webhook in webhooks(registry, types) if webhook]
    indexes = [*filter(is_index, handlers(registry))]
    if handled and indexes:
        raise DeclarationError(
            f"{handled[0].name} is asked on every replica, and only the leader has the index "
            f"{indexes[0].id}: use controller.index"
        )
    return handled


def asked(
    registry: kopf.OperatorRegistry,
    types: Iterable[type[objects.Resource]],
    client: Client,
    settings: kopf.OperatorSettings,
    given: Callable[[], Awaitable[Mapping[str, Any]]],
) -> Iterator[tuple[str, Asking]]:
    """Yield what answers the API server for the handlers, with its path."""
    handled = [webhook for _, webhook in webhooks(registry, types)]
    for webhook in filter(None, handled):
        yield webhook.path, Handled(webhook, client.user, given)
    if all(handled):  # else the author has to set a server for those that are not ours
        settings.admission.server = _elsewhere


class Handled(Asking, MemoGetter):
    """Asks a handler of kopf's.

    `given` returns what kopf gives to its handlers, once the author's startup handlers have ended.
    """

    def __init__(
        self,
        webhook: Webhook,
        own: Callable[[], Awaitable[str]],
        given: Callable[[], Awaitable[Mapping[str, Any]]],
    ) -> None:
        super().__init__(webhook, own)
        self._given = given

    async def recall_memo(
        self, raw_body: Any, *, memobase: Any = None, ephemeral: bool = False
    ) -> Any:
        """Return a memo that is not kept: other replicas are asked about the same object."""
        return copy.copy(memobase)

    async def _judge(
        self, request: Admission, raw: dict[str, Any], old: dict[str, Any]
    ) -> dict[str, Any]:
        review = {
            "uid": request.uid,
            "operation": request.operation,
            "resource": request.resource,
            "subResource": request.sub_resource,
            "dryRun": request.dry_run,
            "userInfo": msgspec.to_builtins(request.user_info),
            "object": raw or None,
            "oldObject": old or None,
        }
        given = await self._given()
        answer = await self._webhook.function({"request": review}, memories=self, **given)
        response: dict[str, Any] = answer["response"]
        return response


async def _elsewhere(_: Any) -> AsyncIterator[Any]:
    """Stand in for a server of kopf's, without which it does not start: ours asks its handlers."""
    await asyncio.Event().wait()
    yield
