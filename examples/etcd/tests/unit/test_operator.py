"""What an EtcdCluster should have, and how it fares, without a cluster."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import kopf_runtime as kr
import msgspec
import pytest

from etcd_operator import backups, client, clusters, manifests, restores, stored
from etcd_operator.clusters import POD, VOLUME, Look
from etcd_operator.decide import UNWANTED, Do, Pod, Seen, Step, Wanted, decide
from etcd_operator.kinds import BACKUP, Entry, EtcdCluster, Status
from etcd_operator.manifests import Make
from etcd_operator.operator import Settings
from tests.unit.sentences import judge_all
from tests.unit.test_decide import alarmed, alone, entry, healthy, latching, silent, wanting


def cluster(**spec: Any) -> EtcdCluster:
    metadata = {"name": "c", "namespace": "ns", "uid": "abcdefg", "resourceVersion": "1"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"version": "3.6.16", **spec}}, EtcdCluster
    )


def flags(of: EtcdCluster, **make: Any) -> list[str]:
    manifest = manifests.pod(of, Make(**{"member": "c-1", "version": "3.6.16", **make}), "etcd", "")
    command: list[str] = manifest["spec"]["containers"][0]["command"]
    return command


# --- manifests ----------------------------------------------------------------------------------


def test_flags_are_those_of_the_version() -> None:
    assert not any("experimental" in flag for flag in flags(cluster(), version="3.7.3"))
    assert "--peer-skip-client-san-verification" in flags(cluster(), version="3.6.16")
    old = flags(cluster(), version="3.5.35")
    assert "--experimental-peer-skip-client-san-verification" in old


def test_members_are_spread_over_nodes_and_zones_unless_the_user_says_how() -> None:
    own = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]
    keys = [
        [spread["topologyKey"] for spread in manifest["spec"]["topologySpreadConstraints"]]
        for wants in (cluster(), cluster(pod={"topologySpreadConstraints": own}))
        for manifest in [manifests.pod(wants, Make("c-1", "3.6.16"), "etcd", "")]
    ]

    assert keys == [["kubernetes.io/hostname", "topology.kubernetes.io/zone"], ["rack"]]


def test_a_corrupt_member_makes_no_other_one_unready() -> None:
    manifest = manifests.pod(cluster(), Make("c-1", "3.6.16"), "etcd", "")
    probe = manifest["spec"]["containers"][0]["readinessProbe"]

    assert probe["httpGet"]["path"] == "/readyz?exclude=data_corruption"


def test_sizes_are_compared_in_bytes() -> None:
    sizes = {"8Gi": 8 * 2**30, "8Ki": 2**13, "8G": 8e9, "1500": 1500, "1.5Gi": float("inf")}
    assert {text: manifests.in_bytes(text) for text in sizes} == sizes


def test_options_are_given_only_if_they_are_set() -> None:
    assert not any("quota" in flag or "compaction" in flag for flag in flags(cluster()))
    given = flags(cluster(options={"quotaBackendBytes": 2**30, "autoCompactionRetention": "1h"}))
    assert {"--quota-backend-bytes=1073741824", "--auto-compaction-retention=1h"} < {*given}


def test_with_tls_all_urls_are_https_and_both_sides_show_certificates() -> None:
    given = flags(cluster(tls={"peerSecret": "p", "clientSecret": "c"}))

    assert not any("=http:" in flag for flag in given if "metrics" not in flag)
    assert {"--client-cert-auth", "--peer-client-cert-auth"} < {*given}
    assert "--listen-peer-urls=https://0.0.0.0:2380,https://0.0.0.0:2382" in given


@pytest.mark.parametrize("known", [None, False])
def test_clients_are_served_without_tls_only_if_that_is_being_added(known: bool | None) -> None:
    given = flags(cluster(tls={"peerSecret": "p", "clientSecret": "c"}), secure=known)

    assert "--listen-peer-urls=http://0.0.0.0:2380,https://0.0.0.0:2382" in given
    [served] = [flag for flag in given if flag.startswith("--listen-client-urls=")]
    assert ("=http://" in served) is (known is False)


def test_what_is_rolled_out_is_all_but_the_version_and_how_a_pod_boots() -> None:
    same = manifests.template(cluster(), "etcd", "a", None)
    assert manifests.template(cluster(version="3.7.3", size=5), "etcd", "a", None) == same
    assert manifests.template(cluster(), "etcd", "b", None) != same
    assert manifests.template(cluster(pod={"labels": {"a": "b"}}), "etcd", "a", None) != same


def test_a_cluster_of_the_same_name_never_meets_old_data() -> None:
    name = manifests.volume_name(cluster(), "c-12")

    assert name == "data-c-12-abcde"
    assert manifests.member_of(name) == "c-12"


def test_a_member_is_known_by_its_peer_url() -> None:
    urls = (
        "http://c-12.c.ns.svc:2380",
        "https://c-12.c.ns.svc:2382",
        "https://c-12.c.ns.svc:2380",  # such as of an operator before 2382 was used
        "http://c-12.c.ns2.svc:2380",
        "http://d-1.c.ns.svc:2380",
        "",
    )

    own = ["c-12"] * 3
    assert [manifests.member_at(cluster(), url) for url in urls] == [*own, "", "", ""]


@pytest.mark.parametrize(("size", "voters", "least"), [(3, 3, 2), (5, 3, 3), (3, 5, 3), (1, 0, 1)])
def test_the_budget_keeps_a_quorum_of_what_is_there_and_of_what_is_to_come(
    size: int, voters: int, least: int
) -> None:
    budget = list(manifests.always(cluster(size=size), voters))[-1]

    assert budget["spec"]["minAvailable"] == least


# --- what is read of a Pod ----------------------------------------------------------------------


def read(labels: dict[str, str] | None = None, image: str = "", **status: Any) -> Pod:
    """Return what is read of the Pod of c-1, perhaps after somebody has changed it."""
    thing = manifests.pod(cluster(), Make("c-1", "3.6.16", template="t"), "etcd", "")
    thing["metadata"] |= {"uid": "1", "resourceVersion": "1"}
    thing["metadata"]["labels"] |= labels or {}
    thing["spec"]["containers"][0]["image"] = image or "etcd:v3.6.16"
    return clusters.pod(msgspec.convert({**thing, "status": status}, kr.Pod))


def containers(restarts: int, reason: str) -> list[dict[str, Any]]:
    waiting = {"waiting": {"reason": reason}}
    return [{"name": "etcd", "restartCount": restarts, "state": waiting}]


@pytest.mark.parametrize(
    ("restarts", "reason", "stuck"),
    [(3, "CrashLoopBackOff", True), (2, "CrashLoopBackOff", False), (9, "ErrImagePull", False)],
)
def test_a_pod_is_stuck_only_in_a_crash_loop(restarts: int, reason: str, stuck: bool) -> None:
    assert bool(read(containerStatuses=containers(restarts, reason)).stuck) == stuck
    assert read(containerStatuses=containers(0, "ContainerCreating")).reason == ""


@pytest.mark.parametrize(
    ("labels", "image", "same"),
    [
        ({"mine": "too"}, "", True),
        ({}, "mirror/etcd@sha256:0a1b", True),  # as admission may have it
        ({}, "mirror/etcd:v3.6.16", True),
        ({}, "etcd:v3.7.3", False),
        ({manifests.CLUSTER: "other"}, "", False),
        ({"app.kubernetes.io/instance": "mine"}, "", False),
    ],
)
def test_f6_a_pod_that_was_changed_by_hand_is_of_no_version(
    labels: dict[str, str], image: str, same: bool
) -> None:
    assert read(labels, image).version == ("3.6.16" if same else "")
    seen = healthy(3)
    pods = {**seen.pods, "c-2": replace(seen.pods["c-2"], version=read(labels, image).version)}
    step = decide(replace(seen, pods=pods))
    assert (step.do, step.member) == ((Do.NOTHING, "") if same else (Do.DELETE_POD, "c-2"))


def test_f7_the_claim_that_a_pod_waits_for_is_told() -> None:
    kept = clusters.Kept("8Gi", "", pending=True)
    claim: Any = SimpleNamespace(kind=VOLUME, key=("ns", "data-c-1-abcde"), view=kept)
    eye = clusters.Eye(cluster(), kr.CallContext(Settings(), now=1.0, children=[claim]))
    view = Pod(reason="Unschedulable", note="no node fits")
    child: Any = SimpleNamespace(view=view, uid="p", deleting=False, key=("ns", "c-1"))

    told = "no node fits; PersistentVolumeClaim data-c-1-abcde is not bound yet"
    assert eye._pod(child).note == told
    child.key = "ns", "c-2"
    assert eye._pod(child).note == "no node fits"


async def test_f7_each_reason_is_told_once_as_an_event() -> None:
    events: list[str] = []
    seen = silent(healthy(3), 3)

    def step(look: Look | None, reason: str) -> Look:
        pods = {**seen.pods, "c-3": replace(seen.pods["c-3"], reason=reason, note="n")}
        now = Look(replace(seen, pods=pods), Step(Do.WAIT))
        event: Any = lambda _, text, *, warning: events.append(f"{text}{warning}")  # noqa: E731
        clusters.tell(now.seen, kr.CallContext(Settings(), sync_result=look, event=event))
        return now

    look = step(None, "ErrImagePull")
    look = step(step(look, "ErrImagePull"), "CrashLoopBackOff")
    step(step(look, ""), "")
    assert events == ["c-3: ErrImagePull: n.True", "c-3: CrashLoopBackOff: n.True"]


# --- desired: what is there, and one step -------------------------------------------------------


def context_for(step: Step, volume: str = "", formed: str = "c1", **more: Any) -> Any:
    """Return the context of `desired` with a step; c-1 is there, and its volume."""
    uids = {"c-1": "v1"} | ({"c-2": volume} if volume else {})
    children: list[Any] = [
        SimpleNamespace(
            kind=VOLUME,
            key=("ns", f"data-{name}-abcde"),
            uid=uid,
            deleting=False,
            view=clusters.Kept("8Gi", "3.6.15"),
        )
        for name, uid in uids.items()
    ]
    children.append(SimpleNamespace(kind=POD, key=("ns", "c-1"), uid="p1", deleting=False))
    entries = [Entry(name=f"c-{number}", version="3.6.16") for number in (1, 2, 3)]
    seen = Seen("c", Wanted(3, "3.6.16"), Status(members=entries, cluster_id=formed))
    return kr.CallContext(
        Settings(), sync_result=Look(seen, step), children=children, now=0.0, **more
    )


def planned(step: Step, volume: str = "") -> list[str]:
    """Return the Pods and volumes that are wanted with a step."""
    return [
        child["metadata"]["name"]
        for child in clusters.desired(cluster(), context_for(step, volume))
        if child["kind"] in ("Pod", "PersistentVolumeClaim")
    ]


def volumes_of(wants: Any, context: Any) -> dict[str, tuple[str, str]]:
    """Return the size and the noted version of each volume that is wanted."""
    return {
        child["metadata"]["name"]: (
            child["spec"]["resources"]["requests"]["storage"],
            child["metadata"]["annotations"].get(manifests.VERSION, ""),
        )
        for child in clusters.desired(wants, context)
        if child["kind"] == "PersistentVolumeClaim"
    }


def test_a_pod_is_made_only_on_the_volume_that_was_seen() -> None:
    step = Step(Do.CREATE_POD, "c-2", uid="v2")
    assert planned(step, volume="v2")[-1] == "c-2"
    assert "c-2" not in planned(step, volume="another")
    assert "c-2" not in planned(step)


def test_only_the_very_object_that_was_seen_is_deleted() -> None:
    assert planned(Step(Do.DELETE_POD, "c-1", uid="p1")) == ["data-c-1-abcde"]
    assert "c-1" in planned(Step(Do.DELETE_POD, "c-1", uid="p0"))
    assert planned(Step(Do.DELETE_VOLUME, "c-1", uid="v1")) == ["c-1"]
    assert "data-c-1-abcde" in planned(Step(Do.DELETE_VOLUME, "c-1", uid="v0"))


@pytest.mark.parametrize(
    ("size", "requested", "capacity", "state", "most"),
    [
        *[("9Gi", "8Gi", "8Gi", "", "9Gi"), ("4Gi", "8Gi", "10Gi", "", "8Gi")],
        *[("4Gi", "8Gi", "", "", "8Gi"), ("4Gi", "100Ti", "8Gi", "", "8Gi")],
        *[("4Gi", "100Ti", "", "pending", "4Gi"), ("4Gi", "8Gi", "8Gi", "deleting", "4Gi")],
    ],
)
async def test_a_volume_keeps_its_size_and_a_new_one_is_as_large_as_the_others_are(
    size: str, requested: str, capacity: str, state: str, most: str
) -> None:
    context = context_for(Step(Do.CREATE_VOLUME, "c-2"), reads={VOLUME: {}})
    [child, *_] = context.children
    child.deleting = state == "deleting"
    child.view = clusters.Kept(requested, "", capacity, state == "pending")
    volumes = volumes_of(cluster(storage={"size": size}), context)
    assert [has for has, _ in volumes.values()] == [requested, most][child.deleting :]
    context.children.pop()
    seen = await clusters.Eye(cluster(storage={"size": size}), context).look(Status())
    assert bool(seen.large) is (most != size), "new ones are as large"


def test_the_backup_before_an_upgrade_is_made_as_another_one_says() -> None:
    store = stored.Store(s3=stored.S3(bucket="backups"))
    spec = backups.Spec(cluster="other", store=store, schedule="0 3 * * *", suspended=True)
    wants = cluster(maintenance={"backupBeforeUpgrade": "daily"})
    context = context_for(Step(Do.BACK_UP), reads={BACKUP: {("ns", "daily"): spec}}, namespace="ns")
    [copy] = [child for child in clusters.desired(wants, context) if child["kind"] == "EtcdBackup"]

    once = msgspec.convert(copy["spec"], backups.Spec)
    assert once == msgspec.structs.replace(spec, cluster="c", schedule=None)
    assert "schedule" not in copy["spec"], "the API server takes no null"


@pytest.mark.parametrize(
    ("ready", "reason", "ended"),
    [
        ("True", "Complete", ""),
        ("False", "BackupFailed", "why"),
        ("False", "ReferenceMissing", "why"),
        ("False", "Running", None),
    ],
)
def test_how_the_backup_before_an_upgrade_has_ended(
    ready: str, reason: str, ended: str | None
) -> None:
    told = {"type": "Ready", "status": ready, "reason": reason, "message": "why."}
    child: Any = SimpleNamespace(kind=BACKUP, view={"conditions": [told]})
    context = kr.CallContext(Settings(), now=1.0, children=[child])
    assert clusters.Eye(cluster(), context)._backup() == ended


async def test_what_did_not_answer_in_time_says_so() -> None:
    late = MagicMock(**{"__aenter__.side_effect": TimeoutError})
    session: Any = SimpleNamespace(post=lambda *_, **__: late)
    with pytest.raises(client.EtcdError, match=r"^no answer \(in time\)$"):
        await client.Member(session, "1.2.3.4").call("x", {}, dict[str, Any])


# --- how it fares -------------------------------------------------------------------------------

#: How the API server refuses to change an object that has come in place of another one.
OTHER = 'Pod "c-1" is invalid: metadata.uid: Invalid value: "p1": field is immutable'


def refusing(status: int = 200, why: str = "", reason: str = "") -> tuple[list[Any], Any]:
    """Return the requests, and a client of an API server that refuses them if it is so."""
    asked: list[Any] = []

    async def ask(*request: Any) -> None:
        asked.append(request)
        if status != 200:
            raise kr.ApiError("PATCH", "", status, reason, why)

    return asked, SimpleNamespace(ask=ask)


def eye_for(wants: EtcdCluster, child: Any, client: Any) -> clusters.Eye:
    """Return what looks at a cluster with one child."""
    more: Any = {"client": client, "children": [child], "reads": {VOLUME: {}}}
    return clusters.Eye(wants, kr.CallContext(Settings(), stored={}, now=5.0, **more))


def status_of(seen: Seen, step: Step | None = None, **spec: Any) -> kr.Status:
    one = cluster(size=seen.wanted.size, **spec)
    look = Look(seen, step or Step(Do.NOTHING))
    return clusters.status(one, kr.Observed(None, sync_result=look))


def test_an_even_number_of_members_is_served_and_its_disadvantage_told() -> None:
    status = status_of(healthy(3))
    assert (status.ready, status.reason) == (True, "Healthy")
    assert status.message == "3 of 3 members are healthy."
    assert [condition.status for condition in status.conditions] == [True, True]
    status = status_of(healthy(4))
    assert (status.ready, "no more losses than 3 would" in status.message) == (True, True)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, False),
        ({"storage": {"size": "2560Mi"}}, False),
        ({"storage": {"size": "2Gi"}}, True),
        ({"storage": {"size": "2Gi"}, "options": {"quotaBackendBytes": 1 << 30}}, False),
        ({"options": {"quotaBackendBytes": 7 << 30}}, True),
    ],
)
def test_f4_a_quota_that_disks_cannot_hold_is_told(spec: dict[str, Any], told: bool) -> None:
    for seen in (healthy(3), replace(silent(healthy(3), 1, 2), members=None)):
        message = status_of(seen, **spec).message
        assert ("GiB, is more than 80 % of spec.storage.size" in message) is told


async def test_f4_a_volume_grows_until_it_has_the_size_that_is_requested() -> None:
    [child, *_] = context_for(Step(Do.WAIT)).children
    for size, capacity, small, growing in (
        ("8Gi", "8Gi", True, False),
        ("9Gi", "8Gi", False, True),
        ("9Gi", "9Gi", False, False),
        ("9Gi", "", False, False),
    ):
        child.view = clusters.Kept(size, "", capacity)
        seen = await eye_for(cluster(storage={"size": "9Gi"}), child, None).look(Status())
        assert (bool(seen.small), bool(seen.growing)) == (small, growing)


@pytest.mark.parametrize(
    ("status", "goes_on", "why"),
    [
        *[(200, False, ""), (404, False, ""), (409, False, ""), (422, False, OTHER)],
        *[(403, 600.0, "the class lets none grow. Set spec"), (0, 60.0, "timeout")],
        *[(429, 60.0, "slowly"), (500, 60.0, "no leader")],
    ],
)
async def test_a_volume_that_may_not_grow_is_told_and_all_else_goes_on(
    status: int, goes_on: float, why: str
) -> None:
    asked, client = refusing(status, why.partition(" Set")[0])
    [child, *_] = context_for(Step(Do.WAIT)).children
    child.view = clusters.Kept("8Gi", "", "8Gi")
    eye = eye_for(cluster(storage={"size": "9Gi"}), child, client)
    assert (await eye.look(Status())).small == {"c-1"}

    assert await eye.patch(Step(Do.GROW_VOLUME, "c-1", uid="v1")) is not bool(goes_on)
    assert asked[0][2]["spec"] == {"resources": {"requests": {"storage": "9Gi"}}}
    assert ((await eye.look(Status())).small == set()) is bool(goes_on)
    assert eye.ungrown[2] == (5.0 + goes_on if goes_on else 0.0)
    assert not goes_on or why in eye.ungrown[1]
    assert ("StorageClass" in eye.ungrown[1]) is (status == 403)
    before = eye.ungrown
    await eye.patch(Step(Do.SETTLE_POD, "c-2", uid="p2"))
    assert eye.ungrown == before, "it is of the volumes"
    child.view = clusters.Kept("9Gi", "", "9Gi")  # somebody has helped
    await eye.look(Status())
    assert eye.ungrown == clusters.GROWN
    child.view = clusters.Kept("8Gi", "", "8Gi")
    eye.cluster = cluster(storage={"size": "7Gi"})  # it is taken back, and further
    seen = await eye.look(Status())
    assert (len(seen.small), *seen.large, eye.ungrown) == (0, "c-1", clusters.GROWN)
    told = status_of(replace(healthy(3), large=seen.large))
    text = "The volumes of c-1 do not shrink, and new ones are as large."
    assert (told.reason, text in told.message) == ("Healthy", True)


@pytest.mark.parametrize(
    ("status", "why", "boot"),
    [(403, "denied", ""), (422, "denied", ""), (500, "x", "member"), (422, OTHER, "join")],
)
async def test_a_pod_that_may_not_change_blocks_nothing_and_is_replaced_in_its_turn(
    status: int, why: str, boot: str
) -> None:
    _, client = refusing(status, why)
    [*_, child] = context_for(Step(Do.WAIT)).children
    child.view = Pod(boot="join")
    eye = eye_for(cluster(paused=True), child, client)
    assert await eye.patch(Step(Do.SETTLE_POD, "c-1", uid="p1")) is (boot == "join")
    seen = await eye.look(Status())
    assert seen.pods["c-1"].boot == boot
    later = replace(eye.context, sync_result=eye.found(seen, Step(Do.WAIT)))
    again = (await clusters.advance(eye.cluster, later)).seen.pods["c-1"].boot
    assert again == ("" if boot == "" else "join"), "only a refusal is remembered"
    pods = {**healthy(3).pods, "c-2": replace(healthy(3).pods["c-2"], boot=boot)}
    does = {"": Do.DELETE_POD, "member": Do.NOTHING, "join": Do.SETTLE_POD}[boot]
    assert decide(replace(healthy(3), pods=pods)).do is does


async def test_a_step_that_no_leader_may_take_any_more_is_not_taken_for_refused() -> None:
    eye = clusters.Eye(cluster(), kr.CallContext(Settings(), client=refusing(0, "x", "Fenced")[1]))
    for do in (Do.SETTLE_POD, Do.GROW_VOLUME):
        with pytest.raises(kr.ApiError):
            await eye.patch(Step(do, "c-1", uid="1"))
    assert (eye.ungrown, eye.unsettled) == (clusters.GROWN, {})


@pytest.mark.parametrize("boot", ["new", "join", "member", "force"])
def test_a_pod_of_an_older_operator_reads_no_annotation_and_so_is_replaced(boot: Any) -> None:
    made = manifests.pod(cluster(), Make("c-1", "3.6.16", boot), "etcd", "")
    made["metadata"] |= {"uid": "1", "resourceVersion": "1"}
    assert clusters.pod(msgspec.convert(made, kr.Pod)).boot == boot
    del made["metadata"]["annotations"][manifests.STATE]
    older = clusters.pod(msgspec.convert(made, kr.Pod)).boot
    assert older == (boot if boot in ("member", "force") else "")


async def test_a_pod_that_has_its_log_is_changed_by_its_annotations_alone() -> None:
    asked, client = refusing()
    made = Make("c-2", "3.6.16", "join", {"c-1": "http://1", "c-2": "http://2"})
    joins, stays = (
        manifests.pod(cluster(), make, "etcd", "") for make in (made, Make("c-2", "3.6.16"))
    )
    eye = clusters.Eye(cluster(), kr.CallContext(Settings(), client=client))
    assert await eye.patch(Step(Do.SETTLE_POD, "c-2", uid="p2"))
    [(_, path, change)] = asked
    assert (path, change["metadata"].pop("uid")) == ("/api/v1/namespaces/ns/pods/c-2", "p2")
    joins["metadata"]["annotations"] |= change["metadata"]["annotations"]
    for pod in (joins, stays):  # the URL counts only without a log, and that Pod cannot join then
        command = pod["spec"]["containers"][0]["command"]
        command[:] = [flag for flag in command if "initial-advertise" not in flag]
    assert joins == stays


def test_one_silent_member_is_not_taken_for_a_lost_quorum() -> None:
    """The advice for that is an EtcdRestore, which would replace the data of those that serve."""
    s = silent(healthy(3), 3)
    s = replace(s, pods={**s.pods, "c-3": replace(s.pods["c-3"], ready=True)})
    told = judge_all(s, decide(s), **{"c-3": "no answer (in time)"})
    assert (told.conditions[0].status, told.reason) == (True, "MemberUnreachable")


def test_in_an_election_no_member_is_called_unready() -> None:
    s = healthy(3)
    voices = {name: replace(voice, leader="") for name, voice in s.voices.items()}
    s = replace(s, members=None, voices=voices)
    serves = judge_all(s, decide(s)).conditions[0]
    told = "Voters that answer: 3 of 3. No leader is known to answer."
    assert (serves.reason, serves.message) == ("NotReady", told)


def test_a_member_that_was_removed_is_no_voter_when_the_last_one_restarts() -> None:
    s = healthy(3, size=1)
    for number in (2, 3):
        s = entry(s, number, leaving=UNWANTED)
    s = replace(s, members=(s.members or ())[:1])
    while s.pods.keys() > {"c-1"}:
        step = decide(s)
        s = replace(s, latched=step.latched or s.latched)
        if step.do is Do.DELETE_POD:
            s = replace(s, pods={n: pod for n, pod in s.pods.items() if n != step.member})
        elif step.do is Do.DELETE_VOLUME:
            s = alone(s, int(step.member[-1]))
    s = replace(silent(s, 1, keep_pods=False), members=None, voices={})
    message = judge_all(s, decide(s)).conditions[0].message
    assert message == "Voters that answer: 0 of 1. No answer comes from c-1."


def test_the_volumes_and_members_without_which_there_is_no_quorum_are_named() -> None:
    lost = silent(replace(healthy(3), members=None), 1, 2)
    lost = replace(lost, volumes={"c-1": "v1", "c-3": "v3"})
    told = judge_all(lost, decide(lost))
    assert (told.reason, told.message) == (
        "QuorumLost",
        "Voters that answer: 1 of 3. No answer comes from c-1. No volume is left of c-2.",
    )


def test_a_member_that_leaves_may_end_at_any_time() -> None:
    s = entry(healthy(4, size=3), 4, leaving=UNWANTED)
    told = judge_all(s, decide(s), **{"c-4": "no answer (Server disconnected)"})
    leaves = "c-4 is removed from the cluster: it is not wanted any more."
    assert (told.reason, told.message) == ("Progressing", leaves)


def test_alarms_are_told_by_the_names_of_members() -> None:
    status = status_of(alarmed(healthy(3), 2, "NOSPACE"), Step(Do.REFUSE, why="the data fills it"))

    assert status.conditions[1].message == "Alarms: NOSPACE of c-2."


def test_f14_why_members_do_not_answer_is_told() -> None:
    lost, step = replace(healthy(3), members=None, voices={}), Step(Do.WAIT, why="c-1 ends")
    look = Look(lost, step, errors={"c-2": "no"})
    status = clusters.status(cluster(), kr.Observed(None, sync_result=look, now=look.seen.now))

    assert status.reason == "Unreachable"
    silent = "Voters that answer: 0 of 3. No answer comes from c-1, c-2 and c-3."
    assert status.message == f"{silent} c-1 ends. c-2: no."


def test_why_the_first_member_does_not_answer_is_told_if_it_is_ready() -> None:
    pods = {"c-1": Pod(ready=True), "c-2": Pod()}
    seen = replace(healthy(2), latched=Status(), members=None, voices={}, pods=pods)
    look = Look(seen, Step(Do.WAIT, why="c-1 starts"), errors={"c-2": "no", "c-1": "no trust"})
    status = clusters.status(cluster(), kr.Observed(None, sync_result=look, now=seen.now))

    assert (status.reason, status.message) == ("MemberUnreachable", "c-1 starts. c-1: no trust.")


@pytest.mark.parametrize("lost", [True, False])
def test_what_members_need_while_tls_is_added_is_told(lost: bool) -> None:
    seen = latching(wanting(healthy(2), tls=True), secure=False)
    if lost:
        seen = replace(seen, members=None, voices={})
    status = status_of(seen, decide(seen))

    assert status.reason == ("Unreachable" if lost else "Progressing")
    assert "reach the port 2382 of the others" in status.message
    assert "a third one helps" in status.message


def test_clients_outside_reach_the_service_and_learn_its_name() -> None:
    outside = {
        "type": "LoadBalancer",
        "annotations": {"lb": "internal"},
        "advertised": ["etcd.example.com:2379"],
    }
    [own] = [flag for flag in flags(cluster()) if "advertise-client" in flag]
    assert f"{own},http://etcd.example.com:2379" in flags(cluster(service=outside))
    for wants, type_, annotations in (
        (cluster(), "ClusterIP", {}),
        (cluster(service=outside), "LoadBalancer", {"lb": "internal"}),
    ):
        _, service, _ = manifests.always(wants, 3)
        assert (service["spec"]["type"], service["metadata"]["annotations"]) == (type_, annotations)


def test_a_version_that_cannot_follow_is_told() -> None:
    seen = healthy(3, version="3.5.20")
    status = status_of(replace(seen, wanted=replace(seen.wanted, version="3.6.16")))

    assert (status.ready, status.reason) == (False, "VersionRefused")


async def test_a_paused_cluster_is_looked_at_and_not_changed() -> None:
    context = kr.CallContext(Settings(), stored={}, children=[], now=5.0, reads={VOLUME: {}})
    look = await clusters.advance(cluster(paused=True), context)
    assert (look.seen.now, look.step.do) == (5.0, Do.NOTHING)

    context = kr.CallContext(Settings(), stored={}, children=[], sync_result=look)
    with pytest.raises(kr.Wait, match="paused"):
        list(clusters.desired(cluster(paused=True), context))


@pytest.mark.parametrize("fails", [False, True])
async def test_what_was_done_to_the_members_is_told_as_an_event(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    steps, events = iter([Step(Do.REMOVE, "c-3", "its node is lost"), Step(Do.WAIT)]), list[Any]()

    async def look(*_: Any) -> Seen:
        return healthy(3)

    async def call(*_: Any) -> None:
        if fails:
            raise client.EtcdError("it has not caught up")

    monkeypatch.setattr(clusters.Eye, "look", look)
    monkeypatch.setattr(clusters.Eye, "call", call)
    monkeypatch.setattr(restores, "orders", lambda *_: [])
    monkeypatch.setattr(clusters, "recover", lambda *_: next(steps))
    event: Any = lambda *what: events.append(what)  # noqa: E731
    await clusters.advance(cluster(), kr.CallContext(Settings(), stored={}, event=event))

    done = ("MemberRemoved", "c-3 is removed from the cluster: its node is lost.")
    assert events == ([] if fails else [done])


def test_each_call_of_etcd_has_an_event() -> None:
    assert [do for do in Do if bool(do.event) != bool(do.path) or (do.path and not do.text)] == []


@pytest.mark.parametrize(("paused", "after"), [(True, "former"), (False, "next")])
async def test_roots_password_is_changed_unless_the_cluster_is_paused(
    monkeypatch: pytest.MonkeyPatch, paused: bool, after: str
) -> None:
    known = "former"

    async def call(_: client.Member, path: str, body: dict[str, str], *__: Any) -> Any:
        nonlocal known
        if path == "auth/user/changepw":
            known = body["password"]
        elif body["password"] != known:
            raise client.EtcdError("authentication failed", clusters.INVALID_ARGUMENT)
        return SimpleNamespace(token="t")  # noqa: S106

    monkeypatch.setattr(client.Member, "call", call)
    passwords = {"password": "next", "previousPassword": "former"}
    reads: Any = {clusters.SECRET: {("ns", "root"): passwords}}
    session: Any = None
    eye = clusters.Eye(
        cluster(paused=paused, auth={"rootSecret": "root"}),
        kr.CallContext(Settings(), reads=reads, namespace="ns", session=session),
    )

    assert await eye._token("root", eye.member("c-1", "")) == "t"
    assert known == after


async def test_volumes_of_an_earlier_cluster_are_known_by_their_names() -> None:
    stays: Any = {
        ("ns", "data-c-1-abcde"): clusters.Kept("1Gi", "3.6.16"),
        ("ns", "data-c-2-fffff"): clusters.Kept("1Gi", ""),
        ("ns", "data-c-3-fffff"): None,
    }
    context = kr.CallContext(Settings(), stored={}, children=[], now=5.0, reads={VOLUME: stays})

    look = await clusters.advance(cluster(paused=True), context)
    assert (look.seen.left, look.seen.kept) == (("data-c-2-fffff",), {"c-1": "3.6.16"})

    wants = cluster(paused=True, storage={"adopt": "fffff"})
    look = await clusters.advance(wants, context)
    assert (look.seen.left, look.seen.kept) == (("data-c-1-abcde",), {"c-2": ""})


def test_a_volume_that_is_adopted_keeps_its_size_and_the_version_of_its_data() -> None:
    wants = cluster(storage={"adopt": "fffff", "size": "9Gi"})
    reads: Any = {
        VOLUME: {("ns", "data-c-2-fffff"): clusters.Kept("8Gi", "3.6.11"), ("ns", "x"): None}
    }

    for member, kept in (("c-2", ("8Gi", "3.6.11")), ("c-3", ("9Gi", "3.6.16"))):
        context = context_for(Step(Do.CREATE_VOLUME, member), reads=reads)
        assert volumes_of(wants, context)[f"data-{member}-fffff"] == kept


@pytest.mark.parametrize(("formed", "version"), [("c1", "3.6.16"), ("", "3.6.15")])
def test_the_version_is_noted_on_a_volume_once_its_cluster_is_formed(
    formed: str, version: str
) -> None:
    volumes = volumes_of(cluster(), context_for(Step(Do.WAIT), formed=formed))

    assert volumes["data-c-1-abcde"] == ("8Gi", version)


@pytest.mark.parametrize("kind", [POD, VOLUME])
async def test_nothing_is_decided_while_pods_or_volumes_cannot_be_listed(kind: kr.Kind) -> None:
    context = kr.CallContext(
        Settings(), stored={}, children=[], now=5.0, unseen={kind: "Forbidden"}
    )

    with pytest.raises(kr.Wait, match="cannot be seen: Forbidden"):
        await clusters.advance(cluster(), context)


@pytest.mark.parametrize(("age", "said"), [(1.0, True), (60.0, None), (None, None)])
def test_without_a_look_nobody_says_that_it_serves(age: float | None, said: bool | None) -> None:
    trouble: Any = SimpleNamespace(reason="ReferenceMissing", message="No Secret.", final=False)
    look = Look(healthy(3), Step(Do.NOTHING)) if age is not None else None  # after a restart
    now = healthy(3).now + (age or 0)
    seen = kr.Observed(None, sync_result=look, now=now, trouble=trouble)
    status = clusters.status(cluster(), seen)

    assert [condition.status for condition in status.conditions] == [said, said]
