"""Serves EtcdClusters: looks at the members, lets `decide` choose a step, and takes it.

`sync` takes a step at once if it is a call to etcd or only something to record. A step about a Pod
or a volume is left to `desired`, which returns everything that is there, with this one change.
"""

import asyncio
import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import aiohttp
import kopf_runtime as kr
import msgspec

from etcd_operator import backups, client, manifests, restores, versions
from etcd_operator.backups import EtcdBackup
from etcd_operator.client import Alarm, EtcdError, Listed, Voice
from etcd_operator.decide import HIBERNATES, Do, Pod, Seen, Step, Wanted, decide, meanwhile
from etcd_operator.kinds import BACKUP, Compared, EtcdCluster, Shown, Spec, Status, listing
from etcd_operator.manifests import Make, in_bytes
from etcd_operator.recovery import note, recover
from etcd_operator.settings import Settings, manager

POD, VOLUME, SECRET = kr.kinds.POD, kr.kinds.PERSISTENT_VOLUME_CLAIM, kr.kinds.SECRET
#: Seconds between two looks: while something is under way, without a quorum, and otherwise.
SOON, LATER, SELDOM = 1.0, 3.0, 10.0
#: Seconds until a growth is tried again that failed, or was refused (an alert counts those of five
#: minutes), and data that differ are compared again.
GROWTH, REFUSED, DIFFERING = 60.0, 600.0, 60.0
GROWN = "", "", 0.0
HOUR = 3600.0
#: Seconds after which one call of `sync` takes no further step; restarts that make a crash loop.
ENOUGH, RESTARTS = 20.0, 3
#: Seconds for which a token is used.
TOKEN_LASTS = 120.0
INVALID_ARGUMENT, UNAUTHENTICATED = 3, 16
#: Seconds by which a Pod may overrun its grace period until its node is taken for lost.
OVERDUE = 30.0
#: The types of the conditions beside Ready.
CONDITIONS = ("Available", "Healthy")
#: Seconds after which a look tells nothing of how a cluster fares now.
STALE = 30.0
#: etcd's own quota, and the part of a volume that leaves enough for the log and snapshots.
QUOTA, ROOM = float(2 << 30), 0.8


# --- what is read of objects --------------------------------------------------------------------


class Kept(NamedTuple):
    """What is known of a volume."""

    #: The size that is requested.
    size: str
    #: The version of etcd that its data are of, if it is noted.
    version: str
    #: The size that it has; empty if nobody has told it.
    capacity: str = ""
    #: Whether it waits for a volume.
    pending: bool = False

    @property
    def full(self) -> str:
        """As much as its data can take up, as what is requested may never come."""
        return min(self.size, self.capacity, key=in_bytes)


def pod(thing: kr.Pod) -> Pod:
    """Return the parts of a Pod that `decide` needs.

    One whose labels or version were changed by hand counts as made of no version.
    """
    meta, annotations = thing.metadata, thing.metadata.annotations or {}
    version = annotations.get(manifests.VERSION, "")
    image = next((c.image for c in thing.spec.containers if c.name == manifests.CONTAINER), "")
    [tag] = re.findall(r":v(3\.\d+\.\d+)$", image) or [version]  # admission may set a digest
    mine = manifests.labels(meta.name.rpartition("-")[0])
    same = tag == version and mine.items() <= (meta.labels or {}).items()
    boot = annotations.get(manifests.BOOT, "")
    if boot in ("new", "join") and manifests.STATE not in annotations:
        boot = ""  # an older operator's Pod, which reads no annotation
    reason, note = thing.trouble(manifests.CONTAINER)
    if reason == "ContainerCreating":
        reason = note = ""
    return Pod(
        version=version if same else "",
        template=annotations.get(manifests.TEMPLATE, ""),
        boot=boot,
        address=thing.status.pod_ip,
        ready=thing.holds("Ready"),
        stuck=f"it crashes again and again: {note}" if thing.crashes(RESTARTS) else "",
        plain=not annotations.get(manifests.AUTHORITY),
        ended=thing.status.phase in ("Succeeded", "Failed"),
        reason=reason,
        note=note.strip().rstrip(".")[:400],
    )


