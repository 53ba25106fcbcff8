"""kopf's own handlers, which an author may have beside the controllers.

kopf starts them once this replica leads, and what they write is fenced. It would serve those of
admission, `@kopf.on.validate` and `@kopf.on.mutate`, there, too, with a certificate of its own.
Here `endpoints.reviews` does, in every replica, and has kopf call a handler as it would itself.
kopf has no public names for that; a test notices if they move.
"""

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import aiohttp
import kopf
import msgspec
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import MemoGetter, build_webhooks, serve_admission_request

from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring import objects
from kopf_runtime.declaring.admission import EXEMPT, MARGIN, MAX_TIMEOUT, Webhook
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.declaring.parsers import DNS_LABEL
from kopf_runtime.endpoints.reviews import Admission
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
    for handler in registry._webhooks.get_all_handlers():
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


class BesideKopf:
    """Starts kopf's handlers once this replica leads, and asks those of admission at any time."""

    def __init__(self, types: Callable[[], list[type[objects.Resource]]]) -> None:
        #: Has the handlers.
        self.registry = kopf.get_default_registry()
        self._types = types
        self._set_up, self._leads = asyncio.Event(), asyncio.Event()

    def webhooks(self) -> list[Webhook]:
        """Return the webhooks of the handlers; raise `DeclarationError`."""
        handled = [webhook for _, webhook in webhooks(self.registry, self._types()) if webhook]
        indexes = [*self.registry._indexing.get_all_handlers()]
        if handled and indexes:
            raise DeclarationError(
                f"{handled[0].name} is asked on every replica, and only the leader has the index "
                f"{indexes[0].id}: use controller.index"
            )
        return handled

    def asked(
        self, client: Client, settings: kopf.OperatorSettings, memo: Any
    ) -> Iterator[tuple[str, Asking]]:
        """Yield what answers the API server for kopf's handlers, with its path.

        It takes what kopf gives to startup handlers.
        """

        async def giving() -> dict[str, Any]:
            await self._set_up.wait()
            return {"settings": settings, "memobase": memo, "indices": {}}

        handled = [webhook for _, webhook in webhooks(self.registry, self._types())]
        for webhook in filter(None, handled):
            yield webhook.path, Handled(webhook, client.user, giving)
        if all(handled):  # else the author has to set a server for those that are not ours
            settings.admission.server = _elsewhere

    async def until_leading(self, **_: Any) -> None:
        """Hold up kopf, which watches nothing and calls no other handler before it has started."""
        self._set_up.set()
        await self._leads.wait()

    def lead(self) -> None:
        """Let kopf go on: this replica leads."""
        self._leads.set()

    @property
    def runs(self) -> bool:
        """Whether kopf runs handlers that may act on the leader alone."""
        return self._leads.is_set() and self.has_handlers()

    def has_handlers(self) -> bool:
        """Return whether the author has registered handlers of kopf that act on objects."""
        registry = self.registry
        acting = registry._watching, registry._changing, registry._spawning, registry._indexing
        return any(part.get_all_handlers() for part in acting)


async def login(client: Client) -> kopf.AiohttpSession:
    """Return kopf's session, whose writes are fenced."""
    info = await asyncio.to_thread(credentials.find)
    session = client.fenced(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


async def _elsewhere(_: Any) -> AsyncIterator[Any]:
    """Stand in for a server of kopf's, without which it does not start: ours asks its handlers."""
    await asyncio.Event().wait()
    yield
