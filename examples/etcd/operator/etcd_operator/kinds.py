"""The kind EtcdCluster: its spec, and its status, with what the operator must remember."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import kopf_runtime as kr
from msgspec import Meta

from etcd_operator.versions import FLOOR, dotted

MAX_MEMBERS = 7  # members that a cluster may have

Text = Annotated[str, Meta(max_length=1024)]
#: An ID of etcd's, in the hexadecimal form that etcdctl and the members' logs use.
ID = Annotated[str, Meta(max_length=16, pattern="^[0-9a-f]*$")]
Version = Annotated[str, Meta(max_length=16, pattern=r"^3\.[0-9]{1,2}\.[0-9]{1,3}$")]
Hours = Annotated[int, Meta(ge=0, le=8760)]
Quantity = Annotated[str, Meta(max_length=20, pattern="^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$")]


def rule(text: str, message: str) -> Meta:
    """Return a rule of a field."""
    return Meta(extra_json_schema=kr.validations(kr.ValidationRule(text, message)))


def fixed(message: str) -> Meta:
    """Return the rule that a field cannot be changed."""
    return rule("self == oldSelf", message)


def listing(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}" if first else last


def _by(key: str) -> Meta:
    """Return what the schema says of a list with one entry for each value of a field."""
    extra = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Meta(extra_json_schema=extra)


class Storage(kr.Fields, frozen=True):
    """The volume of each member."""

    size: Quantity = "8Gi"
    """How large it is. It can grow if the storage class allows that. None ever shrinks."""
    class_name: Annotated[
        str, Meta(max_length=253), fixed("the storage class of a cluster cannot be changed")
    ] = ""
    """Its storage class; empty for the default one."""
    when_deleted: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volumes when the cluster is deleted. If they stay, no other cluster of
    the same name is formed until somebody decides on them."""
    adopt: Annotated[
        str,
        Meta(max_length=5, pattern="^([0-9a-f]{5})?$"),
        fixed("which volumes are adopted cannot be changed"),
    ] = ""
    """What the names of the volumes end with that a deleted cluster of the same name has left: its
    members run again on them. The minor version has to be that of the data."""


class Options(kr.Fields, frozen=True):
    """Options of etcd; an option that is left out has etcd's default."""

    quota_backend_bytes: Annotated[int, Meta(ge=2**24, le=2**40)] | None = None
    snapshot_count: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    heartbeat_interval: Annotated[int, Meta(ge=10, le=10_000)] | None = None
    election_timeout: Annotated[int, Meta(ge=50, le=50_000)] | None = None
    auto_compaction_mode: Literal["periodic", "revision"] = "periodic"
    auto_compaction_retention: (
        Annotated[str, Meta(max_length=20, pattern="^[0-9]+(h|m|s)?$")] | None
    ) = None


class Tls(kr.Fields, frozen=True, kw_only=True):
    """Secrets with tls.crt, tls.key and ca.crt, as cert-manager makes them.

    Both certificates are used for servers and for clients. Their names must include
    `*.CLUSTER.NAMESPACE.svc`; a certificate with a CommonName cannot be used with auth.
    """

    peer_secret: kr.ObjectName
    """For the traffic between members."""
    client_secret: kr.ObjectName
    """For clients, who need a certificate of the same authority."""
    plain_clients: bool = False
    """Whether clients may connect without TLS, too: until all of them use it, for a cluster that
    has run without."""


class Auth(kr.Fields, frozen=True, kw_only=True):
    """Authentication by users and roles."""

    root_secret: kr.ObjectName
    """A Secret whose `password` is that of etcd's root. To change it, put the present one there as
    `previousPassword`, and the next one as `password`."""