def certificates(cluster: EtcdCluster) -> list[str]:
    """Return the Secrets with the certificates of a cluster; none without TLS."""
    tls = cluster.spec.tls
    return [tls.peer_secret, tls.client_secret] if tls is not None else []


def secrets(cluster: EtcdCluster) -> list[str]:
    """Return the Secrets that a cluster names."""
    auth = cluster.spec.auth
    return [*certificates(cluster), *([auth.root_secret] if auth is not None else [])]


def _kept(volume: kr.PersistentVolumeClaim) -> Kept:
    annotations = volume.metadata.annotations or {}
    size = volume.spec.resources.requests.get("storage", "")
    capacity = volume.status.capacity.get("storage", "")
    pending = volume.status.phase == "Pending"
    return Kept(size, annotations.get(manifests.VERSION, ""), capacity, pending)


def _left(volume: kr.PersistentVolumeClaim) -> Kept | None:
    """Return the same of a volume that stays; None if it is being deleted or has an owner."""
    gone = volume.metadata.deletion_timestamp or volume.metadata.owner_references
    return None if gone else _kept(volume)


controller = manager.controller_for(EtcdCluster)
controller.owns(kr.kinds.SERVICE)
controller.owns(kr.kinds.POD_DISRUPTION_BUDGET)
controller.owns(
    VOLUME,
    kr.PersistentVolumeClaim,
    transform=_kept,
    prune=True,
    deletion_policy=lambda etcd: (
        kr.RETAIN if etcd.spec.storage.when_deleted == "Retain" else kr.DELETE
    ),
)
controller.reads(
    VOLUME,
    kr.PersistentVolumeClaim,
    labels=lambda etcd: {manifests.CLUSTER: etcd.metadata.name},
    transform=_left,
)
controller.owns(
    BACKUP, EtcdBackup, update=kr.CREATE, transform=lambda backup: backup.status, prune=True
)
controller.owns(POD, kr.Pod, update=kr.CREATE, transform=pod)
controller.reads(SECRET, kr.Secret, keys=secrets, transform=kr.Secret.texts, every=60)
controller.reads(
    BACKUP,
    EtcdBackup,
    keys=lambda cluster: filter(None, [cluster.spec.maintenance.backup_before_upgrade]),
    transform=lambda backup: backup.spec,
)
controller.session(
    lambda _: {
        "trust_env": False,  # no proxy stands between the operator and the members
        "connector": aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
    }
)


# --- sync: look, decide, act --------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What `sync` saw last, and the step that is next."""

    seen: Seen
    step: Step
    authority: str = ""
    #: Why etcd tells the operator nothing: reason and message.
    refused: tuple[str, str] = ("", "")
    #: When certificates expire; None without TLS.
    expiry: kr.Expiry | None = None
    #: The token of root's, and when another one is asked for.
    token: tuple[str, float] = field(default=("", 0.0), repr=False)
    #: Why members did not answer.
    errors: Mapping[str, str] = field(default_factory=dict)
    #: A size that the volumes may not have, why, and until when it is not tried again.
    ungrown: tuple[str, str, float] = GROWN


def pace(_: EtcdCluster, context: kr.CallContext[Settings]) -> float:
    """Return the seconds until the next look."""
    look: Look | None = context.sync_result
    if look is None:
        return SOON
    if look.step.do in (Do.NOTHING, Do.REFUSE):
        return SELDOM
    return LATER if look.seen.latched.cluster_id and look.seen.members is None else SOON


