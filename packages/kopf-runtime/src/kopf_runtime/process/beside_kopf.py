"""kopf's own handlers, which an author may have beside the controllers.

kopf starts them once this replica leads, and what they write is fenced. It would serve those of
admission there, too; `kopf_admission` does it instead. That, and `kopf_private`, is imported only
if there are handlers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import kopf

from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.tls import as_in_go
from kopf_runtime.declaring import objects
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.process import kopf_registry

if TYPE_CHECKING:
    from kopf_runtime.process.kopf_failures import KopfFailures
    from kopf_runtime.working.admission import Asking


class BesideKopf:
    """Starts kopf's handlers once this replica leads, and asks those of admission at any time."""

    def __init__(self, types: Callable[[], list[type[objects.Resource]]]) -> None:
        #: Has the handlers.
        self.registry = kopf.get_default_registry()
        self._types = types
        self._set_up, self._leads = asyncio.Event(), asyncio.Event()
        self._failures: KopfFailures | None = None

    def webhooks(self) -> list[Webhook]:
        """Return the webhooks of the handlers; raise `DeclarationError`."""
        if not kopf_registry.asks(self.registry):
            return []
        from kopf_runtime.process import kopf_admission

        return kopf_admission.declared_webhooks(self.registry, self._types())

    def handled(self) -> list[tuple[str, Webhook | None]]:
        """Return the ids of the handlers of admission, each with its webhook if it has one here."""
        if not kopf_registry.asks(self.registry):
            return []
        from kopf_runtime.process import kopf_admission

        return [*kopf_admission.webhooks(self.registry, self._types())]

    def asked(
        self, client: Client, settings: kopf.OperatorSettings, memo: Any
    ) -> "Iterator[tuple[str, Asking]]":
        """Yield what answers the API server for kopf's handlers, with its path.

        It takes what kopf gives to startup handlers.
        """
        if not kopf_registry.asks(self.registry):
            return
        from kopf_runtime.process import kopf_admission

        async def giving() -> dict[str, Any]:
            await self._set_up.wait()
            return {"settings": settings, "memobase": memo, "indices": {}}

        yield from kopf_admission.asked(self.registry, self._types(), client, settings, giving)

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
        return kopf_registry.acts(self.registry)

    def logs_in(self, manager: object) -> bool:
        """Return whether kopf gets a session: an author has handlers, of any sort."""
        return kopf_registry.has_others(self.registry, manager, self)

    async def until_used(self, manager: object) -> None:
        """Hold up kopf, which asks the API server for what it is, unless it gets a session."""
        if self.logs_in(manager):
            return
        try:
            await asyncio.Event().wait()
        finally:  # kopf would warn that this has ended
            logging.getLogger("kopf.activities.authentication").setLevel(logging.ERROR)

    def forgive(self) -> None:
        """Let no kind that cannot be read or watched end an operator with handlers of kopf."""
        if self.has_handlers():
            from kopf_runtime.process.kopf_failures import KopfFailures

            self._failures = KopfFailures()
            self._failures.forgive()

    def end(self) -> None:
        """Have kopf read nothing again."""
        if self._failures is not None:
            self._failures.end()


async def login(client: Client) -> kopf.AiohttpSession:
    """Return kopf's session, whose writes are fenced."""
    import aiohttp

    info = await asyncio.to_thread(credentials.find)
    session = client.fenced(
        connector=aiohttp.TCPConnector(limit=0, ssl=as_in_go(info.as_ssl_context())),
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
