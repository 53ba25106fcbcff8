"""The tables and the goals, computed from the data, and the pages with them; used by `run`.

Each ratio compares two runs of the same repeat, so other load on the machine affects both. A
`Say` translates labels, which may contain {settings}. Of each page, the parts between marks are
written from the data; people write the rest.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.peers import DEFAULT, FLOOR, MEMCACHED, MEMCACHEDS, OURS, PEERS, TUNED
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

Data = dict[str, Any]
Say = Callable[[str], str]
_KOREAN: dict[str, str] = {
    "plain kopf": "kopf만",
    "controller-runtime, 10 workers, slim cache": "controller-runtime, 워커 10개, 줄인 캐시",
    "backlog of {messages:,} Messages: last Pod": "밀린 Message {messages:,}개: 마지막 파드",
    "backlog of {messages:,} Messages: last status": "밀린 Message {messages:,}개: 마지막 상태",
    "{messages:,} edits: last correct Pod": "수정 {messages:,}건: 마지막 올바른 파드",
    "one create, p50": "하나 생성, p50",
    "CPU of the start and the backlog": "시작과 밀린 작업의 CPU",
    "memory, 10,000 Messages": "메모리, Message 10,000개",
}
#: The pages, each with the translation of the labels; the first pages have one table.
PAGES: dict[str, Say] = {
    "docs/benchmarks.md": str,
    "README.md": str,
    "README.ko.md": lambda label: _KOREAN.get(label, label),
}
#: The columns and the rows of the table on the first pages.
_FIRST = {"kopf-tutorial": "plain kopf", OURS.name: "kopf-runtime", TUNED.name: TUNED.title}
_FIRST_ROWS = (
    "backlog_pod",
    "backlog_status",
    "edit_pod",
    "create_p50",
    "backlog_cpu",
    "rss_10000",
)
_PART = re.compile(r"(<!-- begin: (\w+), by `make bench` -->\n).*?(\n<!-- end -->)", re.DOTALL)
_TITLES = {peer.name: peer.title for peer in (*PEERS, *MEMCACHEDS, FLOOR)}


@dataclass(frozen=True)
class Row:
    """A measured number: how it is shown, and what it may be at most."""

    name: str
    title: str
    unit: str = ""
    digits: int = 2
    #: The goals: for a peer, of the ratio to its number; for ourselves, of the number.
    limits: Mapping[str, float] = field(default_factory=dict)

    def of(self, data: Data, peer: str) -> list[float]:
        """Return a peer's numbers in the row's unit; the data have seconds."""
        factor = 1000 if self.unit == " ms" else 1
        return [factor * number for number in values(data, peer, self.name).values()]


def _limits(one: float, ten: float, **more: float) -> dict[str, float]:
    return {DEFAULT.name: one, TUNED.name: ten, **more}


#: The rows of each table.
_TABLES: dict[str, tuple[Row, ...]] = {
    "speed": (
        Row(
            "backlog_pod",
            "backlog of {messages:,} Messages: last Pod",
            " s",
            2,
            _limits(0.45, 0.7, floor=1.5),
        ),
        Row(
            "backlog_status",
            "backlog of {messages:,} Messages: last status",
            " s",
            2,
            _limits(1.0, 1.1),
        ),
        Row("edit_pod", "{messages:,} edits: last correct Pod", " s", 2, _limits(0.75, 1.0)),
        Row("edit_status", "{messages:,} edits: last status", " s", 2, _limits(1.0, 1.1)),
    ),
    "create": (
        Row("create_p50", "one create, p50", " ms", 1, {DEFAULT.name: 1.0}),
        Row("create_p99", "one create, p99", " ms", 1, {DEFAULT.name: 1.2}),
    ),
    "memory": (
        Row("rss_0", "memory, no Message", " MB", 0, {OURS.name: 45}),
        Row("rss_1000", "memory, 1,000 Messages", " MB", 0, {OURS.name: 55}),
        Row("rss_10000", "memory, 10,000 Messages", " MB", 0, {OURS.name: 85}),
        Row("rss_100000", "memory, 100,000 Messages", " MB", 0),
        Row("start_pod_10000", "start with 10,000 Messages: a new Pod", " s", 1),
        Row(
            "start_pod_100000", "start with 100,000 Messages: a new Pod", " s", 1, {TUNED.name: 1.0}
        ),
        Row("start_cpu_100000", "start with 100,000 Messages: CPU", " s", 1, {TUNED.name: 1.0}),
    ),
    "cpu": (
        Row("start_cpu", "CPU of a start without Messages", " s", 2, {OURS.name: 0.2}),
        Row("backlog_cpu", "CPU of the start and the backlog", " s", 2, _limits(1.0, 1.0)),
        Row("edit_cpu", "CPU of the edits", " s", 2, _limits(1.0, 1.0)),
        Row("slices_busier", "CPU of the busier of two releases, relative to one", "×"),
        Row("slices_both", "CPU of two releases together, relative to one", "×"),
        Row(
            "traced_cpu",
            "CPU of a backlog with traces, relative to one without",
            "×",
            2,
            {OURS.name: 2},
        ),
        Row("writes_create", "writes per create", "", 2, {OURS.name: 3}),
        Row("writes_edit", "writes per edit", "", 2, {OURS.name: 4}),
        Row(
            "writes_idle",
            "writes in {idle:g} idle seconds, except the Lease",
            "",
            0,
            {OURS.name: 0},
        ),
    ),
    "trouble": (
        Row("lost_pod", "backlog, 1% of the answers lost: last Pod", " s", 2, _limits(1.0, 1.0)),
        Row("lost_status", "backlog, 1% of the answers lost: last status", " s", 2),
        Row(
            "late_ratio",
            "CPU of edits and a rest with answers 10 s late, relative to usual",
            "×",
            2,
            {OURS.name: 1.3},
        ),
        Row(
            "beside_ratio",
            "one create while a webhook hangs for {stuck} others, relative to usual",
            "×",
            2,
            {OURS.name: 1.5},
        ),
        Row("failover_sigterm", "failover after SIGTERM", " s", 1, {OURS.name: 2}),
        Row("failover_sigkill", "failover after SIGKILL", " s", 1, {OURS.name: 17}),
        Row(
            "churn_growth",
            "memory after {churn:g} min of churn, relative to before",
            "×",
            2,
            {OURS.name: 1.05},
        ),
    ),
    "memcached": (
        Row("memcached_deployment", "backlog of {memcacheds:,}: last Deployment", " s"),
        Row("memcached_status", "backlog of {memcacheds:,}: last status", " s"),
        Row("memcached_cpu", "CPU of the start and the backlog", " s"),
        Row("memcached_rss", "memory", " MB", 0),
        Row("memcached_writes", "writes per Memcached"),
        Row("convert_p99", "conversion of 100 objects, p99", " ms", 1, {MEMCACHED.name: 5}),
        Row("convert_all", "{reviews:,} conversions of 100 objects", " s"),
        Row("admit_p99", "admission, p99", " ms", 1),
        Row("admit_all", "{reviews:,} admissions", " s"),
    ),
}
#: What has a goal, but no place in a table.
_MORE = (
    Row("writes_delete", "writes per deletion", "", 2, {OURS.name: 0}),
    Row(
        "untraced_cpu",
        "CPU of traces that are off, relative to a backlog's",
        "×",
        4,
        {OURS.name: 0.01},
    ),
    Row("start_ready_10000", "start with 10,000 Messages: ready", " s", 1, {OURS.name: 10}),
    Row("start_writes_10000", "start with 10,000 Messages: writes", "", 0, {OURS.name: 0}),
    *(
        Row(
            f"start_lag_{count}",
            f"start with {count:,} Messages: once ready, the last Pod of two new ones",
            " s",
            1,
            {OURS.name: 1},
        )
        for count in (10_000, 100_000)
    ),
    Row(
        "rss_growth",
        "memory for each Message beyond 10,000, relative to those before",
        "×",
        2,
        {OURS.name: 1},
    ),
    Row(
        "start_growth",
        "start time for each Message beyond 10,000, relative to those before",
        "×",
        2,
        {OURS.name: 1},
    ),
)
_ROWS = {row.name: row for row in (*(row for rows in _TABLES.values() for row in rows), *_MORE)}
#: The figures that decide, against the fastest peer.
_ANSWER = ("rss_10000", "backlog_pod", "create_p50", "backlog_cpu", "start_pod_10000")


def _growth(few: float, many: float) -> float:
    """Return what each Message from 10,000 to 100,000 takes, relative to the first 10,000."""
    return ((many - few) / 90_000) / (few / 10_000)


#: Numbers that are computed from others of the same repeat.
_DERIVED: dict[str, tuple[Callable[[float, float], float], str, str]] = {
    "rss_growth": (_growth, "rss_10000", "rss_100000"),
    "start_growth": (_growth, "start_ready_10000", "start_ready_100000"),
    "churn_growth": (lambda first, last: last / first, "churn_first", "churn_last"),
}


def values(data: Data, peer: str, name: str) -> dict[int, float]:
    """Return a peer's number for each repeat that has it."""
    if name in _DERIVED:
        compute, *names = _DERIVED[name]
        one, other = (values(data, peer, each) for each in names)
        return {repeat: compute(one[repeat], other[repeat]) for repeat in one if repeat in other}
    return {
        run["repeat"]: run["numbers"][name]
        for run in data["runs"]
        if run["peer"] == peer and run["numbers"].get(name) is not None
    }