@controller.sync(every=pace, on=(POD, VOLUME, BACKUP), timeout=120)
async def advance(cluster: EtcdCluster, context: kr.CallContext[Settings]) -> Look:
    """Take the steps that can be taken now; return the last look, with the step that is left."""
    eye = Eye(cluster, context)
    if context.sync_result is not None:
        eye.token, eye.until = context.sync_result.token
        eye.ungrown = context.sync_result.ungrown
        pods = context.sync_result.seen.pods.values()
        eye.unsettled = {pod.uid: "" for pod in pods if not pod.boot}
    latched = context.last(Status)
    if cluster.spec.paused:
        return eye.found(await eye.look(latched), Step(Do.NOTHING))
    clock = asyncio.get_running_loop().time
    until = clock() + ENOUGH
    while True:
        eye.errors.clear()
        seen = await eye.look(latched)
        orders = restores.orders(eye.cluster.metadata.namespace, seen.name)
        step = meanwhile(seen, recover(seen, orders) or decide(seen))
        if step.do in (Do.NOTHING, Do.REFUSE):
            step = await eye.compare(seen) or note(seen) or step
        if step.latched is not None:
            await context.record(_recorded(step.latched))
            if step.latched.recovery != latched.recovery:
                context.event("Recovery", f"{step.text}.")
            latched = step.latched
        try:
            if step.do.path:
                await eye.call(seen, step)
                context.event(step.do.event, f"{step.text}.")
            elif step.do in (Do.SETTLE_POD, Do.GROW_VOLUME) and not await eye.patch(step):
                continue
            elif step.do is not Do.LATCH and not await eye.authorize(seen, step):
                break
        except EtcdError as error:
            step = Step(Do.WAIT, step.member, f"{step.text}; not done yet: {error}")
            break
        if clock() > until:
            break
    tell(seen, context)
    return eye.found(seen, step)


def tell(seen: Seen, context: kr.CallContext[Settings]) -> None:
    """Tell as Events why members do not run, if that was not told at the last look."""
    told = context.sync_result.seen.pods if context.sync_result is not None else {}
    for name, pod in seen.pods.items():
        if pod.reason and (name not in told or told[name].reason != pod.reason):
            context.event("MemberDoesNotRun", f"{name}: {pod.reason}: {pod.note}.", warning=True)


def _recorded(latched: Status) -> dict[str, Any]:
    """Return the fields to record, including those at their defaults."""
    names = {field.encode_name for field in msgspec.structs.fields(Shown)}
    whole: dict[str, Any] = msgspec.to_builtins(latched)
    return {name: value for name, value in whole.items() if name not in names}


