"""The tables and the verdicts, computed from the data, and the pages with them; used by `run`.

Each ratio compares two runs of the same repeat, so other load on the machine affects both. A
`Say` translates labels, which may contain {settings}. Of each page, the part between two marks is
written of the data; people write the rest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench import korean
from bench.peers import DEFAULT, FLIGHTTICKET, MEMCACHEDS, OURS, PEERS, TUNED
from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError

Data = dict[str, Any]
Say = Callable[[str], str]
#: The pages in docs/, each with the translation of the tables' labels.
PAGES: dict[str, Say] = {"benchmarks.md": str, "benchmarks.ko.md": korean.said}
_BEGIN, _END = "<!-- begin: written by `make bench` -->", "<!-- end -->"
FLOOR = "floor"
_TITLES = {
    **{peer.name: peer.title for peer in (*PEERS, *MEMCACHEDS, FLIGHTTICKET)},
    FLOOR: "the floor: a bare client",
}


def values(data: Data, peer: str, name: str) -> dict[int, float]:
    """Return a peer's number for each repeat."""
    return {
        run["repeat"]: run["numbers"][name]
        for run in data["runs"]
        if run["peer"] == peer and run["numbers"].get(name) is not None
    }


def ratios(data: Data, name: str, peer: str) -> list[float]:
    """Return our number divided by a peer's, for each repeat that has both."""
    ours, theirs = values(data, OURS.name, name), values(data, peer, name)
    return [ours[repeat] / theirs[repeat] for repeat in ours if theirs.get(repeat)]


def spread(numbers: Iterable[float], digits: int = 2, unit: str = "") -> str:
    """Format a median with its spread."""
    found = sorted(numbers)
    if not found:
        return "—"
    middle = f"{median(found):,.{digits}f}{unit}"
    if len(found) == 1 or f"{found[0]:.{digits}f}" == f"{found[-1]:.{digits}f}":
        return middle
    return f"{middle} ({found[0]:,.{digits}f}–{found[-1]:,.{digits}f})"


@dataclass(frozen=True)
class Goal:
    """A row of the goals' table: the measured value, and whether it meets the goal."""

    measure: str
    at_most: str
    found: str
    met: bool | None  # None: not measured


_Goals = Callable[[Data, Say], Iterable[Goal]]


def _ratio(measure: str, name: str, limits: dict[str, float]) -> _Goals:
    def goals(data: Data, say: Say) -> Iterable[Goal]:
        for peer, limit in limits.items():
            found = ratios(data, name, peer)
            yield Goal(
                say(measure), f"{limit} × {say(_TITLES[peer])}", spread(found, 2, " ×"),
                median(found) <= limit if found else None,
            )  # fmt: skip

    return goals


def _limit(measure: str, name: str, limit: float, unit: str, digits: int = 1) -> _Goals:
    def goals(data: Data, say: Say) -> Iterable[Goal]:
        found = list(values(data, OURS.name, name).values())
        yield Goal(
            say(measure), f"{limit:g}{say(unit)}", spread(found, digits, say(unit)),
            max(found) <= limit if found else None,
        )  # fmt: skip

    return goals


def _linear(data: Data, say: Say) -> Iterable[Goal]:
    """Judge the growth from 10,000 Messages to 100,000, per additional Message."""
    for title, name, unit, factor in (
        ("memory per additional Message, from 10,000 to 100,000", "rss", "KiB", 1024),
        ("start time per additional Message, from 10,000 to 100,000", "start_ready", "ms", 1000),
    ):
        few = values(data, OURS.name, f"{name}_10000").get(0)
        many = values(data, OURS.name, f"{name}_100000").get(0)
        found = "—" if few is None or many is None else (
            say("{more:.2f} {unit} (of the first 10,000: {first:.2f} {unit})").format(
                more=factor * (many - few) / 90_000, first=factor * few / 10_000, unit=unit
            )
        )  # fmt: skip
        met = None if few is None or many is None else (many - few) / 90_000 <= few / 10_000
        yield Goal(say(title), say("as for the first 10,000"), found, met)


def _prompt(data: Data, say: Say) -> Iterable[Goal]:
    pod, ready = (values(data, OURS.name, f"start_{one}_100000") for one in ("pod", "ready"))
    late = [pod[repeat] - ready[repeat] for repeat in pod if repeat in ready]
    yield Goal(
        say("… to that Pod, once it is ready"), "1 s", spread(late, 1, " s"),
        max(late) <= 1 if late else None,
    )  # fmt: skip


def _churn(data: Data, say: Say) -> Iterable[Goal]:
    first = values(data, OURS.name, "churn_first")
    last = values(data, OURS.name, "churn_last")
    grown = [last[repeat] / first[repeat] - 1 for repeat in first if repeat in last]
    yield Goal(
        say("memory after {churn:g} min of churn").format(**data["settings"]),
        say("5% more than before"),
        spread([100 * one for one in grown], 1, "%"),
        max(grown) <= 0.05 if grown else None,
    )  # fmt: skip