def ratios(data: Data, name: str, peer: str, ours: str = OURS.name) -> list[float]:
    """Return our number divided by a peer's, for each repeat that has both."""
    mine, theirs = values(data, ours, name), values(data, peer, name)
    return [mine[repeat] / theirs[repeat] for repeat in mine if theirs.get(repeat)]


def _spread(numbers: list[float], digits: int, unit: str) -> str:
    """Format a median with its spread."""
    low, high = f"{min(numbers):,.{digits}f}", f"{max(numbers):,.{digits}f}"
    middle = f"{median(numbers):,.{digits}f}{unit}"
    return middle if low == high else f"{middle} ({low}–{high})"


@dataclass(frozen=True)
class Goal:
    """A goal with what was measured, and whether it is met."""

    measure: str
    at_most: str
    found: str
    met: bool | None  # None: not measured


def goals(data: Data, say: Say = str) -> list[Goal]:
    """Return the verdict on every goal: a ratio is judged by its median, a number by the worst."""
    judged = []
    for row in _ROWS.values():
        for peer, limit in row.limits.items():
            if peer == _ours(row):
                found = row.of(data, peer)
                met = max(found) <= limit if found else None
                at_most, digits, unit = f"{limit:g}{row.unit}", row.digits, row.unit
            else:
                found = ratios(data, row.name, peer)
                met = median(found) <= limit if found else None
                at_most, digits, unit = f"{limit}× {say(_TITLES[peer])}", 2, "×"
            shown = _spread(found, digits, unit) if found else "—"
            judged.append(Goal(_titled(data, row, say), at_most, shown, met))
    return judged


