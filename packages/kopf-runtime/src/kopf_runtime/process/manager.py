"""The process: starts the controllers on kopf, elects a leader, serves the endpoints, and stops.

kopf runs the process, handles its signals, provides `kopf run`, and calls any handler that an
author adds: on the leader alone, unless it is of admission. The runtime watches, reconciles and
writes on its own, with a session of its own.
"""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import kopf

from kopf_runtime.cluster import credentials, tracing
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import errors, given
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.calls import plain, refuse_plain
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import Backoff
from kopf_runtime.declaring.foreign import foreign
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import Object, Resource
from kopf_runtime.declaring.parsers import DNS_LABEL
from kopf_runtime.declaring.rights import PolicyRule
from kopf_runtime.declaring.settings import Program, Settings, parse, warn_of_unknown
from kopf_runtime.endpoints.web import CertificateError, Server
from kopf_runtime.process import activity
from kopf_runtime.process.beside_kopf import BesideKopf, login
from kopf_runtime.process.lease import Election
from kopf_runtime.process.runtime import Runtime, built, own
from kopf_runtime.reporting import logs
from kopf_runtime.reporting.events import Deps, Recorder
from kopf_runtime.working.ending import keep

# An operator that the API server asks nothing imports nothing of that.
if TYPE_CHECKING:
    from aiohttp import web

    from kopf_runtime.converting.versions import Versions
    from kopf_runtime.endpoints.certificates import Certificates
    from kopf_runtime.working.admission import Asking

logger = logging.getLogger(__name__)

#: Seconds after which a step is stuck: what makes many requests tells its progress.
STUCK = 300.0

S = TypeVar("S", bound=Settings)
Task = TypeVar("Task", bound=Callable[[given.Client, Any], Awaitable[None]])


class LeadershipLostError(Exception):
    """This replica does not lead any more, and kopf cannot stop the handlers that it runs."""


