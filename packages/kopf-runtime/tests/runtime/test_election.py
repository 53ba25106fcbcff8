"""A model of the election: the real code of `lease`, with a clock and an API server of the test's.

Several processes, some of one name, compete for a Lease while requests hang, arrive late or are not
answered, processes freeze, stop and are killed, and somebody edits or deletes the Lease. At no
moment may two of them write, by the answer of their own fences; and once the API server is well,
one of them leads in time.
"""

import asyncio
import copy
import random
import selectors
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.process import lease as leases

#: Cases of the default tier, which take about ten seconds.
CASES = 300
#: Seconds of a case in which anything may happen, and after which no request is under way any more.
TROUBLE, FLUSH = 60.0, 15.0
DEFAULTS = Settings(
    identity="operator-0", lease_namespace="ns", lease_name="operator", leader_elect=True
)
#: What may happen to a process or to the Lease.
DEEDS = ("start", "kill", "stop", "freeze", "cut", "empty", "steal", "delete")
running: ContextVar["Process"] = ContextVar("running")


class Passing(selectors.DefaultSelector):
    """Lets the time pass at once, and looks at the world whenever something has happened."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.now, self._look = 1000.0, look

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready, or else let the time pass."""
        self._look()
        if not (ready := super().select(0)):
            assert timeout is not None, "nobody waits for anything any more"
            self.now += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    """An event loop with such a time."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.passing = Passing(look)
        super().__init__(self.passing)

    def time(self) -> float:
        """Return the time of the test."""
        return self.passing.now


@dataclass
class World:
    """An API server, the way to it, and the processes."""

    settings: Settings = DEFAULTS
    #: Returns what happens to a request: seconds until it arrives and until it is answered, each
    #: None if it never is, and an error to answer with.
    fate: Callable[["Process", str], tuple[float | None, float | None, int]] = lambda _, __: (
        0.01,
        0.01,
        0,
    )
    lease: dict[str, Any] | None = None
    version: int = 0
    processes: list["Process"] = field(default_factory=list)
    leaders: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    arriving: set[asyncio.Task[Any]] = field(default_factory=set)

    def note(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time() - 1000:.2f} {text}")

    def look(self) -> None:
        """Check that at most one process may write."""
        writing = [process.election.identity for process in self.processes if process.may_write()]
        if writing and self.leaders[-1:] != writing:
            self.leaders += writing
        assert len(writing) <= 1, "\n".join(["both may write:", *writing, *self.log[-40:]])

    def serve(self, method: str, body: Any) -> dict[str, Any] | int:
        """Do what a request asks for; return the Lease, or the status of a refusal."""
        if method == "POST" and self.lease is not None:
            return 409
        if method != "POST" and self.lease is None:
            return 404
        stored = (self.lease or {}).get("metadata", {})
        if method == "PUT" and body["metadata"]["resourceVersion"] != stored["resourceVersion"]:
            return 409
        if method != "GET":
            self.store(copy.deepcopy(body))
        return copy.deepcopy(self.lease or {})

    def store(self, lease: dict[str, Any] | None) -> None:
        self.version += 1
        self.lease = lease
        if lease is not None:
            lease["metadata"]["resourceVersion"] = str(self.version)
        self.note(f"stored {(lease or {}).get('spec')}")

    def edit(self, **spec: Any) -> None:
        """Change the Lease by hand."""
        if self.lease is not None:
            self.store({**self.lease, "spec": {**self.lease["spec"], **spec}})

    def start(self, name: str = "operator-0") -> "Process":
        self.processes.append(process := Process(self, name))
        return process

    @property
    def leader(self) -> "Process | None":
        return next((process for process in self.processes if process.may_write()), None)


class Process:
    """A process: `freezes` and `cuts` say from when until when it is stopped, and unconnected."""

    def __init__(self, world: World, name: str) -> None:
        settings = replace(world.settings, identity=name)
        self.world, self.sees = world, False
        self.freezes: list[tuple[float, float]] = []
        self.cuts: list[tuple[float, float]] = []
        client: Any = self
        self.election = leases.Election(client, settings, Metrics("m"))
        token = running.set(self)
        self.begun = 0
        self.task = asyncio.create_task(self.election.lead(self._work))
        running.reset(token)

    async def _work(self) -> None:
        self.begun += 1
        await asyncio.Event().wait()

    def may_write(self) -> bool:
        return not self.task.done() and self.election.leads()

    def thawed(self, at: float) -> float:
        """Return when the process can do what is due at this time."""
        return next((end for begin, end in self.freezes if begin <= at < end), at)

    async def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        """Send a request, as `Client` does."""
        body, arrived = copy.deepcopy(body), asyncio.get_running_loop().create_future()
        there, back, status = self.world.fate(self, method)
        if any(begin <= asyncio.get_running_loop().time() < end for begin, end in self.cuts):
            there = None
        self.world.note(f"{self.election.identity} {method} {there} {back} {status}")

        async def arrive() -> None:
            if there is not None:
                await asyncio.sleep(there)
                answer = self.world.serve(method, body) if status != 500 else 500
                if not arrived.done():
                    arrived.set_result(answer)

        self.world.arriving.add(task := asyncio.create_task(arrive()))
        task.add_done_callback(self.world.arriving.discard)
        answer: dict[str, Any] | int = await arrived
        if back is None:
            await asyncio.Event().wait()
        await _until(self.thawed(asyncio.get_running_loop().time() + (back or 0)))
        if isinstance(answer, int) or status:
            raise ApiError(method, path, answer if isinstance(answer, int) else status, "No", "")
        self.sees = True
        return answer

    async def stop(self) -> None:
        """End by a signal, as soon as it can notice it."""
        await _until(self.thawed(asyncio.get_running_loop().time()))
        self.task.cancel()

    def kill(self) -> None:
        """End at once: nothing of it counts any more."""
        self.world.processes.remove(self)
        self.task.cancel()
        self.world.arriving.add(self.task)
        self.world.fate = _without(self, self.world.fate)


def _without(dead: Process, fate: Any) -> Any:
    return lambda process, method: (None, None, 0) if process is dead else fate(process, method)


async def _until(at: float) -> None:
    await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))


@contextmanager
def at_once(monkeypatch: pytest.MonkeyPatch, world: World) -> Iterator[Loop]:
    """Run what `lease` waits for in the time of the test, in which a process may freeze."""
    loop = Loop(world.look)

    async def sleep(seconds: float) -> None:
        await _until(running.get().thawed(loop.time() + seconds))

    def timeout(seconds: float) -> asyncio.Timeout:
        return asyncio.timeout_at(running.get().thawed(loop.time() + seconds))

    waiting = SimpleNamespace(sleep=sleep, timeout=timeout, TaskGroup=asyncio.TaskGroup)
    with monkeypatch.context() as patch:
        patch.setattr(leases, "asyncio", waiting)
        patch.setattr(leases, "clock", loop.time)
        patch.setattr(leases.logger, "disabled", True)
        try:
            yield loop
        finally:
            world.processes.clear()
            world.fate = lambda *_: (None, None, 0)
            while left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left, timeout=2))
            loop.close()


def drawn(rng: random.Random) -> World:
    """Return a world with drawn settings and a drawn way to the API server."""
    # The last two leave little time between one leader's last write and the next one's first.
    duration, deadline, period = rng.choice([(15, 10, 2), (6, 4, 0.5), (10, 9.8, 3), (4, 3.9, 1)])
    timings: dict[str, Any] = {"lease_duration": duration, "lease_renew_deadline": deadline}
    timings["lease_retry_period"] = period
    world = World(replace(DEFAULTS, **timings))
    bad, pace = rng.choice([0.0, 0.05, 0.2, 0.5]), dict[Process, float]()

    def fate(process: Process, _: str) -> tuple[float | None, float | None, int]:
        slowest = pace.setdefault(process, rng.choice([0.05, 0.05, 0.45 * deadline]))
        there, back = rng.uniform(0, 0.05), rng.uniform(0, slowest)
        if rng.random() >= bad:
            return there, back, 0
        late = rng.uniform(0, rng.choice([1.0, deadline]))
        return rng.choice(
            [
                (None, None, 0),  # it never arrives
                (there, None, 0),  # its answer is lost
                (late, None, 0),
                (late, back, 0),
                (there, late, 0),
                (there, back, 500),
                (there, back, 503),  # done, but refused by what is between
            ]
        )

    world.fate = fate
    return world


async def trouble(world: World, rng: random.Random) -> None:
    """Do what an evil administrator does."""
    loop = asyncio.get_running_loop()
    end, quiet = loop.time() + TROUBLE, -1.0
    deadline = world.settings.lease_renew_deadline
    for _ in range(rng.choice([1, 2, 3])):
        world.start(rng.choice(["operator-0", "operator-1"]))
    while loop.time() < end:
        await asyncio.sleep(rng.expovariate(1 / 4))
        process = rng.choice(world.processes) if world.processes else None
        deed = rng.choice([*DEEDS, "start", "stop", "freeze", "cut"])
        world.note(f"{deed} {process and process.election.identity}")
        # Whoever starts just after the Lease of the living was deleted cannot know of them.
        if deed == "start" and len(world.processes) < 4 and loop.time() > quiet:
            world.start(rng.choice(["operator-0", "operator-1"]))
        elif deed == "delete" and all(other.sees for other in world.processes):
            world.store(None)
            quiet = loop.time() + deadline
        elif deed == "empty":
            world.edit(holderIdentity="")
        elif deed == "steal":
            names = [other.election.identity for other in world.processes]
            world.edit(holderIdentity=rng.choice(["thief", *names]))
        elif process is not None and deed == "kill":
            process.kill()
        elif process is not None and deed == "stop":
            world.arriving.add(task := asyncio.create_task(process.stop()))
            task.add_done_callback(world.arriving.discard)
        elif process is not None and deed in ("freeze", "cut"):
            until = min(end, loop.time() + rng.uniform(0, 2.5 * deadline))
            pauses = process.freezes if deed == "freeze" else process.cuts
            pauses.append((loop.time(), until))
        world.processes[:] = [process for process in world.processes if not process.task.done()]


async def case(world: World, rng: random.Random) -> None:
    await trouble(world, rng)
    world.fate = lambda _, __: (0.01, 0.01, 0)
    await asyncio.sleep(FLUSH)
    if not [process for process in world.processes if not process.task.done()]:
        world.start()
    settings, loop = world.settings, asyncio.get_running_loop()
    in_time = loop.time() + settings.lease_duration + settings.lease_retry_period
    while world.leader is None:
        assert loop.time() < in_time, "\n".join(["nobody leads:", *world.log[-40:]])
        await asyncio.sleep(0.1)
    changes = len(world.leaders)
    await asyncio.sleep(10)
    assert len(world.leaders) == changes


def search(monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = random.Random(seed)  # noqa: S311
        with at_once(monkeypatch, world := drawn(rng)) as loop:
            try:
                loop.run_until_complete(case(world, rng))
            except AssertionError as error:
                raise AssertionError(f"seed {seed} of {world.settings}: {error}") from error


def test_c8_no_two_processes_write_and_one_leads_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # One name is written by hand twice.
    search(monkeypatch, [*range(CASES), 1259])


@pytest.mark.long
def test_c8_no_two_processes_ever_write_in_many_more_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    search(monkeypatch, range(CASES, 20 * CASES))


# --- one request at a time ------------------------------------------------------------------------


def begun(monkeypatch: pytest.MonkeyPatch, fates: dict[int, tuple[Any, Any, int]]) -> list[int]:
    """Return how often two replicas began to lead if the first one's renewals fare so."""
    # So rarely that one pause more would be too much.
    world, renewals = World(replace(DEFAULTS, lease_retry_period=3.0)), 0

    def fate(process: Process, method: str) -> tuple[float | None, float | None, int]:
        nonlocal renewals
        if process is world.processes[0] and method == "PUT":
            renewals += 1
            return fates.get(renewals, (0.01, 0.01, 0))
        return 0.01, 0.01, 0

    async def minute() -> list[int]:
        one = world.start("one")
        await asyncio.sleep(1)
        two = world.start("two")
        await asyncio.sleep(60)
        return [one.begun, two.begun]

    world.fate = fate
    with at_once(monkeypatch, world) as loop:
        return loop.run_until_complete(minute())


