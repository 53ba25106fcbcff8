"""The next step, rule by rule."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from etcd_operator.client import Alarm, Listed, Voice
from etcd_operator.decide import Do, Pod, Seen, Step, Wanted, decide, meanwhile, refuse
from etcd_operator.kinds import Compared, Defragmented, Entry, Status

OLD, NEW = "3.6.16", "3.6.17"


def voice(number: int, leader: int = 1, **more: Any) -> Voice:
    version = more.pop("version", OLD)
    return Voice(f"a{number}", "c1", version, f"a{leader}" if leader else "", **more)


def healthy(count: int = 3, size: int | None = None, version: str = OLD) -> Seen:
    """Return a cluster of healthy voters, of which the first one leads."""
    names = [f"c-{n}" for n in range(1, count + 1)]
    entries = [
        Entry(name=name, version=version, template="t", volume=f"v{n}", id=f"a{n}", proved=True)
        for n, name in enumerate(names, 1)
    ]
    return Seen(
        "c",
        Wanted(size or count, version, "t"),
        Status(cluster_id="c1", last_member=count, members=entries, secure=False),
        {name: Pod(f"p-{name}", version, "t", "member", "a", ready=True) for name in names},
        {name: f"v{n}" for n, name in enumerate(names, 1)},
        tuple(Listed(f"a{n}", name) for n, name in enumerate(names, 1)),
        {name: voice(n, version=version) for n, name in enumerate(names, 1)},
        now=1000.0,
    )


def wanting(s: Seen, **changes: Any) -> Seen:
    return replace(s, wanted=replace(s.wanted, **changes))


def latching(s: Seen, **changes: Any) -> Seen:
    return replace(s, latched=structs.replace(s.latched, **changes))


def entry(s: Seen, number: int, **changes: Any) -> Seen:
    members = [
        structs.replace(member, **changes) if member.name == f"c-{number}" else member
        for member in s.latched.members
    ]
    return latching(s, members=members)


def pod(s: Seen, number: int, **changes: Any) -> Seen:
    name = f"c-{number}"
    return replace(s, pods={**s.pods, name: replace(s.pods[name], **changes)})


def silent(s: Seen, *numbers: int, keep_pods: bool = True) -> Seen:
    """Let members stop answering, with or without Pods."""
    gone = {f"c-{n}" for n in numbers}
    pods = {
        name: replace(pod, ready=name not in gone)
        for name, pod in s.pods.items()
        if keep_pods or name not in gone
    }
    return replace(
        s, pods=pods, voices={name: voice for name, voice in s.voices.items() if name not in gone}
    )


def alone(s: Seen, number: int) -> Seen:
    """Lose a member's volume."""
    return replace(s, volumes={k: v for k, v in s.volumes.items() if k != f"c-{number}"})


def learner(s: Seen, number: int, started: bool = False) -> Seen:
    """Make a member a learner that does not answer yet."""
    name = f"c-{number}"
    members = tuple(
        replace(listed, learner=True, started=started) if listed.name == name else listed
        for listed in s.members or ()
    )
    return entry(silent(replace(s, members=members), number), number, proved=False)


def unlisted(s: Seen, number: int, **changes: Any) -> Seen:
    """Make a member one that was only named."""
    name = f"c-{number}"
    members = tuple(listed for listed in s.members or () if listed.name != name)
    s = replace(silent(s, number, keep_pods=False), members=members)
    return entry(alone(s, number), number, **{"id": "", "volume": "", "proved": False, **changes})


def alarmed(s: Seen, number: int, kind: str) -> Seen:
    return replace(s, alarms=(Alarm(f"a{number}", kind),))


def member(step: Step, number: int) -> Entry:
    assert step.do is Do.LATCH, step
    assert step.latched is not None
    return next(entry for entry in step.latched.members if entry.name == f"c-{number}")


# --- adopting what an earlier one has left --------------------------------------------------------


def adopting(**kept: str) -> Seen:
    """Return a cluster that adopts volumes, each with the version that was noted on it."""
    volumes = {name.replace("_", "-"): version for name, version in kept.items()}
    return Seen("c", Wanted(3, OLD, "t", adopt="abcde"), Status(), kept=volumes)