class Manager(Generic[S]):
    """An operator: its name, its settings, and a controller for each kind that it serves.

    kopf's own handlers run only while this replica leads: kopf starts them once it does, and the
    process ends when it does not any more. kopf writes nothing after that, and a replica that is
    asked to end releases the Lease once kopf's daemons and timers have ended. Those of
    `@kopf.on.validate` and `@kopf.on.mutate` run on every replica.
    kopf looks only once which kinds there are. If that of a handler may be installed later, set
    `settings.scanning.disabled = False` in a `@kopf.on.startup()` handler below the manager; kopf
    then needs the rights to watch CustomResourceDefinitions and namespaces.
    """

    metrics: Metrics

    def __init__(
        self, name: str, settings: type[S], *, version: str = "", description: str = ""
    ) -> None:
        if not DNS_LABEL.fullmatch(name):  # it is a label's value, and the name of the Lease
            rule = "use 1 to 63 of a-z, 0-9 and '-', no '-' at either end"
            raise ValueError(f"{name!r} cannot name an operator: {rule}")
        self.program = Program(name, version, description)
        self._kind_of_settings = settings
        self._configured: S | None = None
        #: The metrics of the process, to which an author can add some.
        self.metrics = Metrics(name, version)
        self.controllers: list[Controller] = []
        self.runtimes: list[Runtime] = []
        #: What its roles grant beside what its controllers need.
        self.policy_rules: list[PolicyRule] = []
        self._own: list[Callable[[], str]] = []  # why it is not ready, as the author sees it
        self._server = Server(self.metrics)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None
        self._adapt: Callable[[given.Client, S], Awaitable[S]] | None = None
        self._tasks: list[Callable[[given.Client, S], Awaitable[None]]] = []
        #: kopf's own handlers, which run beside the controllers.
        self.beside = BesideKopf(lambda: [each.declaration.type for each in own(self.controllers)])
        self._certificates: Certificates | None = None
        self._election: Election | None = None
        kopf.on.startup()(self._start)
        kopf.on.cleanup()(self._stop)
        kopf.on.login(backoff=5)(self._login)

    def controller_for(
        self,
        kind: Kind | type[Resource],
        type_: type[Object] = Object,
        *,
        where: Mapping[str, Any] | None = None,
        annotation: str = "",
        condition: str = "",
        transform: Callable[[Any], Any] | None = None,
        workers: int | None = None,
    ) -> Controller:
        """Return the controller of a class's kind; `status` gets what `transform` returns.

        For a `Kind` that others define, `type_` is the class of what is read of its objects, and
        `where`, as `{"labels": {"app": "web"}}`, selects those that are served. The state goes into
        Events, the metric `unready_objects`, and an `annotation` or a `condition`, by its type.
        `workers` is the number of its reconciles that run at once, by default that of `--workers`.
        Raise `TypeError` or `ValueError` if this cannot be meant.
        """
        if isinstance(kind, Kind):
            theirs = foreign(where, annotation, condition, type_)
            controller = Controller(kind, type_, transform, workers, theirs)
        else:
            if where is not None or annotation or condition or type_ is not Object:
                raise TypeError("type_=, where=, annotation=, condition=: for a kind of others")
            controller = Controller(declared(kind).kind, kind, transform, workers)
        self.controllers.append(controller)
        return controller

    @property
    def webhooks(self) -> list[Webhook]:
        """What the API server calls before a write, kopf's handlers too; or `DeclarationError`."""
        own = [hook for controller in self.controllers for hook in controller.declaration.webhooks]
        handled = self.beside.webhooks()
        names = [(webhook.kind, webhook.name) for webhook in (*own, *handled)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise errors.DeclarationError(
                f"two functions are the {' webhook '.join(twice[0])}; rename one of them"
            )
        return own + handled

    def adapt(self, function: Callable[[given.Client, S], Awaitable[S]]) -> None:
        """Register a function that adapts the settings: `async (client, settings) -> settings`.

        It is called once, before anything is watched, and retried after each `ApiError`. Every
        replica calls it before one of them leads, so its writes are refused.
        """
        refuse_plain(function)
        self._adapt = function

    def ready(self, function: Callable[[], str]) -> Callable[[], str]:
        """Register a function that says why the operator is not ready, or nothing.

        It is called each second; if it fails, the operator is not ready. Where versions are
        converted, only the log says so: without a ready replica, nobody could read objects.
        """
        self._own.append(activity.guarded(plain(function)))
        return function

    def task(self, function: Task) -> Task:
        """Register a coroutine function that runs while this replica leads.

        Its arguments are the client and the settings. It is cancelled when this replica leads no
        more. If it fails, it is called again after a pause that grows to half a minute; if it
        returns, it is called again when this replica leads the next time.
        """
        refuse_plain(function)
        self._tasks.append(function)
        return function

    def rbac(self, *rules: PolicyRule) -> None:
        """Declare further rights, for example of what `adapt` asks for.

        The generated roles grant them where they grant the others: in the watched namespaces.
        """
        if odd := [rule for rule in rules if not isinstance(rule, PolicyRule)]:
            raise TypeError(f"{odd[0]!r} is not a kr.PolicyRule")
        self.policy_rules += rules

    def run(self, argv: Sequence[str] | None = None) -> int:
        """Run the operator until it is stopped; return the exit code."""
        settings = self._configured = parse(self.program, self._kind_of_settings, argv)
        logs.configure(settings.log_level, settings.log_format)
        if settings.dry_run:
            return asyncio.run(self._dry_run(settings))
        try:
            credentials.find()
        except kopf.LoginError as error:
            print(f"{self.program.name}: {error}", file=sys.stderr)  # noqa: T201
            return 1
        kopf.on.startup()(self.beside.until_leading)  # after the author's own
        kopf.run(
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=self._stopping,
        )
        return self._exit_code()

    def _build(self, deps: Deps) -> list[Runtime]:
        """Return the runtimes of all controllers; raise `DeclarationError`."""
        self.runtimes = built(self.controllers, deps)
        return self.runtimes

    async def _dry_run(self, settings: S) -> int:
        from kopf_runtime.process.dry_run import run

        return await run(self.program, settings, self.metrics, self._build, self._adapted_once)

    async def _adapted_once(self, client: Client, settings: S) -> S:
        return settings if self._adapt is None else await self._adapt(client, settings)

    # --- kopf's activities --------------------------------------------------------------------

    async def _start(self, settings: kopf.OperatorSettings, memo: Any = None, **_: Any) -> None:
        configured = self._configured or self._from_environment()
        warn_of_unknown(self.program, self._kind_of_settings)
        name, version = self.program.name, self.program.version
        tracing.set_up(name, version)
        settings.networking.request_timeout = configured.request_timeout
        # Only kopf's own handlers need kopf's watches of CRDs and namespaces.
        settings.scanning.disabled = True
        # First of all: kopf calls this again if it fails, and a port can be bound only once.
        opened = credentials.Credentials(await asyncio.to_thread(credentials.find))
        self.client = client = Client(name, version, configured.request_timeout, self.metrics)
        recorder = Recorder(client, configured.identity, self.metrics)
        self._deps = Deps(client, self.metrics, recorder, configured)
        lends = any(each.declaration.lends_session for each in self.controllers)
        try:
            if lends or self.beside.logs_in(self):
                from kopf_runtime.cluster import sessions

                await sessions.prove()
            self.beside.forgive()
            self._build(self._deps)
            routes = self._routes(self.beside.asked(client, settings, memo))
            self._certify(routes, configured)
        except (errors.DeclarationError, ImportError) as error:  # kopf would not end, but try again
            self._end(str(error))
        self.metrics.last_resync.set_function(self._last_resync)
        await self._serve(routes, configured)
        # Only now: what ends the process above leaves no open session.
        client.open(opened)
        self._task = asyncio.create_task(self._run(configured), name=self.program.name)
        self._task.add_done_callback(self._ended)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, activity.log_tasks, self.runtimes)
        if self._configured is not None:  # not under `kopf run`
            loop.call_soon(self._catch_signals)  # after kopf has set its own
        else:
            await self.beside.until_leading()

    def _end(self, why: str) -> NoReturn:
        sys.exit(f"{self.program.name}: {why}.")

    def _routes(self, handled: "Iterator[tuple[str, Asking]]") -> "list[web.RouteDef]":
        """Return where the API server is answered; raise `DeclarationError`."""
        own = (asked for runtime in self.runtimes for asked in runtime.asked())
        answers = [(path, asking.answer) for path, asking in (*own, *handled)]
        if not (versions := self._versions()) and not answers:
            return []
        from kopf_runtime.endpoints.reviews import Reviews

        return Reviews(versions, answers).routes

    def _versions(self) -> "list[Versions]":
        """Return the kinds of several versions; raise `DeclarationError`."""
        several = [each.declaration for each in self.controllers if each.declaration.conversions]
        if not several:
            return []
        from kopf_runtime.converting.versions import Versions

        return [versions for versions in map(Versions.of, several) if versions is not None]

    def _certify(self, routes: "list[web.RouteDef]", settings: S) -> None:
        """Make a certificate, if something is asked and nobody else makes one."""
        webhooks, crds = self.webhooks, [versions.kind for versions in self._versions()]
        if routes and settings.webhook_bind_address and settings.webhook_secret:
            try:
                from kopf_runtime.endpoints.certificates import Certificates
            except ImportError as error:
                self._end(f"--webhook-secret needs kopf-runtime[webhooks]: {error}")
            self._certificates = Certificates(self.client, settings, webhooks, crds)

    def _last_resync(self) -> float:
        return min(filter(None, (r.caches.last_resync() for r in self.runtimes)), default=0.0)

    async def _serve(self, routes: "list[web.RouteDef]", settings: S) -> None:
        """Start the endpoints; end the process if that is not possible."""
        # The API server asks ready replicas alone, and a cache of a converted kind needs answers.
        converts = settings.webhook_bind_address and self._versions()
        ready = self._answers if converts else self._ready
        context = self._certificates.context if self._certificates else None
        try:
            await self._server.start(settings, self.client, self._healthy, ready, routes, context)
        except CertificateError as error:
            self._end(str(error))
        except OSError as error:  # kopf would retry forever; leave that to the supervisor
            self._end(
                f"{error.strerror}. Choose another --metrics-bind-address, "
                "--health-probe-bind-address or --webhook-bind-address, or end what uses it"
            )

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        await self.beside.until_used(self)
        return await login(self.client)

    def _from_environment(self) -> S:
        """Return the settings under `kopf run`, whose own flags select the watched namespaces."""
        import click  # `kopf run` has loaded it; a start without it is faster

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
            if not self.beside.runs:
                self._release = asyncio.ensure_future(self._stop())

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, caught, number)

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

    async def _stop(self, **_: Any) -> None:
        """Stop working and release the Lease; further calls wait for the first."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop_once(), name="stop")
        await asyncio.shield(self._stopped)

    async def _stop_once(self) -> None:
        self.beside.end()
        if self._task is not None:
            self._task.remove_done_callback(self._ended)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
        await self._server.stop()  # the last reviews may read, too
        if self._task is not None:
            for runtime in self.runtimes:
                await runtime.close()
            await self.client.close()

    # --- work ---------------------------------------------------------------------------------

    async def _run(self, settings: S) -> None:
        async with asyncio.TaskGroup() as group:
            if self._certificates is not None:  # `adapt` may read what has to be converted
                group.create_task(self._certificates.run(), name="certificates")
            settings = await self._adapted(settings)
            self._deps.settings = settings
            for runtime in self.runtimes:
                for namespace in settings.namespaces or (None,):
                    for reflecting in runtime.reflect(namespace):
                        group.create_task(reflecting)
            group.create_task(self._deps.recorder.run(), name="events")
            group.create_task(activity.log_readiness(self._ready, self.runtimes), name="ready")
            work = functools.partial(self._work, settings)
            if settings.leader_elect:
                report = functools.partial(self._deps.recorder.of_replica, settings, "LeaseRefused")
                self._election = election = Election(self.client, settings, self.metrics, report)
                self.client.may_write = election.leads
                group.create_task(election.lead(work), name="election")
            else:
                self.client.may_write = lambda: True
                self.metrics.leader.set(1)
                group.create_task(work(), name="work")

    async def _adapted(self, settings: S) -> S:
        """Return the settings adapted to the cluster; retry until it answers."""
        backoff = Backoff()
        while True:
            try:
                return await self._adapted_once(self.client, settings)
            except errors.ApiError as error:
                logger.warning("The cluster cannot be examined yet; asking again: %s", error)
                await asyncio.sleep(max(error.after, backoff.next()))

    async def _work(self, settings: S) -> None:
        """Reconcile until cancelled; raise `LeadershipLostError` if kopf's handlers run on."""
        self.beside.lead()
        try:
            async with asyncio.TaskGroup() as group:
                for runtime in self.runtimes:
                    group.create_task(runtime.work())
                for function in self._tasks:
                    group.create_task(keep(function, self.client, settings), name="task")
                if settings.migrate_storage and (kinds := self._versions()):
                    from kopf_runtime.working.migration import Migration

                    migration = Migration(self.client, kinds, self.metrics)
                    group.create_task(keep(migration.run, self.client, settings), name="migration")
        except asyncio.CancelledError:
            if self._stopped is None and self.beside.runs:
                raise LeadershipLostError from None
            raise

    def _healthy(self) -> str:
        if self._task is None or self._task.done():
            return "the operator has ended"
        age = max(each.queue.longest_running() for each in self.runtimes)
        return f"a step of a reconcile has been under way for {age:.0f} s" if age > STUCK else ""

    def _answers(self) -> str:
        """Return why the API server cannot ask the webhooks, empty if it can."""
        return self._healthy() or (self._certificates.untrusted if self._certificates else "")

    def _ready(self) -> str:
        """Return why nothing is served, empty if something is; metrics and logs tell the rest."""
        unserved: list[str] = []
        for runtime in self.runtimes:
            waiting, served = runtime.caches.unserved()
            if served:
                never = self._election.why_never() if self._election else ""
                return self._answers() or never or "; ".join(filter(None, (c() for c in self._own)))
            unserved += waiting
        return "; ".join(unserved[:5]) or "nothing is served yet"