@dataclass
class Eye:
    """Looks at one cluster, and calls its members."""

    cluster: EtcdCluster
    context: kr.CallContext[Settings]
    #: A token of root's, empty while no user is asked for, and when another one is asked for.
    token: str = ""
    until: float = 0.0
    refused: tuple[str, str] = ("", "")
    #: Why members did not answer, and those that do not have TLS yet.
    errors: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    ungrown: tuple[str, str, float] = GROWN
    #: As what the Pods count whose annotations could not be changed: see `Pod.boot`.
    unsettled: dict[str, str] = field(default_factory=dict)

    def found(self, seen: Seen, step: Step) -> Look:
        """Return a look, with the step that is left."""
        expiry = kr.expiry_of(self.context, certificates(self.cluster))
        token = self.token, self.until
        look = Look(seen, step, self.authority, self.refused, expiry, token, self.errors)
        return replace(look, ungrown=self.ungrown)

    @functools.cached_property
    def authority(self) -> str:
        """A hash of the authorities that the members trust."""
        texts = [kr.text_of(self.context, name, "ca.crt") for name in certificates(self.cluster)]
        return kr.short_hash("".join(texts)) if texts else ""

    def member(self, name: str, address: str) -> client.Member:
        """Return a client of a member."""
        host, tls = manifests.host(self.cluster, name), None
        if self.cluster.spec.tls is not None and name not in self.plain:
            tls = kr.tls_of(self.context, self.cluster.spec.tls.client_secret)
        return client.Member(self.context.session, address, host, tls, self.token)

    async def authorize(self, seen: Seen, step: Step) -> bool:
        """Enable auth once all members are well; return whether this call did it."""
        auth = self.cluster.spec.auth
        if auth is None or self.token or step.do is not Do.NOTHING:
            return False
        name = next(iter(seen.voices))
        member = self.member(name, seen.pods[name].address)
        await member.enable_auth(kr.text_of(self.context, auth.root_secret, "password"))
        return True

    async def _log_in(self, addresses: dict[str, str]) -> None:
        """Get a token, or keep the known one, because a member takes 0.1 s to make one."""
        if (auth := self.cluster.spec.auth) is None or self.context.now < self.until:
            return
        self.token, self.refused = "", ("", "")
        for name, address in addresses.items():
            try:
                self.token = await self._token(auth.root_secret, self.member(name, address))
            except EtcdError as error:
                if error.code == INVALID_ARGUMENT:
                    why = f"etcd does not accept the password in Secret {auth.root_secret}; put "
                    why += "the one that it knows there as `previousPassword`"
                    self.refused = "PasswordRefused", why
                continue
            self.until = self.context.now + (TOKEN_LASTS if self.token else 0)
            return

    async def _token(self, name: str, member: client.Member) -> str:
        """Return a token; change the password if etcd knows only the previous one."""
        password = kr.text_of(self.context, name, "password")
        previous: str | None = self.context.read(SECRET, name).get("previousPassword")
        try:
            return await member.authenticate(password)
        except EtcdError as error:
            if previous is None or error.code != INVALID_ARGUMENT:
                raise
        token = await member.authenticate(previous)
        if self.cluster.spec.paused:
            return token
        await replace(member, token=token).change_password(password)
        return await member.authenticate(password)

    async def compare(self, seen: Seen) -> Step | None:
        """Compare the members' data if it is time; what is found is to be recorded.

        At the revision of a compaction, members answer with the hash that they had at that time.
        """
        latched, revision = seen.latched, min((v.revision for v in seen.voices.values()), default=0)
        former = latched.compared or Compared(0.0)
        hours = self.cluster.spec.maintenance.compare_hours
        period = DIFFERING if former.differ else hours * HOUR
        voters = [member.name for member in seen.voters]
        if not period or seen.now - former.at < period or not set(voters) <= seen.voices.keys():
            return None
        members = [self.member(name, seen.pods[name].address) for name in voters]
        differ = ""
        try:
            for pause in (2.0, 0.0):  # a compaction that is under way may make them differ
                hashes = await asyncio.gather(*(member.hash(revision) for member in members))
                if len(set(hashes)) == 1 or len({since for _, since in hashes}) > 1:
                    break
                await asyncio.sleep(pause)
            else:
                texts = (f"{n} {hash_:08x}" for n, (hash_, _) in zip(voters, hashes, strict=True))
                differ = f"their hashes at revision {revision} are {', '.join(texts)}"
        except EtcdError:
            differ = former.differ  # such as because that revision was compacted
        updated = msgspec.structs.replace(latched, compared=Compared(seen.now, differ))
        return Step(Do.LATCH, why="the members' data were compared", latched=updated)

    async def look(self, latched: Status) -> Seen:
        """Return what is there now."""
        spec, repository = self.cluster.spec, self.context.settings.etcd_repository
        pods = {child.key[1]: self._pod(child) for child in self.context.children_of(POD)}
        claims = {manifests.member_of(c.key[1]): c for c in self.context.children_of(VOLUME)}
        wants = in_bytes(size := spec.storage.size)
        bound = {n: c.view for n, c in claims.items() if not (c.view.pending or c.deleting)}
        small = {n for n, kept in bound.items() if in_bytes(kept.size) < wants}
        self.ungrown = self.ungrown if small and self.ungrown[0] == size else GROWN
        tries = self.context.now >= self.ungrown[2]  # else all but the growth goes on
        names = [name for name, pod in pods.items() if pod.address and not pod.deleting]
        self.plain = {name for name, pod in pods.items() if pod.plain}
        await self._log_in({name: pods[name].address for name in names})
        answers = await asyncio.gather(*(self._voice(latched, name, pods[name]) for name in names))
        voices = {name: voice for name, voice in zip(names, answers, strict=True) if voice}
        left = {name: kept for (_, name), kept in self.context.reads_of(VOLUME).items() if kept}
        mine = {name: claim.view.version for name, claim in claims.items() if not claim.deleting}
        for name in list(left):
            if manifests.volume_name(self.cluster, member := manifests.member_of(name)) == name:
                mine[member] = left.pop(name).version
        members, alarms = await self._membership(pods, voices)
        tasks = spec.maintenance
        template = manifests.template(self.cluster, repository, self.authority, latched.secure)
        defragment, saves = tasks.defragment_hours * HOUR, tasks.backup_before_upgrade is not None
        tls, adopt = spec.tls is not None, spec.storage.adopt
        volumes = {name: claim.uid for name, claim in claims.items() if not claim.deleting}
        meta = self.cluster.metadata
        wanted = Wanted(spec.size, spec.version, template, defragment, saves, adopt, tls)
        seen = Seen(meta.name, wanted, latched, pods, volumes, members, voices, alarms)
        return replace(
            seen,
            now=self.context.now,
            small=frozenset(small if tries else ()),
            growing=frozenset(n for n, c in claims.items() if c.view.full != c.view.size),
            large=frozenset(n for n, kept in bound.items() if in_bytes(kept.full) > wants),
            backup=self._backup(),
            left=tuple(sorted(left)),
            kept=mine,
            uid=meta.uid,
        )

    def _backup(self) -> str | None:
        """Return why the backup before an upgrade fails, "" once it is complete; None before."""
        for child in self.context.children_of(BACKUP):
            ready = kr.condition(child.view, "Ready")
            if ready.get("status") == "True":
                return ""
            if ready.get("reason") in ("BackupFailed", "ReferenceMissing"):
                return str(ready["message"]).rstrip(".")
        return None

    def _pod(self, child: Any) -> Pod:
        lost = child.deleting and self.context.now > child.deadline + OVERDUE
        view: Pod = child.view
        stuck = "its node is lost" if lost else "" if child.deleting else view.stuck
        note = view.note
        for claim in self.context.children_of(VOLUME) if view.reason == "Unschedulable" else ():
            if claim.view.pending and manifests.member_of(claim.key[1]) == child.key[1]:
                note += f"; PersistentVolumeClaim {claim.key[1]} is not bound yet"
        boot = self.unsettled.get(child.uid, view.boot)
        view = replace(view, uid=child.uid, deleting=child.deleting, boot=boot)
        return replace(view, stuck=stuck, note=note)

    async def _voice(self, latched: Status, name: str, pod: Pod) -> Voice | None:
        """Return what a member says; None if it is another one, or one of another cluster."""
        try:
            voice = await self.member(name, pod.address).status()
        except EtcdError as error:
            self.errors[name] = str(error)
            if error.code == UNAUTHENTICATED:  # it has forgotten the token
                self.until = 0.0
            if self.cluster.spec.auth is None and "user name is empty" in str(error):
                why = "somebody has enabled auth in etcd, so it tells the operator nothing; set "
                self.refused = "AuthRequired", f"{why}spec.auth.rootSecret to root's password"
            return None
        id_ = next((entry.id for entry in latched.members if entry.name == name), "")
        same = latched.cluster_id in ("", voice.cluster_id) and id_ in ("", voice.id)
        return voice if same else None

    async def _membership(
        self, pods: dict[str, Pod], voices: dict[str, Voice]
    ) -> tuple[tuple[Listed, ...] | None, tuple[Alarm, ...]]:
        """Return what a quorum knows; None if two voters that have a leader cannot tell."""
        name_of = functools.partial(manifests.member_at, self.cluster)
        able = [name for name, voice in voices.items() if voice.votes]
        for name in able[:2]:
            member = self.member(name, pods[name].address)
            try:
                return await member.members(name_of), await member.alarms()
            except EtcdError:
                continue
        return None, ()

    async def patch(self, step: Step) -> bool:
        """Change exactly the Pod or volume of a step; return whether the API server allows it."""
        grows, size = step.do is Do.GROW_VOLUME, self.cluster.spec.storage.size
        kind, name, meta = POD, step.member, {"uid": step.uid}
        boots = manifests.boots(self.cluster, Make(name, ""))
        change: Any = {"metadata": {**meta, "annotations": boots}}
        if grows:
            self.ungrown = GROWN
            kind, name = VOLUME, manifests.volume_name(self.cluster, name)
            change = {"metadata": meta, "spec": {"resources": {"requests": {"storage": size}}}}
        try:
            path = kind.at((self.cluster.metadata.namespace, name))
            await self.context.client.ask("PATCH", path, change)
        except kr.ApiError as error:
            if error.reason == "Fenced":
                raise
            if error.status in (404, 409) or "metadata.uid" in error.message:
                return True  # it is another one by now
            if grows:
                text = f" The volumes cannot grow to {size} now: {error.message.rstrip('.')}."
                if error.final:
                    text += " Set spec.storage.size back, or let their StorageClass, or what else "
                    text += "refuses it, allow it (allowVolumeExpansion)."
                self.ungrown = size, text, self.context.now + (REFUSED if error.final else GROWTH)
            else:  # all else goes on, and a Pod that cannot change is replaced in its turn
                self.unsettled[step.uid] = "" if error.final else "member"
            return False
        return True

    async def call(self, seen: Seen, step: Step) -> None:
        """Call etcd for a step; raise `EtcdError`. The next look shows whether it was taken."""
        body, seconds = dict(step.body), client.CHANGE
        if step.do in (Do.ADD, Do.UPDATE):
            plain = body.pop("plain", not seen.latched.secure)
            body["peerURLs"] = [manifests.peer_url(self.cluster, step.member, plain)]
            body |= {"isLearner": True} if step.do is Do.ADD else {}
        elif step.do is Do.DEFRAGMENT:
            seconds = client.DEFRAGMENT
        for key in ("ID", "memberID", "targetID"):
            if key in body:
                body[key] = client.decimal(body[key])
        voters = [name for name, voice in seen.voices.items() if voice.votes]
        others = [name for name in voters if name != step.member] or voters
        (name, *_) = [step.ask] if step.ask else others
        member = self.member(name, seen.pods[name].address)
        await member.call(step.do.path, body, dict[str, Any], seconds)