def parts(data: Data, say: Say = str) -> dict[str, str]:
    """Return the parts of a page that are written from the data, as Markdown, by their marks."""
    return {
        "answer": _answer(data, say),
        **{name: _table(data, rows, say) for name, rows in _TABLES.items()},
        "missed": _missed(data, say),
        "machine": _machine(data, say),
    }


def first(data: Data, say: Say = str) -> dict[str, str]:
    """Return the table of the first pages, by its mark."""
    rows = tuple(_ROWS[name] for name in _FIRST_ROWS)
    return {"first": _table(data, rows, say, _FIRST)}


def written(data: Data) -> dict[str, str]:
    """Return the text of each page, with the parts from these data.

    Raises KitError where a page lacks a mark.
    """
    return {
        name: _page(name, (first if name.startswith("README") else parts)(data, say))
        for name, say in PAGES.items()
    }


def _page(name: str, made: dict[str, str]) -> str:
    text = (paths.CHECKOUT / name).read_text()
    if sorted(mark for _, mark, _ in _PART.findall(text)) != sorted(made):
        raise KitError(f"{name} needs a pair of marks for each of {', '.join(made)}")
    return _PART.sub(lambda part: part[1] + made[part[2]] + part[3], text)


def _titled(data: Data, row: Row, say: Say) -> str:
    return say(row.title).format(**data["settings"])