def test_what_is_to_be_adopted_and_is_not_there_is_told() -> None:
    step = decide(adopting())
    assert (step.do, step.why) == (Do.REFUSE, "no PersistentVolumeClaim of c ends with abcde")

    step = decide(adopting(c_2="", c_7=""))
    assert step.latched is not None
    assert step.latched.last_member == 7
    members = [structs.replace(entry, volume="v2") for entry in step.latched.members]
    s = replace(adopting(c_2=""), latched=structs.replace(step.latched, members=members))
    step = decide(replace(s, volumes={"c-2": "v2"}, pods={"c-2": Pod("p", OLD, "t")}))
    assert (step.do, step.why) == (Do.REFUSE, "no volume is left of c-7")


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ({"c_1": OLD}, ""),
        ({"c_1": "3.6.99"}, ""),
        ({"c_1": "3.5.35", "c_2": OLD}, ""),  # it was deleted in the middle of an upgrade
        ({"c_1": ""}, ""),  # nobody has noted it
        ({"c_1": "3.5.35", "c_2": ""}, "the data are of etcd 3.5.35: set spec.version to that"),
        ({"c_1": "3.7.3"}, "the data are of etcd 3.7.3: set spec.version to that"),
    ],
)
def test_data_are_adopted_only_by_the_minor_version_that_they_are_of(
    kept: dict[str, str], why: str
) -> None:
    step = decide(adopting(**kept))

    assert (step.do is Do.REFUSE) == bool(why)
    assert why in step.why


@pytest.mark.parametrize("named", [True, False])
def test_who_answers_on_an_adopted_volume_stays_though_its_peer_url_is_unknown(named: bool) -> None:
    s = healthy(4)  # the fourth one was removed, and does not know it yet
    entries = [structs.replace(entry, id="") for entry in s.latched.members]
    s = latching(wanting(s, adopt="old"), cluster_id="", members=entries)
    s = replace(s, kept=dict.fromkeys(s.volumes, OLD))
    s = replace(s, members=tuple(replace(m, name="", url="https:") for m in s.members or ())[:3])
    step = decide(s)
    assert step.latched is not None
    ids = [(entry.id, entry.leaving) for entry in step.latched.members]
    assert ids == [("a1", ""), ("a2", ""), ("a3", ""), ("", "it is not a member of the cluster")]
    third = replace((s.members or ())[2], name="c-3" if named else "")
    s = silent(replace(s, members=(*(s.members or ())[:2], third)), 3)
    step = decide(s)
    assert (step.do, "a3" in step.why) == ((Do.LATCH if named else Do.REFUSE), not named)


def test_b1_a_learner_of_an_adopted_cluster_has_not_run_as_a_voter() -> None:
    """It lacks data that the voters have, so it may not survive the loss of the quorum."""
    s = healthy(3)
    s = replace(s, voices={**s.voices, "c-3": replace(s.voices["c-3"], learner=True)})
    entries = [structs.replace(e, id="", proved=False) for e in s.latched.members]
    s = latching(wanting(s, adopt="old"), cluster_id="", members=entries)
    step = decide(replace(s, kept=dict.fromkeys(s.volumes, OLD)))
    assert step.latched is not None
    assert [member.ran for member in step.latched.members] == [OLD, OLD, ""]


def test_c1_who_serves_already_is_not_changed_while_the_others_are_adopted() -> None:
    """What is edited meanwhile, such as `spec.tls`, is rolled out once all are there."""
    s = healthy(3)
    entries = [structs.replace(e, id="", proved=False) for e in s.latched.members]
    s = latching(wanting(s, adopt="old", template="new"), cluster_id="", members=entries)
    s = silent(replace(s, kept=dict.fromkeys(s.volumes, OLD)), 3, keep_pods=False)
    assert member(decide(s), 3).template == "new"
    step = decide(entry(s, 3, template="new"))
    assert (step.do, step.member) == (Do.CREATE_POD, "c-3")


# --- forming a cluster --------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["pods", "volumes"])
def test_no_second_cluster_is_formed_beside_one_that_nobody_remembers(gone: str) -> None:
    nothing: dict[str, Any] = {gone: {}}
    s = replace(healthy(3), latched=Status(), members=None, **nothing)
    step = decide(s)
    assert step.do is Do.REFUSE
    assert "the status was lost" in step.why

    forgotten = latching(alone(silent(healthy(3), 1), 1), cluster_id="")
    assert decide(forgotten).do is Do.REFUSE, "its seed is not made anew"