@pytest.mark.parametrize("fate", [(None, None, 0), (0.01, None, 0), (4.9, None, 0), (9.0, None, 0)])
def test_c2_one_renewal_that_hangs_costs_no_leadership(
    monkeypatch: pytest.MonkeyPatch, fate: tuple[Any, Any, int]
) -> None:
    """Whether it arrives never, at once, shortly before the next one, or after it."""
    assert begun(monkeypatch, {2: fate, 8: fate, 14: fate}) == [1, 0]


def test_c2_two_renewals_that_hang_cost_the_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes half of the deadline. Whoever is answered first after it leads."""
    assert begun(monkeypatch, {4: (None, None, 0), 5: (None, None, 0)}) == [2, 0]
    unanswered = dict.fromkeys(range(4, 50), (None, None, 0))
    assert begun(monkeypatch, unanswered) == [1, 1]


def test_s4_a_renewal_counts_from_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    answers = [0.01, 4.9]
    world.fate = lambda *_: (0.01, answers.pop(0), 0) if answers else (None, None, 0)

    async def lead() -> list[bool]:
        world.store({"metadata": {}, "spec": {}})
        process = world.start()
        await asyncio.sleep(9)  # the renewal was sent at the beginning, and answered at 4.9
        late = [process.may_write()]
        await asyncio.sleep(1.1)
        return [*late, process.may_write()]

    with at_once(monkeypatch, world) as loop:
        assert loop.run_until_complete(lead()) == [True, False]


@pytest.mark.parametrize(("holders", "early"), [(["thief", ""], False), (["", ""], True)])
def test_a_lease_that_was_taken_by_hand_is_not_taken_back_at_once(
    monkeypatch: pytest.MonkeyPatch, holders: list[str], early: bool
) -> None:
    """But one that was only emptied is."""
    world = World()

    async def lead() -> list[bool]:
        process = world.start()
        await asyncio.sleep(1)
        for holder in holders:
            world.edit(holderIdentity=holder)
            await asyncio.sleep(3)  # within the deadline of the last renewal
        leads = process.may_write()
        await asyncio.sleep(15)
        return [leads, process.may_write()]

    with at_once(monkeypatch, world) as loop:
        assert loop.run_until_complete(lead()) == [early, True]


@pytest.mark.parametrize("how", ["killed", "stopped", "stopped as it renews"])
def test_a_lease_is_taken_once_it_is_released_or_expires(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world = World(replace(DEFAULTS, lease_retry_period=4.0))

    async def lead() -> tuple[bool, int]:
        one, two = world.start("one"), world.start("two")
        await asyncio.sleep(5)
        looks = f"{one.election.identity} GET"
        assert sum(looks in line for line in world.log) == 1  # a renewal is one request
        logged = len(world.log)
        if how == "killed":
            one.kill()
            await asyncio.sleep(DEFAULTS.lease_duration)
        else:
            if how != "stopped":
                world.fate = lambda by, _: (0.01, None if by is one else 0.01, 0)
                await asyncio.sleep(4)  # a renewal has arrived, and is not answered
            world.fate = lambda *_: (0.01, 0.3, 0)
            await one.stop()
            await asyncio.sleep(0.1)
            assert not one.election.leads()  # though no answer says yet that it is released
            await asyncio.sleep(4)
        return two.may_write(), len(world.log) - logged

    with at_once(monkeypatch, world) as loop:
        leads, logged = loop.run_until_complete(lead())
    assert leads
    assert logged < 20  # it asks twice in a period


def test_work_ends_in_time_though_a_request_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(replace(DEFAULTS, lease_retry_period=3.0))

    async def lead() -> list[float | None]:
        registry = world.start().election._metrics.registry
        leading = []
        for fate, seconds in ((0.01, 0.01, 0), 2), ((0.01, 0.01, 500), 6), ((None, None, 0), 3):
            world.fate = lambda *_, fate=fate: fate
            await asyncio.sleep(seconds)
            leading.append(registry.get_sample_value("m_leader"))
        return leading

    with at_once(monkeypatch, world) as loop:
        assert loop.run_until_complete(lead()) == [1, 1, 0]
