"""The process: starts the controllers on kopf, elects a leader, serves the endpoints, and stops.

kopf runs the process, handles its signals, provides `kopf run`, and calls any handler that an
author adds: on the leader alone, unless it is of admission, or the author wants it on every
replica. The runtime watches, reconciles and writes on its own, with a session of its own.
"""

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import aiohttp
import click
import kopf

from kopf_runtime.cluster import credentials, fence, tracing
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import errors, given
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import Backoff
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.parsers import DNS_LABEL
from kopf_runtime.declaring.rights import Right
from kopf_runtime.declaring.settings import Program, Settings, parse, warn_of_unknown
from kopf_runtime.endpoints.certificates import Certificates
from kopf_runtime.endpoints.reviews import Reviews
from kopf_runtime.endpoints.web import CertificateError, Server
from kopf_runtime.process import discovery
from kopf_runtime.process.controller import Controller
from kopf_runtime.process.engine import Engine
from kopf_runtime.process.lease import Election
from kopf_runtime.reporting import logs
from kopf_runtime.reporting.events import Recorder
from kopf_runtime.reporting.troubles import WaitingError
from kopf_runtime.working import handlers
from kopf_runtime.working.admission import Asking
from kopf_runtime.working.external import ending
from kopf_runtime.working.handlers import Handled
from kopf_runtime.working.migration import Migration

logger = logging.getLogger(__name__)

#: Seconds after which a step is stuck: what makes many requests tells its progress.
STUCK = 300.0

S = TypeVar("S", bound=Settings)
T = TypeVar("T", bound=Callable[..., Awaitable[None]])


class LeadershipLostError(Exception):
    """This replica does not lead any more, and kopf cannot stop the handlers that it runs."""