# --- joining ------------------------------------------------------------------------------------


def test_three_learners_that_never_start_are_enough_for_a_while() -> None:
    s = pod(learner(healthy(3), 3, started=False), 3, stuck="crashes")
    step = decide(latching(s, failed_joins=2))
    assert member(step, 3).leaving == "crashes"
    assert step.latched is not None
    assert step.latched.failed_joins == 3
    s = latching(healthy(2, size=3), failed_joins=3, failed_at=990.0)
    assert decide(s).do is Do.REFUSE
    assert decide(replace(s, now=2000.0)).do is Do.LATCH


# --- leaving ------------------------------------------------------------------------------------


def test_the_newest_member_that_does_not_lead_goes_first() -> None:
    s = healthy(12, size=11)
    assert member(decide(s), 12).leaving
    leading = replace(s, voices={n: replace(v, leader="ac") for n, v in s.voices.items()})
    leading = replace(leading, voices={**leading.voices, "c-12": voice(12, leader=12)})
    assert member(decide(leading), 11).leaving


@pytest.mark.parametrize("sick", [1, 2])
def test_nobody_is_added_while_a_member_is_not_healthy(sick: int) -> None:
    s = replace(unlisted(healthy(3), 3), volumes={"c-1": "v1", "c-2": "v2", "c-3": "v3"})

    assert decide(silent(entry(s, 3, volume="v3"), sick)).do is Do.WAIT


def test_a_downgrade_waits_until_each_storage_is_the_older_one() -> None:
    s = wanting(healthy(3, version="3.7.3"), version="3.6.16")
    voices = {n: replace(v, downgrade="3.6.0", storage="3.7.0") for n, v in s.voices.items()}

    assert decide(replace(s, voices=voices)).do is Do.WAIT


def test_a_leader_moves_before_it_leaves() -> None:
    step = decide(entry(healthy(3, size=2), 1, leaving="why"))
    assert (step.do, step.ask) == (Do.MOVE_LEADER, "c-1")


def test_whom_somebody_removed_never_comes_back() -> None:
    s = healthy(3)

    assert member(decide(replace(s, members=(s.members or ())[:2])), 3).leaving


# --- members that are dead ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        lambda s: alone(silent(s, 3), 3),
        lambda s: pod(silent(s, 3), 3, stuck="its node is lost"),
        lambda s: alarmed(s, 3, "CORRUPT"),
    ],
    ids=["volume gone", "stuck", "corrupt"],
)
@pytest.mark.parametrize("others", ["well", "sick"])
def test_a_dead_voter_is_replaced_only_if_the_others_work(broken: Any, others: str) -> None:
    s = broken(healthy(3))
    if others == "well":
        assert member(decide(s), 3).leaving
    else:
        assert decide(silent(s, 2)).do is Do.WAIT


def test_the_only_member_is_not_given_up() -> None:
    s = pod(silent(healthy(1), 1), 1, stuck="crashes")

    assert decide(s).do is Do.REFUSE


def test_a_crash_loop_says_nothing_of_the_data_of_a_member_that_was_just_changed() -> None:
    s = entry(pod(silent(healthy(3), 3), 3, stuck="crashes"), 3, proved=False)

    assert decide(s).do is Do.WAIT


def test_a_pod_that_has_ended_is_made_anew() -> None:
    step = decide(pod(silent(healthy(3), 2), 2, ended=True))

    assert (step.do, step.member) == (Do.DELETE_POD, "c-2")


def test_a_sick_member_goes_first_if_there_are_too_many() -> None:
    assert member(decide(silent(healthy(3, size=2), 2)), 2).leaving


@pytest.mark.parametrize(("count", "does"), [(1, Do.UPDATE), (3, Do.REFUSE)])
def test_a_member_whose_peer_url_somebody_changed_is_no_removed_one(count: int, does: Do) -> None:
    s = healthy(count)
    s = replace(s, members=(Listed("a1", ""), *(s.members or ())[1:]))
    step = decide(s)

    assert (step.do, "peer URL of a1" in step.why) == (does, does is Do.REFUSE)
    assert decide(silent(s, 1)).do is not Do.UPDATE