def _either(one: float, ten: float, **more: float) -> dict[str, float]:
    return {DEFAULT.name: one, TUNED.name: ten, **more}


_GOALS: tuple[_Goals, ...] = (
    _ratio("backlog, to the last Pod", "backlog_pod", _either(0.45, 0.7, floor=1.5)),
    _ratio("backlog, to the last status", "backlog_status", _either(1.0, 1.1)),
    _ratio("live edits, to the last correct Pod", "edit_pod", _either(0.75, 1.0)),
    _ratio("live edits, to the last status", "edit_status", _either(1.0, 1.1)),
    _ratio("one create, p50", "create_p50", {DEFAULT.name: 1.0}),
    _ratio("one create, p99", "create_p99", {DEFAULT.name: 1.2}),
    _ratio("backlog with 1% of the answers lost, to the last Pod", "lost_pod", _either(1.0, 1.0)),
    _limit(
        "one create while a webhook hangs for other Messages, p50", "beside_ratio", 1.5,
        " × the usual", 2,
    ),
    _limit("writes per create (Pod, status, Event)", "writes_create", 3, "", 2),
    _limit("writes per edit (DELETE, POST, status, Event)", "writes_edit", 4, "", 2),
    _limit("writes per deletion", "writes_delete", 0, "", 2),
    _limit("writes while idle, except the Lease", "writes_idle", 0, "", 0),
    _ratio("CPU of the backlog, including the start", "backlog_cpu", _either(1.0, 1.0)),
    _ratio("CPU of the live edits", "edit_cpu", _either(1.0, 1.0)),
    _limit("CPU of tracing while it is off", "untraced_cpu", 0.01, " × the backlog's", 4),
    _limit("CPU of the backlog while it is traced", "traced_cpu", 2, " × that without traces", 2),
    _limit("memory, no Message", "rss_0", 60, " MB"),
    _limit("memory, 1,000 Messages", "rss_1000", 60, " MB"),
    _limit("memory, 10,000 Messages", "rss_10000", 95, " MB"),
    _linear,
    _churn,
    _limit("start with 10,000 correct Messages, to ready", "start_ready_10000", 10, " s"),
    _limit("writes during that start", "start_writes_10000", 0, "", 0),
    _ratio(
        "start with 100,000 correct Messages: to a new one's Pod", "start_pod_100000",
        {TUNED.name: 1.0},
    ),
    _prompt,
    _ratio("CPU of that start", "start_cpu_100000", {TUNED.name: 1.0}),
    _limit("failover, SIGTERM", "failover_sigterm", 2, " s"),
    _limit("failover, SIGKILL (Lease of 15 s)", "failover_sigkill", 17, " s"),
)  # fmt: skip

#: A row of a table: (name, title, unit, digits, factor).
_Row = tuple[str, str, str, int, float]

_ROWS: tuple[_Row, ...] = (
    ("backlog_pod", "backlog of {n} Messages: start to last Pod", "s", 2, 1),
    ("backlog_status", "… to last status", "s", 2, 1),
    ("edit_pod", "{n} live edits: to last correct Pod", "s", 2, 1),
    ("edit_status", "… to last status", "s", 2, 1),
    ("create_p50", "one create: to its Pod, p50", "ms", 1, 1000),
    ("create_p99", "… p99", "ms", 1, 1000),
    ("lost_pod", "backlog of {n}, 1% of the answers lost: start to last Pod", "s", 2, 1),
    ("lost_status", "… to last status", "s", 2, 1),
    ("usual_p50", "one create, of {beside} in a row: p50", "ms", 1, 1000),
    ("beside_p50", "… while a webhook hangs for {stuck} other Messages", "ms", 1, 1000),
    ("backlog_cpu", "operator's CPU, backlog (including the start)", "s", 2, 1),
    ("edit_cpu", "operator's CPU, live edits", "s", 2, 1),
    ("writes_create", "writes per create", "", 2, 1),
    ("writes_edit", "writes per edit", "", 2, 1),
    ("writes_delete", "writes per deletion", "", 2, 1),
    ("writes_idle", "writes while idle for {idle:g} s", "", 0, 1),
    ("rss_0", "memory, no Message", "MB", 0, 1),
    ("rss_1000", "memory, 1,000 Messages", "MB", 0, 1),
    ("rss_10000", "memory, 10,000 Messages", "MB", 0, 1),
    ("rss_100000", "memory, 100,000 Messages", "MB", 0, 1),
    ("start_pod_10000", "start with 10,000 correct Messages: to a new one's Pod", "s", 1, 1),
    ("start_ready_10000", "… to ready", "s", 1, 1),
    ("start_cpu_10000", "… CPU", "s", 1, 1),
    ("start_rss_10000", "… memory", "MB", 0, 1),
    ("start_pod_100000", "start with 100,000 correct Messages: to a new one's Pod", "s", 1, 1),
    ("start_ready_100000", "… to ready", "s", 1, 1),
    ("start_cpu_100000", "… CPU", "s", 1, 1),
    ("start_rss_100000", "… memory", "MB", 0, 1),
)