# --- what is wanted, and how it is --------------------------------------------------------------


@controller.desired(stepwise=True)
def desired(
    cluster: EtcdCluster, context: kr.StepContext[Settings]
) -> Iterable[manifests.Manifest]:
    """Return the children that are there, with the step: add what it creates, omit what it deletes.

    A step applies only to the objects it was decided for, which it knows by their uids.
    """
    if cluster.spec.paused:
        raise kr.Wait("Paused", "spec.paused is true: nothing is changed.", after=SELDOM)
    look: Look = context.sync_result
    step, entries = look.step, {entry.name: entry for entry in look.seen.latched.members}
    yield from manifests.always(cluster, look.seen.count)
    uids = {}
    for child in context.children_of(VOLUME):
        if child.deleting or (step.do, step.uid) == (Do.DELETE_VOLUME, child.uid):
            continue
        uids[member := manifests.member_of(child.key[1])] = child.uid
        version = child.view.version
        if look.seen.latched.cluster_id and member in entries:  # before, nobody knows if it fits
            version = entries[member].version
        yield manifests.volume(cluster, member, version, child.view.size)
    if step.do is Do.CREATE_VOLUME and step.member not in uids:
        name = manifests.volume_name(cluster, step.member)
        adopted = context.reads_of(VOLUME).get((cluster.metadata.namespace, name))
        there = (c for c in context.children_of(VOLUME) if not (c.view.pending or c.deleting))
        sizes = [cluster.spec.storage.size, *(child.view.full for child in there)]
        most = max(sizes, key=in_bytes)  # as the others' data may need it
        kept = adopted or Kept(most, entries[step.member].version)
        yield manifests.volume(cluster, step.member, kept.version, kept.size)
    begun = bool(context.children_of(BACKUP)) and look.seen.upgrades
    if cluster.spec.maintenance.backup_before_upgrade and (begun or step.do is Do.BACK_UP):
        yield backups.before_upgrade(cluster, context)
    pods = {child.key[1]: child for child in context.children_of(POD)}
    makes = [
        Make(name, entries[name].version if name in entries else cluster.spec.version)
        for name, child in pods.items()
        if not child.deleting and (step.do, step.uid) != (Do.DELETE_POD, child.uid)
    ]
    if step.do is Do.CREATE_POD and step.member not in pods and uids.get(step.member) == step.uid:
        version, hashed = entries[step.member].version, look.seen.wanted.template
        secure = look.seen.latched.secure
        makes.append(Make(step.member, version, step.boot, step.beside, hashed, secure))
    for make in makes:
        yield manifests.pod(cluster, make, context.settings.etcd_repository, look.authority)