def test_a_learner_may_take_over_from_the_only_voter() -> None:
    s = alone(learner(healthy(2), 2), 1)
    step = decide(replace(s, voices={**s.voices, "c-2": voice(2, learner=True)}))

    assert step.do is Do.PROMOTE


def test_f5_a_member_that_is_added_after_it_was_given_up_is_removed() -> None:
    s = latching(healthy(2), last_member=4)
    late = Listed("f", "c-4", learner=True, started=False)

    for size in (1, 2, 3):
        step = decide(wanting(replace(s, members=(*(s.members or ()), late)), size=size))
        assert (step.do, step.body) == (Do.REMOVE, {"ID": "f"})
    for other in (
        replace(late, name="c-5"),
        replace(late, name=""),
        replace(late, started=True),
        replace(late, learner=False),
    ):
        step = decide(replace(s, members=(*(s.members or ()), other)))
        assert (step.do, "added the member f" in step.why) == (Do.REFUSE, True)


# --- space --------------------------------------------------------------------------------------


def full(s: Seen, size: int) -> Seen:
    voices = {name: replace(voice, size=size, quota=100) for name, voice in s.voices.items()}
    return alarmed(replace(s, voices=voices), 2, "NOSPACE")


def test_without_space_followers_are_defragmented_first_and_then_the_alarm_goes() -> None:
    s, order = full(healthy(3), 99), []
    while (step := decide(s)).do is Do.DEFRAGMENT:
        order.append(step.member)
        assert step.latched is not None
        s = replace(s, latched=step.latched)
    assert order == ["c-2", "c-3", "c-1"]
    assert step.do is Do.REFUSE, "the data itself is too large"
    step = decide(full(s, 50))
    assert step.body == {"action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": "a2"}


def test_once_something_is_compacted_members_are_soon_defragmented_again() -> None:
    done = [Defragmented(f"a{n}", 970.0) for n in (1, 2, 3)]
    s = latching(full(healthy(3), 99), defragmented=done)
    assert decide(s).do is Do.REFUSE

    report = replace(s.voices["c-3"], used=10)
    assert decide(replace(s, voices={**s.voices, "c-3": report})).do is Do.DEFRAGMENT


def test_the_alarm_of_a_member_that_has_left_is_disarmed() -> None:
    assert decide(alarmed(healthy(3), 9, "CORRUPT")).body["memberID"] == "a9"


def test_whose_data_is_corrupt_is_not_guessed() -> None:
    step = decide(replace(healthy(3), alarms=(Alarm("", "CORRUPT"),)))

    assert step.do is Do.REFUSE
    assert "compare their hashes" in step.why


def test_a_larger_quota_is_rolled_out_though_the_data_fills_the_old_one() -> None:
    done = [Defragmented(f"a{n}", 990.0) for n in (1, 2, 3)]
    s = latching(full(healthy(3), 99), defragmented=done)
    assert decide(s).do is Do.REFUSE

    assert member(decide(wanting(s, template="larger")), 2).template == "larger"


# --- maintenance -------------------------------------------------------------------------------


def sparse(s: Seen) -> Seen:
    """Let half of each file be free, and defragment the members each 100 s."""
    voices = {name: replace(voice, size=100, used=50) for name, voice in s.voices.items()}
    return wanting(replace(s, voices=voices), defragment=100.0)


def test_members_are_defragmented_one_at_a_time_and_the_leader_last() -> None:
    s, order = sparse(healthy(3)), []
    while (step := decide(s)).do is not Do.NOTHING:
        order.append((step.do, step.member))
        s = replace(s, latched=step.latched or s.latched)
        if step.do is Do.MOVE_LEADER:
            led = {n: replace(v, leader=step.body["targetID"]) for n, v in s.voices.items()}
            s = replace(s, voices=led)
    assert order == [
        (Do.DEFRAGMENT, "c-2"),
        (Do.DEFRAGMENT, "c-3"),
        (Do.MOVE_LEADER, "c-1"),
        (Do.DEFRAGMENT, "c-1"),
    ]
    assert decide(replace(s, now=1099.0)).do is Do.NOTHING
    assert decide(replace(s, now=1101.0)).do is Do.DEFRAGMENT