class Manager(Generic[S]):
    """An operator: its name, its settings, and a controller for each kind that it serves.

    kopf's own handlers run only while this replica leads: kopf starts them once it does, and the
    process ends when it does not any more. kopf writes nothing after that, and a replica that is
    told to end releases the Lease once kopf's daemons and timers have ended. With
    `handlers_on_standby` they run on every replica, as those of `@kopf.on.validate` and
    `@kopf.on.mutate` always do.
    kopf looks only once which kinds there are. If that of a handler may be installed later, set
    `settings.scanning.disabled = False` in a `@kopf.on.startup()` handler below the manager; kopf
    then needs the rights to watch CustomResourceDefinitions and namespaces.
    """

    metrics: Metrics

    def __init__(
        self,
        name: str,
        settings: type[S],
        *,
        version: str = "",
        description: str = "",
        handlers_on_standby: bool = False,
    ) -> None:
        if not DNS_LABEL.fullmatch(name):  # it is a label's value, and the name of the Lease
            raise ValueError(
                f"{name!r} cannot name an operator: use 1 to 63 of a-z, 0-9 and '-', no '-' at "
                "either end"
            )
        self.program = Program(name, version, description)
        self._kind_of_settings = settings
        self._configured: S | None = None
        #: The metrics of the process, to which an author can add some.
        self.metrics = Metrics(name, version)
        self.controllers: list[Engine] = []
        #: What its roles grant beside what its controllers need.
        self.further_rights: list[Right] = []
        self._server = Server(self.metrics)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None
        self._adapt: Callable[[given.Client, S], Awaitable[S]] | None = None
        self._tasks: list[Callable[[given.Client, S], Awaitable[None]]] = []
        self._handlers_on_standby = handlers_on_standby
        #: Has kopf's own handlers, which run beside the controllers.
        self.registry = kopf.get_default_registry()
        self._set_up, self._leads = asyncio.Event(), asyncio.Event()
        self._certificates: Certificates | None = None
        kopf.on.startup()(self._start)
        kopf.on.cleanup()(self._clean_up)
        kopf.on.login(backoff=5)(self._login)

    def controller_for(
        self,
        type_: type[Resource],
        *,
        project: Callable[[Any], Any] = lambda _: None,
        workers: int | None = None,
    ) -> Controller:
        """Return the controller of a class's kind; `project` returns what `status` sees.

        `workers` is the number of its reconciles that run at once, by default that of `--workers`.
        Raise `TypeError` if the class declares no kind, and `ValueError` for other `workers`.
        """
        controller = Engine(declared(type_).kind, type_, project, workers)
        self.controllers.append(controller)
        return controller

    @property
    def webhooks(self) -> list[Webhook]:
        """What the API server calls before a write, kopf's handlers too; or `DeclarationError`."""
        own = [webhook for controller in self.controllers for webhook in controller.webhooks]
        handled = [webhook for webhook in self._handled() if webhook is not None]
        names = [(webhook.kind, webhook.name) for webhook in (*own, *handled)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise errors.DeclarationError(
                f"two functions are the {' webhook '.join(twice[0])}; rename one of them"
            )
        indexes = [*self.registry._indexing.get_all_handlers()]
        if handled and indexes and not self._handlers_on_standby:
            raise errors.DeclarationError(
                f"{handled[0].name} is asked on every replica, and only the leader has the index "
                f"{indexes[0].id}: use controller.index, or handlers_on_standby=True"
            )
        return own + handled

    def _handled(self) -> list[Webhook | None]:
        types = [controller.type for controller in self.controllers]
        return [webhook for _, webhook in handlers.webhooks(self.registry, types)]

    def adapt(self, function: Callable[[given.Client, S], Awaitable[S]]) -> None:
        """Register a function that adapts the settings: `async (client, settings) -> settings`.

        It is called once, before anything is watched, and retried after each `ApiError`. Every
        replica calls it before one of them leads, so its writes are refused.
        """
        _refuse_plain(function)
        self._adapt = function

    def task(self, function: T) -> T:
        """Register a coroutine function that runs while this replica leads.

        Its arguments are the client and the settings. It is cancelled when this replica leads no
        more. If it fails, it is called again after a pause that grows to half a minute; if it
        returns, it is called again when this replica leads the next time.
        """
        _refuse_plain(function)
        self._tasks.append(function)
        return function

    def rights(self, *rights: Right) -> None:
        """Declare further rights, for example of what `adapt` asks for.

        The generated roles grant them where they grant the others: in the watched namespaces.
        """
        if odd := [right for right in rights if not isinstance(right, Right)]:
            raise TypeError(f"{odd[0]!r} is not a kr.Right")
        self.further_rights += rights

    def run(self, argv: Sequence[str] | None = None) -> int:
        """Run the operator until it is told to stop; return the exit code."""
        settings = self._configured = parse(self.program, self._kind_of_settings, argv)
        logs.configure(settings.log_level, settings.log_format)
        if settings.dry_run:
            return asyncio.run(self._dry_run(settings))
        try:
            credentials.find()
        except kopf.LoginError as error:
            print(f"{self.program.name}: {error}", file=sys.stderr)  # noqa: T201
            return 1
        kopf.on.startup()(self._until_leading)  # after the author's own
        kopf.run(
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=self._stopping,
        )
        return self._exit_code()

    async def _dry_run(self, settings: S) -> int:
        """Print what one pass over all objects would change; return the exit code."""
        self.client = Client(
            self.program.name, self.program.version, settings.request_timeout, self.metrics
        )
        self.client.may_write = lambda: False
        differs = False
        try:
            failed, differs = await self._compare(settings)
        except (errors.DeclarationError, errors.ApiError, kopf.LoginError) as error:
            failed = [str(error)]
        finally:
            await self.client.close()
        for text in failed:
            print(f"{self.program.name}: {logs.escape(text)}", file=sys.stderr)  # noqa: T201
        return 2 if failed else int(differs)

    async def _compare(self, settings: S) -> tuple[list[str], bool]:
        """Print the differences; return what failed, and whether there are any."""
        recorder = Recorder(self.client, settings.identity, self.metrics)
        refuse_odd(self.controllers)
        for controller in self.controllers:
            controller.set_up(self.client, settings, self.metrics, recorder)
        self.client.open(credentials.Credentials(await asyncio.to_thread(credentials.find)))
        if self._adapt is not None:
            settings = await self._adapt(self.client, settings)
        watching: list[asyncio.Future[None]] = []
        for controller in self.controllers:
            controller.settings = settings
            for namespace in settings.namespaces or (None,):
                watching += map(asyncio.ensure_future, controller.reflect(namespace))
        try:
            failed: list[str] = []
            for controller in self.controllers:
                failed += await controller.first_lists()
            differ = [await self._print(controller, failed) for controller in self.controllers]
            return failed, any(differ)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            for controller in self.controllers:
                await controller.close()

    async def _print(self, controller: Engine, failed: list[str]) -> bool:
        """Print the differences of a kind; return whether there are any, and add what failed."""
        differs = False
        for key in sorted(controller.keys()):
            name = f"{controller.kind.kind} {'/'.join(filter(None, key))}"
            try:
                texts = await controller.differences(key)
            except WaitingError as error:  # a reconcile would do nothing
                print(logs.escape(f"# {name}: waits: {error}"))  # noqa: T201
                continue
            except Exception as error:
                failed.append(f"{name}: {error}")
                continue
            differs = differs or bool(texts)
            print("".join(texts), end="")  # noqa: T201
        return differs

    # --- kopf's activities --------------------------------------------------------------------

    async def _start(self, settings: kopf.OperatorSettings, memo: Any = None, **more: Any) -> None:
        configured = self._configured or self._from_environment()
        warn_of_unknown(self.program, self._kind_of_settings)
        tracing.set_up(self.program.name, self.program.version)
        settings.networking.request_timeout = configured.request_timeout
        # Only kopf's own handlers need kopf's watches of CRDs and namespaces.
        settings.scanning.disabled = True
        discovery.forgive(self.registry)
        # First of all: kopf calls this again if it fails, and a port can be bound only once.
        opened = credentials.Credentials(await asyncio.to_thread(credentials.find))
        self.client = Client(
            self.program.name, self.program.version, configured.request_timeout, self.metrics
        )
        try:
            await fence.prove()
        except fence.FenceError as error:
            sys.exit(
                f"{self.program.name}: aiohttp {aiohttp.__version__} would send what the fence "
                f"refuses ({error}); install one that kopf-runtime supports."
            )
        self._recorder = Recorder(self.client, configured.identity, self.metrics)
        try:
            refuse_odd(self.controllers)
            for controller in self.controllers:
                controller.set_up(self.client, configured, self.metrics, self._recorder)
            webhooks = self.webhooks
            asked = self._asked(settings, memo, more)
            reviews = Reviews(
                filter(None, (controller.versions for controller in self.controllers)),
                [(path, webhook.answer) for path, webhook in asked],
            )
            crds = [controller.kind for controller in self.controllers if controller.versions]
            if reviews.routes and configured.webhook_bind_address and configured.webhook_secret:
                self._certificates = Certificates(self.client, configured, webhooks, crds)
        except errors.DeclarationError as error:
            sys.exit(f"{self.program.name}: {error}.")
        except ImportError as error:
            name = self.program.name
            sys.exit(f"{name}: --webhook-secret needs kopf-runtime[webhooks]: {error}.")
        self.metrics.last_resync.set_function(
            lambda: min(filter(None, map(Engine.last_resync, self.controllers)), default=0.0)
        )
        # The API server asks ready replicas alone, and a cache of a converted kind needs answers.
        converts = configured.webhook_bind_address and crds
        ready = self._answers if converts else self._ready
        try:
            await self._server.start(
                configured,
                self.client,
                self._healthy,
                ready,
                reviews.routes,
                self._certificates.context if self._certificates else None,
            )
        except CertificateError as error:
            sys.exit(f"{self.program.name}: {error}.")
        except OSError as error:  # kopf would retry forever; leave that to the supervisor
            sys.exit(
                f"{self.program.name}: {error.strerror}. Choose another --metrics-bind-address, "
                "--health-probe-bind-address or --webhook-bind-address, or end the process that "
                "uses it."
            )
        # Only now: what ends the process above leaves no open session.
        self.client.open(opened)
        self._task = asyncio.create_task(self._run(configured), name=self.program.name)
        self._task.add_done_callback(self._ended)
        if self._configured is not None:  # not under `kopf run`
            asyncio.get_running_loop().call_soon(self._catch_signals)  # after kopf has set its own
        else:
            await self._until_leading()

    def _asked(
        self, settings: kopf.OperatorSettings, memo: Any, more: dict[str, Any]
    ) -> Iterator[tuple[str, Asking]]:
        """Yield what answers the API server before a write, with its path.

        It takes what kopf gives to startup handlers.
        """
        for controller in self.controllers:
            yield from controller.asked()
        indexes = {name: part for name, part in more.items() if isinstance(part, kopf.Index)}

        async def giving() -> dict[str, Any]:
            await self._set_up.wait()
            return {"settings": settings, "memobase": memo, "indices": indexes}

        handled = self._handled()
        for webhook in filter(None, handled):
            yield webhook.path, Handled(webhook, self.client.user, giving)
        if all(handled):  # else the author has to set a server for those that are not ours
            settings.admission.server = _elsewhere

    async def _until_leading(self, **_: Any) -> None:
        """Hold up kopf, which watches nothing and calls no other handler before it has started."""
        self._set_up.set()
        if not self._handlers_on_standby:
            await self._leads.wait()

    async def _clean_up(self, **_: Any) -> None:
        await self._stop()

    async def _login(self, **_: Any) -> kopf.ConnectionInfo | kopf.AiohttpSession:
        """Return kopf's session; what it writes on the leader alone is fenced."""
        info = await asyncio.to_thread(credentials.find)
        if self._handlers_on_standby:
            return info
        session = self.client.fenced(
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

    def _from_environment(self) -> S:
        """Return the settings under `kopf run`, whose own flags select the watched namespaces."""
        parameters = getattr(click.get_current_context(silent=True), "params", {})
        names = [f"--namespace={name}" for name in parameters.get("namespaces") or ()]
        everywhere = ["-A"] if parameters.get("clusterwide") else []
        return parse(self.program, self._kind_of_settings, names or everywhere)

    def _catch_signals(self) -> None:
        """Stop on the first signal, exit on the second; kopf's own handlers fail on the second."""

        def caught(number: int) -> None:
            if self._stopping.is_set():
                os._exit(128 + number)
            self._stopping.set()
            # The next leader waits for the Lease, so it is released at once; but not before what
            # kopf runs on the leader has ended: daemons and timers may take a while.
            if not (self._leads.is_set() and self._acts_on_leader):
                self._release = asyncio.ensure_future(self._stop())

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, caught, number)

    @property
    def _acts_on_leader(self) -> bool:
        """Whether kopf runs handlers that may act on the leader alone."""
        return not self._handlers_on_standby and _has_handlers()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the process if the controllers failed, so that the supervisor restarts it."""
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, ExceptionGroup) and error.subgroup(LeadershipLostError):
                logger.critical("This replica ends: kopf's handlers may run on the leader alone")
            else:
                logger.critical("The operator failed", exc_info=error)
            signal.raise_signal(signal.SIGTERM)

    def _exit_code(self) -> int:
        """Return 1 if the controllers failed, else 0."""
        task = self._task
        return int(bool(task and task.done() and not task.cancelled() and task.exception()))

    async def _stop(self) -> None:
        """Stop working and release the Lease; further calls wait for the first."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop_once(), name="stop")
        await asyncio.shield(self._stopped)

    async def _stop_once(self) -> None:
        if self._task is not None:
            self._task.remove_done_callback(self._ended)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
        await self._server.stop()  # the last reviews may read, too
        if self._task is not None:
            for controller in self.controllers:
                await controller.close()
            await self.client.close()

    # --- work ---------------------------------------------------------------------------------

    async def _run(self, settings: S) -> None:
        async with asyncio.TaskGroup() as group:
            if self._certificates is not None:  # `adapt` may read what has to be converted
                group.create_task(self._certificates.run(), name="certificates")
            settings = await self._adapted(settings)
            for controller in self.controllers:
                controller.settings = settings
            for controller in self.controllers:
                for namespace in settings.namespaces or (None,):
                    for reflecting in controller.reflect(namespace):
                        group.create_task(reflecting)
            group.create_task(self._recorder.run(), name="events")
            group.create_task(self._tell_ready(), name="ready")
            work = functools.partial(self._work, settings)
            if settings.leader_elect:
                election = Election(self.client, settings, self.metrics)
                self.client.may_write = election.leads
                group.create_task(election.lead(work), name="election")
            else:
                self.client.may_write = lambda: True
                self.metrics.leader.set(1)
                group.create_task(work(), name="work")

    async def _adapted(self, settings: S) -> S:
        """Return the settings adapted to the cluster; retry until it answers."""
        backoff = Backoff()
        while self._adapt is not None:
            try:
                return await self._adapt(self.client, settings)
            except errors.ApiError as error:
                logger.warning("The cluster cannot be examined yet; asking again: %s", error)
                await asyncio.sleep(max(error.after, backoff.next()))
        return settings

    async def _work(self, settings: S) -> None:
        """Reconcile until cancelled; raise `LeadershipLostError` if kopf's handlers run on."""
        self._leads.set()
        try:
            async with asyncio.TaskGroup() as group:
                for controller in self.controllers:
                    group.create_task(controller.work())
                for function in self._tasks:
                    group.create_task(self._keep(function, settings), name="task")
                kinds = list(filter(None, (controller.versions for controller in self.controllers)))
                if settings.migrate_storage and kinds:
                    migration = Migration(self.client, kinds, self.metrics)
                    group.create_task(self._keep(migration.run, settings), name="migration")
        except asyncio.CancelledError:
            if self._stopped is None and self._acts_on_leader:
                raise LeadershipLostError from None
            raise

    async def _keep(
        self, function: Callable[[given.Client, S], Awaitable[None]], settings: S
    ) -> None:
        """Run an author's task until it returns; call it again after each failure."""
        backoff = Backoff()
        while True:
            began, after = time.monotonic(), 0.0
            try:
                return await ending(function(self.client, settings))
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                logger.error("A task ended, because what it awaited was cancelled")
            except errors.ApiError as error:
                after = error.after
                logger.warning("A task failed: %s", error)
            except Exception:
                logger.exception("A task failed")
            if time.monotonic() - began > errors.MAX_PAUSE_SECONDS:
                backoff.reset()
            await asyncio.sleep(max(after, backoff.next()))

    async def _tell_ready(self) -> None:
        while self._ready():  # noqa: ASYNC110 (any source may change it)
            await asyncio.sleep(0.05)
        sources = [source for controller in self.controllers for source in controller.sources]
        counts = ", ".join(f"{len(list(source))} {source.kind.plural}" for source in sources)
        logger.info("Ready; there are %s", counts)

    def _healthy(self) -> str:
        if self._task is None or self._task.done():
            return "the operator has ended"
        age = max(controller.queue.longest_running() for controller in self.controllers)
        return f"a step of a reconcile has been under way for {age:.0f} s" if age > STUCK else ""

    def _answers(self) -> str:
        """Return why the API server cannot ask the webhooks, empty if it can."""
        return self._healthy() or (self._certificates.untrusted if self._certificates else "")

    def _ready(self) -> str:
        """Return why nothing is served, empty if something is; metrics and logs tell the rest."""
        unserved: list[str] = []
        for controller in self.controllers:
            waiting, served = controller.unserved()
            if served:
                return self._answers()
            unserved += waiting
        return "; ".join(unserved[:5]) or "nothing is served yet"


async def _elsewhere(_: Any) -> AsyncIterator[Any]:
    """Stand in for a server of kopf's, without which it does not start: ours asks its handlers."""
    await asyncio.Event().wait()
    yield


def refuse_odd(controllers: Sequence[Controller]) -> None:
    """Raise `DeclarationError` if there is no controller, or if two serve one kind."""
    if not controllers:
        raise errors.DeclarationError(
            "the manager has no controller; declare one with manager.controller_for(CLASS), or "
            "run handlers of kopf alone with `kopf run`, without a manager"
        )
    kinds = [controller.kind for controller in controllers]
    if twice := [kind.kind for kind in kinds if kinds.count(kind) > 1]:
        raise errors.DeclarationError(
            f"{twice[0]} has more than one controller; declare all about a kind with one"
        )


def _refuse_plain(function: Any) -> None:
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", str(function))
        raise TypeError(f"{name} must be a coroutine function: write `async def {name}`")


def _has_handlers() -> bool:
    """Return whether the author has registered handlers of kopf that act on objects.

    kopf has no public name for this; a test notices if it moves.
    """
    registry = kopf.get_default_registry()
    acting = registry._watching, registry._changing, registry._spawning, registry._indexing
    return any(part.get_all_handlers() for part in acting)