@controller.status
def status(cluster: EtcdCluster, seen: kr.Observed) -> kr.Status:
    """Return the status of a cluster."""
    look: Look | None
    name, look = cluster.metadata.name, seen.sync_result
    text = "The members cannot be looked at."
    unknown = [kr.Condition(type_, None, "Unknown", text) for type_ in CONDITIONS]
    if look is None:
        return dataclasses.replace(kr.default_status(seen), conditions=unknown)
    late = seen.trouble is not None and seen.now - look.seen.now > STALE
    known = [available(look.seen), healthy(look.seen)]
    conditions = unknown if look.refused[0] or late else known
    ready, reason, text = verdict(cluster.spec, look)
    return kr.Status(ready, reason, text, shown(name, look), not ready, None, conditions)


def shown(name: str, look: Look) -> Shown:
    """Return the fields of the status that are only for users."""
    seen = look.seen
    running = [voice.version for voice in seen.voices.values()]
    return Shown(
        version=min(running, key=versions.parsed, default=""),
        leader=next((member for member, voice in seen.voices.items() if voice.leads), ""),
        replicas=len(seen.pods),
        ready=sum(map(seen.healthy, seen.voters)),
        selector=",".join(f"{key}={value}" for key, value in manifests.labels(name).items()),
        service=f"{name}-client",
        certificates_expire=_time(look.expiry.at) if look.expiry is not None else "",
        certificates_late=_time(look.expiry.late) if look.expiry is not None else "",
    )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):{backups.TIME}}"