class Service(kr.Fields, frozen=True):
    """The Service for clients."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    annotations: dict[str, str] = {}
    advertised: Annotated[
        list[Annotated[str, Meta(max_length=260, pattern="^[A-Za-z0-9.-]+:[0-9]+$")]],
        Meta(max_length=10),
    ] = []
    """HOST:PORT by which clients outside reach it. The members advertise them beside their own
    names, and with TLS, their certificate must include the hosts."""


class Maintenance(kr.Fields, frozen=True):
    """What is done while all members are healthy."""

    defragment_hours: Hours = 0
    """After how many hours a member is defragmented; 0: never."""
    compare_hours: Hours = 24
    """After how many hours the data are compared; 0: never."""
    backup_before_upgrade: kr.ObjectName | None = None
    """An EtcdBackup of this cluster: before the minor version changes, another backup is taken as
    it says."""


class PodOptions(kr.Fields, frozen=True):
    """Fields of the members' Pods, in addition to those that the operator sets."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resources: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    topology_spread_constraints: list[dict[str, Any]] = []
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    image_pull_secrets: list[kr.ObjectName] = []


class Spec(kr.Fields, frozen=True, kw_only=True):
    """The cluster that the user wants."""

    size: Annotated[int, Meta(ge=0, le=MAX_MEMBERS)] = 3
    """How many members there are. With 0, none runs, and their volumes stay until some are wanted
    again."""
    version: Version
    """The version of etcd, such as 3.6.16."""
    repository: Annotated[str, Meta(max_length=253)] = ""
    """Where its images are, if not where the operator's setting says."""
    paused: bool = False
    """Whether it is only looked at."""
    storage: Storage = Storage()
    options: Options = Options()
    tls: Tls | None = None
    auth: Auth | None = None
    pod: PodOptions = PodOptions()
    service: Service = Service()
    maintenance: Maintenance = Maintenance()
    node_lost_after: Annotated[int, Meta(ge=10, le=86_400)] = 300
    """Seconds after which the Pod of a lost node is given up."""


class Entry(kr.Fields, frozen=True, kw_only=True):
    """A member, from the intent to add it until nothing of it is left."""

    name: kr.ObjectName
    version: Version
    """The version that its Pod is made of."""
    template: Text = ""
    """A hash of all else that its Pod is made of."""
    volume: Text = ""
    """The uid of the volume with its data."""
    id: ID = ""
    """Its ID, once it was in the member list, and until it was removed."""
    leaving: Text = ""
    """Why it goes; empty while it stays."""
    proved: bool = False
    """Whether it was a healthy voter with this version and template."""
    ran: Text = ""
    """The version that it was a healthy voter with before, while it is not proved."""


class Defragmented(kr.Fields, frozen=True):
    """When a member was defragmented."""

    id: ID
    at: float


class Compared(kr.Fields, frozen=True):
    """When the members' data were compared."""

    at: float
    differ: Text = ""
    """How they differ; empty if they do not."""


class Recovery(kr.Fields, frozen=True, kw_only=True):
    """The EtcdRestore that is being carried out, or the last one."""

    uid: Text
    """Its uid: it acts once."""
    revision: int = 0
    """The highest revision of the former data, as far as is known."""
    survivor: Text = ""
    """The member that survives, if one does."""
    lost: int = 0
    """Revisions that the survivor lacks."""
    alone: bool = False
    """Whether the survivor has become the only member."""
    ended: bool = False


class Basis(kr.Fields, frozen=True, kw_only=True):
    """What an EtcdRestore is for: an EtcdCluster, as the last EtcdRestore has left it."""

    cluster: Text
    """The uid of the EtcdCluster."""
    restore: Text = ""
    """The uid of the last EtcdRestore that it began with, and whether that one has ended."""
    ended: bool = False


def basis(uid: str, recovery: Recovery | None) -> Basis:
    """Return what an EtcdRestore is for that is created now."""
    if recovery is None:
        return Basis(cluster=uid)
    return Basis(cluster=uid, restore=recovery.uid, ended=recovery.ended)


class Shown(kr.Fields, frozen=True):
    """The fields that are only for users."""

    version: Text = ""
    """The oldest version that a member runs."""
    leader: Text = ""
    """The member that leads."""
    replicas: int = 0
    """How many Pods there are."""
    ready: int = 0
    """How many members are healthy voters."""
    selector: Text = ""
    """Selects the members' Pods."""
    service: Text = ""
    """The Service for clients."""
    certificates_expire: Text = ""
    """When the first of the certificates and their authorities expires."""
    certificates_late: Text = ""
    """When it is late to renew one of them: there is an alert from then on."""