def test_no_member_is_defragmented_without_need_or_while_another_is_not_healthy() -> None:
    assert decide(silent(sparse(healthy(3)), 2)).do is Do.WAIT
    assert decide(wanting(sparse(healthy(3)), defragment=0.0)).do is Do.NOTHING
    s = sparse(healthy(1))
    full = {name: replace(voice, used=95) for name, voice in s.voices.items()}
    assert decide(replace(s, voices=full)).do is Do.NOTHING
    assert decide(s).do is Do.DEFRAGMENT, "the only member is"


def test_while_data_differ_nothing_is_changed_but_what_is_dead() -> None:
    s = latching(healthy(3, size=5), compared=Compared(0.0, "c-1 1, c-2 2, c-3 1"))
    step = decide(s)
    assert (step.do, "c-1 1, c-2 2, c-3 1" in step.why) == (Do.REFUSE, True)
    assert member(decide(alone(silent(s, 2), 2)), 2).leaving


@pytest.mark.parametrize("sick", [[3], [2, 3], [1, 2, 3]])
def test_f4_volumes_grow_though_members_are_not_healthy(sick: list[int]) -> None:
    s = silent(replace(healthy(3), small=frozenset({"c-2", "c-3"})), *sick)
    s = s if len(sick) == 1 else replace(s, members=None)
    waits = decide(s)
    assert waits.do is Do.WAIT

    step = meanwhile(s, waits)
    assert (step.do, step.member, step.uid) == (Do.GROW_VOLUME, "c-2", "v2")
    step = meanwhile(entry(s, 2, leaving="it is not wanted"), waits)
    assert step.member == ("c-2" if s.members is None else "c-3")
    assert meanwhile(alone(alone(s, 2), 3), waits) == waits
    assert meanwhile(s, refuse("a person decides")).do is Do.GROW_VOLUME
    lost = latching(s, cluster_id="")
    assert decide(lost).do is meanwhile(lost, decide(lost)).do is Do.REFUSE


# --- TLS ----------------------------------------------------------------------------------------


def over_tls(s: Seen, *numbers: int) -> Seen:
    """Give members peer URLs of TLS, as they are by now."""
    names = {f"c-{n}" for n in numbers}
    urls = (replace(m, url="https:" if m.name in names else "") for m in s.members or ())
    return replace(s, members=tuple(urls))


def test_no_peer_url_changes_while_a_member_is_unknown() -> None:
    s = wanting(healthy(3), tls=True)
    assert decide(replace(s, members=(*(s.members or ()), Listed("f", "")))).do is Do.REFUSE


def test_the_only_member_that_was_adopted_without_tls_gets_such_a_peer_url() -> None:
    assert decide(over_tls(healthy(1), 1)).do is Do.UPDATE


def test_a_member_that_nobody_knows_takes_tls_from_no_other() -> None:
    s = over_tls(latching(wanting(healthy(3), tls=True), secure=True), 1, 2, 3)
    assert decide(replace(s, members=(*(s.members or ()), Listed("77", "x")))).do is Do.REFUSE


# --- versions -----------------------------------------------------------------------------------


def rolled(s: Seen, wanted: str) -> list[str]:
    """Carry out all steps of a roll; return which members changed, and the leaders that moved."""
    s, order = wanting(s, version=wanted), []
    for _ in range(60):
        step = decide(s)
        match step.do:
            case Do.LATCH:
                assert step.latched is not None
                s = replace(s, latched=step.latched)
            case Do.DELETE_POD:
                version = next(e.version for e in s.latched.members if e.name == step.member)
                s = pod(s, int(step.member[2:]), version=version)
                report = replace(s.voices[step.member], version=version)
                s = replace(s, voices={**s.voices, step.member: report})
                order.append(step.member)
            case Do.MOVE_LEADER:
                led = {n: replace(v, leader=step.body["targetID"]) for n, v in s.voices.items()}
                s = replace(s, voices=led)
                order.append(f"not {step.member}")
            case Do.DOWNGRADE:
                target = step.body.get("version", "")
                storage = f"{target}.0" if target else "3.6.0"
                voices = {
                    n: replace(v, downgrade=target and storage, storage=storage)
                    for n, v in s.voices.items()
                }
                s = replace(s, voices=voices)
                order.append(step.body["action"])
            case _:
                return order
    raise AssertionError(order)


def test_before_3_7_each_member_takes_a_snapshot() -> None:
    order = rolled(healthy(3), "3.7.3")

    assert order == ["ENABLE", "CANCEL", "c-2", "c-3", "not c-1", "c-1"]