def available(seen: Seen) -> kr.Condition:
    """Return the condition that says whether a quorum serves."""
    if not seen.wanted.size:
        return kr.Condition("Available", None, "Hibernated", "No member is to run.")
    if (now := seen.latched.recovery) is not None and not now.ended:
        text = "The cluster does not serve while an EtcdRestore replaces its data."
        return kr.Condition("Available", False, "Restoring", text)
    if not seen.latched.cluster_id:
        return kr.Condition("Available", False, "NotFormed", "The cluster is not formed yet.")
    answer = sum(member.name in seen.voices for member in seen.electorate)
    count = max(len(seen.electorate), seen.count)
    text = f"Voters that answer: {answer} of {count}." if count else "No voter is known."
    if seen.available:
        text += "" if 2 * answer > count else " Through these, a quorum answers."
        return kr.Condition("Available", True, "Serving", text)
    reason = "QuorumLost" if answer else "Unreachable"
    if seen.members is not None or 2 * answer > count:
        reason, known = "NotReady", seen.members is not None
        text += " None of them is ready to serve." if known else " No leader is known to answer."
    gone = [e.name for e in seen.electorate if e.volume and not seen.intact(e)]
    if silent := [e.name for e in seen.electorate if e.name not in {*seen.voices, *gone}]:
        text += f" No answer comes from {listing(silent)}."
    if gone:
        text += f" No volume is left of {listing(gone)}."
    return kr.Condition("Available", False, reason, text)


def healthy(seen: Seen) -> kr.Condition:
    """Return the condition that says whether no member has an alarm."""
    names = {member.id: member.name for member in seen.latched.members}
    if seen.members is None:
        return kr.Condition("Healthy", None, "Unknown", "Without a quorum, no alarm is known.")
    if seen.latched.compared is not None and (differ := seen.latched.compared.differ):
        return kr.Condition("Healthy", False, "DataDiffer", f"The members' data differ: {differ}.")
    if not seen.alarms:
        return kr.Condition("Healthy", True, "NoAlarm")
    alarms = sorted(f"{alarm.kind} of {names.get(alarm.id, alarm.id)}" for alarm in seen.alarms)
    return kr.Condition("Healthy", False, "Alarm", f"Alarms: {', '.join(alarms)}.")