class Status(Shown, frozen=True):
    """The status, with what must be remembered between steps; all else is observed each time."""

    cluster_id: ID = ""
    """The cluster's ID, once it was formed."""
    last_member: int = 0
    """The number of the newest member's name."""
    members: Annotated[list[Entry], Meta(max_length=20), _by("name")] = []
    """The members that there are, or are to be."""
    failed_joins: int = 0
    """New members in a row that never started."""
    failed_at: float = 0.0
    """When the last one was given up."""
    defragmented: Annotated[list[Defragmented], Meta(max_length=20), _by("id")] = []
    """The members that were defragmented to gain space."""
    compared: Compared | None = None
    recovery: Recovery | None = None
    revision: int = 0
    """The highest revision that was noted, which is done now and then."""
    revision_at: float = 0.0
    """When that was."""
    flushed: bool = False
    """Whether no member's log has entries of 3.5, which 3.7 cannot read."""
    secure: bool | None = None
    """Whether all peer URLs are with TLS; until that is known, peers listen without it, too."""
    moved: Text = ""
    """The uid of the Pod of the last member whose peer URL was changed; empty once all have TLS."""


#: In CEL: the minor version, the one before an update, and the patch.
MINOR = "int(self.spec.version.split('.')[1])"
FORMER = "int(oldSelf.spec.version.split('.')[1])"
PATCH = "int(self.spec.version.split('.')[2])"


@kr.custom_resource(
    "etcd.example.com",
    "v1alpha1",
    "etcdclusters",
    short_names=["etcd"],
    status=Status,
    ready="as many members as wanted are healthy, of the wanted version, and nothing is under way",
    printer_columns=[
        kr.Column("Size", ".spec.size"),
        kr.Column("Healthy", ".status.ready"),
        kr.Column("Version", ".status.version"),
        kr.Column("Available", '.status.conditions[?(@.type=="Available")].status'),
        kr.READY,
        kr.Column("Leader", ".status.leader", wide=True),
        kr.Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        kr.AGE,
    ],
    scale=kr.Scale(".spec.size", ".status.replicas", ".status.selector"),
    validations=[
        kr.ValidationRule(
            "size(self.metadata.name) <= 40 && !self.metadata.name.contains('.')",
            "metadata.name must have at most 40 characters and no dot: hosts are named after it",
            ".metadata.name",
        ),
        kr.ValidationRule(
            f"{MINOR} > {FLOOR[1]} || ({MINOR} == {FLOOR[1]} && {PATCH} >= {FLOOR[2]})",
            f"use etcd {dotted(FLOOR)} or later: 3.5.0 to 3.5.2 may corrupt data, "
            "and other earlier versions lack what the operator needs",
            ".spec.version",
        ),
        kr.ValidationRule(
            f"{MINOR} - {FORMER} <= 1 && {FORMER} - {MINOR} <= 1",
            "change one minor version at a time",
            ".spec.version",
        ),
        kr.ValidationRule(
            "has(self.spec.tls) || !has(oldSelf.spec.tls)",
            "TLS can be added, but not removed",
            ".spec.tls",
        ),
    ],
)
class EtcdCluster(kr.Resource, kw_only=True):
    """An EtcdCluster is a cluster of etcd members, each with a Pod and a volume of its own."""

    spec: Spec


CLUSTER = kr.Kind("etcd.example.com", "v1alpha1", "etcdclusters", "EtcdCluster")
BACKUP = kr.Kind("etcd.example.com", "v1alpha1", "etcdbackups", "EtcdBackup")


def known(cluster: EtcdCluster) -> EtcdCluster:
    """Return the parts of a cluster that the other kinds read, which seldom change."""
    meta, fields = cluster.metadata, ("clusterId", "conditions", "members", "recovery", "secure")
    return EtcdCluster(
        metadata=kr.ObjectMeta(meta.name, meta.uid, "", meta.namespace),
        spec=cluster.spec,
        status={name: cluster.status[name] for name in fields if name in cluster.status},
    )