def _ours(row: Row) -> str:
    """Return which operator of a row is ours."""
    return MEMCACHED.name if row in _TABLES["memcached"] else OURS.name


def _number(data: Data, peer: str, row: Row) -> str | None:
    found = row.of(data, peer)
    return f"{median(found):,.{row.digits}f}" if found else None


def _answer(data: Data, say: Say) -> str:
    """Return a list of the figures that decide."""
    lines = []
    for row in (_ROWS[name] for name in _ANSWER):
        if found := ratios(data, row.name, TUNED.name):
            ours, theirs = (f"{_number(data, peer.name, row)}{row.unit}" for peer in (OURS, TUNED))
            figures = f"{ours}, {say('the peer')} {theirs}"
            lines.append(f"- **{median(found):.2f}×** {_titled(data, row, say)} ({figures})")
    return "\n".join(lines)


def _table(data: Data, rows: tuple[Row, ...], say: Say, titles: Mapping[str, str] = _TITLES) -> str:
    """Return a table of those rows and operators that were measured."""
    names = [name for name in titles if any(row.of(data, name) for row in rows)]
    if not names:
        return say("Not measured.")
    lines = [
        f"| | {' | '.join(say(titles[name]) for name in names)} |",
        "|---|" + "---|" * len(names),
    ]
    for row in rows:
        if any(row.of(data, name) for name in names):
            unit = f" ({row.unit.strip()})" if row.unit else ""
            cells = " | ".join(_cell(data, row, name, say) for name in names)
            lines.append(f"| {_titled(data, row, say)}{unit} | {cells} |")
    return "\n".join(lines)


def _cell(data: Data, row: Row, peer: str, say: Say) -> str:
    """Return an operator's median, and the ratio of ours to it; bold where the peer is better."""
    number = _number(data, peer, row)
    if number is None:
        runs = (run for run in data["runs"] if run["peer"] == peer)
        return say("never") if any(row.name in run["numbers"] for run in runs) else "—"
    ours = _ours(row)
    found = ratios(data, row.name, peer, ours)
    if peer == ours or not found or not row.unit:
        return number
    ratio = f"{median(found):.2f}×"
    return f"{number} (**{ratio}**)" if round(median(found), 2) > 1 else f"{number} ({ratio})"


_MET = "{met} of {all} measured goals are met: with a peer by the median, else in each run."


def _missed(data: Data, say: Say) -> str:
    """Return how many goals are met, and a table of the others."""
    measured = [goal for goal in goals(data, say) if goal.met is not None]
    missed = [goal for goal in measured if not goal.met]
    count = say(_MET).format(met=len(measured) - len(missed), all=len(measured))
    if not missed:
        return count
    heads = map(say, ("not met", "goal: at most", "median (spread)"))
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|"]
    lines += [f"| {goal.measure} | {goal.at_most} | {goal.found} |" for goal in missed]
    return "\n".join([count, "", *lines])


def _machine(data: Data, say: Say) -> str:
    """Return where, when and how the data were measured."""
    measured = data["measured"].values()
    whens = [measure["when"] for measure in measured]
    told = say(
        "{repeats} repeats, from {first} to {last}, on {processors} processors ({cpu}), {memory}, "
        "{system}; the load average was at most {load:.1f} before a measurement."
    ).format(
        first=min(whens),
        last=max(whens),
        load=max(load for measure in measured for load in measure["load"]),
        **data["machine"],
        **data["settings"],
    )
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    return f"{told}\n\n{versions}."