def verdict(spec: Spec, look: Look) -> tuple[bool, str, str]:
    """Return whether a cluster is as wanted, a reason, and a message."""
    if look.refused[0]:
        return False, look.refused[0], f"{look.refused[1]}."
    seen, step = look.seen, look.step
    if step.why == HIBERNATES:
        return not seen.pods, "Hibernated", "No member runs, as spec.size is 0; the volumes stay."
    well, silent = sum(map(seen.healthy, seen.voters)), _silent(look)
    details = f"{_stopped(seen)}{silent}{_tls(seen)}"
    if look.expiry is not None and look.expiry.at <= seen.now:
        secret, at = look.expiry.secret, _time(look.expiry.at)
        text = f"The certificate in Secret {secret}, or its authority, expired at {at}."
        return False, "CertificateExpired", text
    grows = _grows(look)
    if seen.latched.cluster_id and not seen.available:
        serves = available(seen)
        waits = f" {step.text}." if step.text else ""
        return False, serves.reason, f"{serves.message}{waits}{details}{grows}{_quota(spec)}"
    if step.do is Do.REFUSE:
        return False, "Refused", f"{step.text}.{_stopped(seen)}{grows}"
    if step.do is not Do.NOTHING:
        reason = "MemberUnreachable" if silent else "Progressing"
        reasons = (seen.pods[e.name].reason for e in seen.staying if e.name in seen.pods)
        return False, next(filter(None, reasons), reason), f"{step.text}.{details}{grows}"
    if seen.refusal:
        return False, "VersionRefused", f"{seen.refusal}.{grows}"
    if look.ungrown[1]:
        return False, "VolumesCannotGrow", grows.strip()
    text = f"{well} of {spec.size} {'members are' if spec.size > 1 else 'member is'} healthy."
    if spec.size % 2 == 0:
        text += f" {spec.size} members bear no more losses than {spec.size - 1} would."
    return True, "Healthy", f"{text}{grows}{_quota(spec)}"


def _stopped(seen: Seen) -> str:
    """Return a sentence about each Pod that does not run."""
    stopped = ((name, pod) for name, pod in seen.pods.items() if pod.reason)
    return "".join(f" {name}: {pod.reason}: {pod.note}." for name, pod in stopped)


def _tls(seen: Seen) -> str:
    """Return what the members need while TLS is added: if they do not have it, they wait."""
    helps = " and a third one helps until all do" if seen.wanted.size == 2 else ""
    text = " TLS is added: each member has to reach the port 2382 of the others, by a certificate "
    return f"{text}that all trust{helps}." if seen.adds_tls else ""


def _silent(look: Look) -> str:
    """Return a sentence about a member that is ready, or not trusted, and does not answer."""
    ready = {name for name, pod in look.seen.pods.items() if pod.ready}
    told = {n: why for n, why in look.errors.items() if n in ready or "certificate" in why}
    leaving = {member.name for member in look.seen.latched.members if member.leaving}
    return next((f" {name}: {why}." for name, why in told.items() if name not in leaving), "")


def _grows(look: Look) -> str:
    """Return sentences about volumes that are to grow, or that have not grown yet."""
    text, growing, large = look.ungrown[1], look.seen.growing, look.seen.large
    if growing:
        text += f" The requested size is not there yet for {listing(growing)}."
    if large:
        text += f" The volumes of {listing(large)} do not shrink, and new ones are as large."
    return text


def _quota(spec: Spec) -> str:
    """Return a warning if the disks may be full before etcd's quota is reached."""
    quota = spec.options.quota_backend_bytes or QUOTA
    if quota <= ROOM * in_bytes(spec.storage.size):
        return ""
    text = f" etcd's quota, {quota / 2**30:.3g} GiB, is more than 80 % of spec.storage.size, so "
    return f"{text}the disks may be full before it is reached: raise the size, or lower the quota."