_MEMCACHED_ROWS: tuple[_Row, ...] = (
    ("memcached_deployment", "backlog of {memcacheds:,} Memcacheds: start to last Deployment",
     "s", 2, 1),
    ("memcached_status", "… to last status", "s", 2, 1),
    ("memcached_cpu", "operator's CPU, backlog (including the start)", "s", 2, 1),
    ("memcached_rss", "memory", "MB", 0, 1),
    ("memcached_writes", "writes per Memcached", "", 2, 1),
)  # fmt: skip
_FLIGHTTICKET_ROWS: tuple[_Row, ...] = (
    (
        "flightticket_status",
        "backlog of {tickets:,} FlightTickets: start to last status",
        "s",
        1,
        1,
    ),
    ("flightticket_calls", "calls to the booking service per FlightTicket", "", 2, 1),
    ("flightticket_rate", "… in a second; at most {calls:g} are allowed", "", 1, 1),
    ("flightticket_bookings", "bookings per FlightTicket", "", 2, 1),
    ("flightticket_cpu", "operator's CPU, backlog (including the start)", "s", 2, 1),
    ("flightticket_rss", "memory", "MB", 0, 1),
    ("flightticket_writes", "writes per FlightTicket, to the API server", "", 2, 1),
)


def goals(data: Data, say: Say = str) -> list[Goal]:
    """Return the verdict on every goal."""
    return [goal for of in _GOALS for goal in of(data, say)]


def tables(data: Data, say: Say = str) -> str:
    """Return all tables as Markdown; those of the examples only once they were measured."""
    heads = ("measure", "goal: at most", "median (spread)", "verdict")
    verdicts = {True: "met", False: "**missed**", None: "not measured"}
    lines = [f"| {' | '.join(map(say, heads))} |", "|---|---|---|---|"]
    lines += [
        f"| {goal.measure} | {goal.at_most} | {goal.found} | {say(verdicts[goal.met])} |"
        for goal in goals(data, say)
    ]
    lines += _table(data, [*(peer.name for peer in PEERS), FLOOR], _ROWS, say)
    for measure, names, rows in (
        ("memcached", [peer.name for peer in MEMCACHEDS], _MEMCACHED_ROWS),
        ("flightticket", [FLIGHTTICKET.name], _FLIGHTTICKET_ROWS),
    ):
        if measure in data["measured"]:
            lines += _table(data, names, rows, say)
    return "\n".join(lines)


def _table(data: Data, names: list[str], rows: tuple[_Row, ...], say: Say) -> list[str]:
    """Return the lines of a table that compares operators, after an empty line."""
    lines = [
        "",
        f"| | {' | '.join(say(_TITLES[name]) for name in names)} |",
        "|---|" + "---|" * len(names),
    ]
    for name, title, unit, digits, factor in rows:
        cells = []
        for peer in names:
            found = [one * factor for one in values(data, peer, name).values()]
            cells.append(spread(found, digits, f" {unit}" if unit else ""))
        titled = say(title).format(n=f"{data['settings']['messages']:,}", **data["settings"])
        lines.append(f"| {titled} | {' | '.join(cells)} |")
    return lines


def _when(name: str, measured: dict[str, Any], say: Say) -> str:
    """Return when a measurement was made, and the machine's load."""
    load = ", ".join(f"{one:.1f}" for one in measured["load"])
    label = "{name} on {when} (load average {load})" if load else "{name} on {when}"
    return say(label).format(name=name, when=measured["when"], load=load)


def told(data: Data, say: Say = str) -> str:
    """Return where, when and how the data were measured, as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    taken = "; ".join(_when(name, one, say) for name, one in data["measured"].items())
    measured = say(
        "Measured by `make bench`, {repeats} repeats, on {processors} processors ({cpu}), "
        "{memory}, {system}: {taken}."
    ).format(taken=taken, **data["machine"], **data["settings"])
    return f"{measured}\n\n{say('Versions')}: {versions}."


def written(data: Data) -> dict[str, str]:
    """Return the text of each page, with the tables of these data.

    Raises HackError where a page lacks a mark.
    """
    return {name: _page(name, data, say) for name, say in PAGES.items()}


def _page(name: str, data: Data, say: Say) -> str:
    head, begun, rest = (paths.CHECKOUT / "docs" / name).read_text().partition(_BEGIN)
    _, ended, foot = rest.partition(_END)
    if not begun or not ended:
        raise HackError(f"docs/{name} lacks the lines {_BEGIN!r} and {_END!r}: put them back")
    picture = f"![{say('Six measures: this operator and its peers')}](benchmarks.png)"
    made = "\n\n".join((picture, told(data, say), tables(data, say)))
    return f"{head}{_BEGIN}\n{made}\n{_END}{foot}"