def test_without_a_quorum_a_member_that_ran_as_it_is_does_not_change() -> None:
    s = wanting(replace(silent(healthy(1), 1), members=None), version=NEW)

    assert decide(s).do is Do.WAIT


@pytest.mark.parametrize("runs", [True, False])
def test_who_was_to_follow_a_downgrade_that_ended_early_runs_what_the_others_run(
    runs: bool,
) -> None:
    s = wanting(entry(healthy(2, version="3.7.3"), 2, proved=False, version=OLD), version=OLD)
    if not runs:
        s = replace(silent(pod(s, 2, version=OLD, stuck="crashes"), 2), members=None)
    assert member(decide(s), 2).version == "3.7.3"
    s = replace(s, voices={"c-1": voice(1, version="3.7.3", downgrade="3.6.0")})
    assert decide(s).latched is None, "it is under way"


@pytest.mark.parametrize(
    ("running", "wanted", "complaint"),
    [
        ("3.5.26", "3.7.3", "more than one minor version above"),
        ("3.7.3", "3.5.26", "more than one minor version below"),
        ("3.5.25", "3.6.16", "3.6 follows only on 3.5.26"),
        ("3.6.10", "3.7.3", "3.7 follows only on 3.6.11"),
        ("3.5.26", "3.5.10", "is not served"),
        ("3.5.26", "3.6.16", ""),
        ("3.6.16", "3.5.26", ""),
    ],
)
def test_a_version_that_cannot_follow_is_refused_in_words_and_all_else_goes_on(
    running: str, wanted: str, complaint: str
) -> None:
    s = wanting(healthy(3, version=running), version=wanted)
    assert complaint in s.refusal
    assert bool(s.refusal) == bool(complaint)
    if complaint:
        assert decide(s).do is Do.NOTHING
        assert member(decide(wanting(s, size=4)), 4).version == running


def test_a_member_without_a_pod_keeps_the_peer_url_of_tls() -> None:
    s = wanting(entry(silent(healthy(3), 3), 3, proved=False), template="u", tls=True)
    s = alone(silent(s, 1, keep_pods=False), 1)  # two are sick, so this one cannot leave yet
    first, *others = s.members or ()
    s = replace(s, members=(replace(first, url="https://c-1"), *others))
    assert member(decide(s), 3).template == "u"


def test_a_learner_that_answers_without_a_leader_is_corrected() -> None:
    s = wanting(learner(healthy(3), 3, started=True), template="u")
    s = replace(s, voices={**s.voices, "c-3": voice(3, 0, learner=True)})
    assert member(decide(s), 3).template == "u"


def test_a_learner_leaves_the_only_voter_to_change_first_what_may_keep_them_apart() -> None:
    s = wanting(learner(healthy(2), 2, started=True), size=3, template="u")
    s = replace(s, voices={**s.voices, "c-2": voice(2, 0, learner=True)})
    assert member(decide(s), 2).leaving
    assert member(decide(wanting(healthy(1), size=3, template="u")), 1).template == "u"
    led = replace(s, voices={**s.voices, "c-2": voice(2, learner=True)})
    assert decide(led).do is Do.PROMOTE


def test_members_that_answer_without_a_leader_are_corrected_one_by_one() -> None:
    s = wanting(entry(entry(healthy(3), 2, proved=False), 3, proved=False), template="u")
    s = replace(s, members=None, voices={f"c-{n}": voice(n, 0) for n in (1, 2, 3)})
    assert decide(s).do is Do.WAIT  # it may be an election
    s = pod(pod(s, 2, ready=False), 3, ready=False)
    assert member(decide(s), 2).template == "u"
    s = entry(s, 2, template="u")
    assert (decide(s).do, decide(s).member) == (Do.DELETE_POD, "c-2")
    gone = pod(silent(s, 2, keep_pods=False), 3, ready=False)
    assert decide(gone).do is Do.CREATE_POD
    s = pod(silent(pod(s, 2, template="u"), 2), 3, ready=False)
    assert decide(pod(s, 2, deleting=True)).do is Do.WAIT
    assert decide(pod(s, 2, address="")).do is Do.WAIT
    for stopped in ({"reason": "Unschedulable"}, {"stuck": "crashes"}):
        assert member(decide(pod(s, 2, address="", **stopped)), 3).template == "u"
