"""The manifests of a cluster's Pods, volumes, Services and its disruption budget."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kopf_runtime as kr
from msgspec.structs import asdict

from etcd_operator import versions
from etcd_operator.decide import Boot, quorum
from etcd_operator.kinds import EtcdCluster, Spec

CLIENT, METRICS = 2379, 2381
#: The port for peers by the scheme, as a port serves either. Clusters used to have TLS at 2380.
PEER = {"http": 2380, "https": 2382}
CONTAINER = "etcd"
DATA, TLS = "/var/lib/etcd", "/etc/etcd/tls"
#: Annotations of a Pod: what it was made of.
GROUP = "etcd.example.com"
CLUSTER, VERSION, TEMPLATE = f"{GROUP}/cluster", f"{GROUP}/version", f"{GROUP}/pod-hash"
BOOT, AUTHORITY = f"{GROUP}/boot", f"{GROUP}/authority"
BESIDE, STATE = f"{GROUP}/initial-cluster", f"{GROUP}/initial-cluster-state"

Manifest = dict[str, Any]

#: What all Pods have: no access to the API server, and one user, who can read all volumes.
COMMON: Manifest = {
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
#: What each container may not do.
ALONE: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def labels(name: str) -> dict[str, str]:
    """Return the labels that select the Pods of a cluster."""
    return {
        "app.kubernetes.io/name": "etcd",
        "app.kubernetes.io/instance": name,
        CLUSTER: name,  # others use the same names of applications
    }


def host(cluster: EtcdCluster, member: str) -> str:
    """Return the DNS name of a member, which its certificate must include."""
    return f"{member}.{cluster.metadata.name}.{cluster.metadata.namespace}.svc"


def peer_url(cluster: EtcdCluster, member: str, plain: bool = False) -> str:
    """Return the URL by which the other members reach a member; `plain` is one without TLS."""
    scheme_ = "http" if plain else scheme(cluster.spec)
    return f"{scheme_}://{host(cluster, member)}:{PEER[scheme_]}"


def member_at(cluster: EtcdCluster, url: str) -> str:
    """Return the name of the member with a peer URL; empty if that is none of this cluster's."""
    name = url.partition("//")[2].partition(".")[0]
    at = host(cluster, name)
    urls = {f"http://{at}:2380", f"https://{at}:2380", f"https://{at}:2382"}
    return name if re.fullmatch(rf"{cluster.metadata.name}-\d+", name) and url in urls else ""


def scheme(spec: Spec) -> str:
    """Return the scheme of the URLs of members."""
    return "http" if spec.tls is None else "https"


def volume_name(cluster: EtcdCluster, member: str) -> str:
    """Return the name of a member's volume; a later cluster of the same name has to ask for it."""
    return f"data-{member}-{cluster.spec.storage.adopt or cluster.metadata.uid[:5]}"


def member_of(volume: str) -> str:
    """Return the name of the member that a volume belongs to."""
    return volume.removeprefix("data-").rpartition("-")[0]


def always(cluster: EtcdCluster, voters: int) -> Iterable[Manifest]:
    """Return what each cluster has: a Service for peers, one for clients, a disruption budget.

    The budget counts ready Pods. A learner is not ready, so only voters count.
    """
    name, mine = cluster.metadata.name, labels(cluster.metadata.name)
    yield _service(
        name,
        mine,
        [("client", CLIENT), ("peer", PEER[scheme(cluster.spec)])],
        clusterIP="None",
        publishNotReadyAddresses=True,
    )
    outside = cluster.spec.service
    for_clients = _service(f"{name}-client", mine, [("client", CLIENT)], type=outside.type)
    for_clients["metadata"]["annotations"] = outside.annotations
    yield for_clients
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "labels": mine},
        "spec": {
            "minAvailable": quorum(max(voters, cluster.spec.size)),
            "selector": {"matchLabels": mine},
        },
    }


def _service(
    name: str, mine: dict[str, str], ports: list[tuple[str, int]], **more: Any
) -> Manifest:
    listed = [{"name": port, "port": number, "targetPort": number} for port, number in ports]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": mine},
        "spec": {"selector": mine, "ports": listed, **more},
    }


def in_bytes(quantity: str) -> float:
    """Return a size in bytes; infinity for a form that no cluster's spec has."""
    match = re.fullmatch("([0-9]+)([kKMGTPE]?)(i?)", quantity)
    if match is None:
        return float("inf")
    base = 1024 if match[3] else 1000
    return float(int(match[1]) * base ** " KMGTPE".index(match[2].upper() or " "))


def volume(cluster: EtcdCluster, member: str, version: str = "", size: str = "") -> Manifest:
    """Return the volume of a member, in the size that it has or in the wanted one.

    `version` is noted on it for a later cluster that adopts it.
    """
    storage, noted = cluster.spec.storage, {VERSION: version} if version else {}
    class_ = {"storageClassName": storage.class_name} if storage.class_name else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume_name(cluster, member),
            "labels": labels(cluster.metadata.name),
            "annotations": noted,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size or storage.size}},
            **class_,
        },
    }


@dataclass(frozen=True, slots=True)
class Make:
    """What a Pod is made from, apart from its cluster."""

    member: str
    version: str
    boot: Boot = "member"
    #: Which members it knows at its start, and by which peer URLs.
    beside: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    #: As in the status: it listens without TLS to peers unless it is True, to clients if False.
    secure: bool | None = True


def template(cluster: EtcdCluster, repository: str, authority: str, secure: bool | None) -> str:
    """Return a hash of all that a Pod is made from, except its version and how it boots.

    `authority` is a hash of the authorities' certificates. A member reads these only when it
    starts, but its own certificate at each handshake.
    """
    make = Make("member", "3.6.0", secure=secure)
    return kr.short_hash(repr(pod(cluster, make, repository, authority)))


def pod(cluster: EtcdCluster, make: Make, repository: str, authority: str) -> Manifest:
    """Return the Pod of a member."""
    name, spec = cluster.metadata.name, cluster.spec
    options = spec.pod
    origin = {VERSION: make.version, TEMPLATE: make.template, AUTHORITY: authority}
    priority = options.priority_class_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": make.member,
            "labels": {**options.labels, **labels(name)},
            "annotations": {**options.annotations, **origin, **boots(cluster, make)},
        },
        "spec": {
            "hostname": make.member,
            "subdomain": name,
            **COMMON,
            "containers": [_container(cluster, make, spec.repository or repository)],
            "volumes": _volumes(cluster, make.member),
            "affinity": options.affinity,
            "nodeSelector": options.node_selector,
            "tolerations": [*_tolerations(spec), *options.tolerations],
            "topologySpreadConstraints": options.topology_spread_constraints or _spread(name),
            "imagePullSecrets": [{"name": secret} for secret in options.image_pull_secrets],
            **({"priorityClassName": priority} if priority else {}),
        },
    }


def _container(cluster: EtcdCluster, make: Make, repository: str) -> Manifest:
    spec = cluster.spec

    def probe(path: str, seconds: int, failures: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": METRICS},
            "periodSeconds": seconds,
            "timeoutSeconds": 3,  # without a quorum, /readyz does not answer
            "failureThreshold": failures,
        }

    mounts = [{"name": "data", "mountPath": DATA}]
    if spec.tls is not None:
        mounts += [{"name": use, "mountPath": f"{TLS}/{use}"} for use in ("peer", "client")]
    return {
        "name": CONTAINER,
        "image": f"{repository}:v{make.version}",
        "command": ["etcd", *_flags(cluster, make)],
        "env": [*_etcdctl(cluster, make.member), *_FROM_ANNOTATIONS],
        "ports": [
            {"name": "client", "containerPort": CLIENT},
            {"name": "peer", "containerPort": PEER[scheme(spec)]},
            {"name": "metrics", "containerPort": METRICS},
        ],
        # The alarm of one corrupt member would have all be unready, and so none could be replaced.
        "readinessProbe": probe("/readyz?exclude=data_corruption", 3, 2),
        "livenessProbe": probe("/livez", 10, 6),
        "startupProbe": probe("/livez", 5, 120),  # a large database takes its time to be read
        "resources": spec.pod.resources,
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": ALONE,
    }


#: How etcd boots without a log, as a container that starts again has what its Pod's annotations say
#: by then. So once there is a log, the same Pod can neither form a cluster nor join one any more.
_FROM_ANNOTATIONS: list[Manifest] = [
    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
    for name, key in (("ETCD_INITIAL_CLUSTER", BESIDE), ("ETCD_INITIAL_CLUSTER_STATE", STATE))
]


def boots(cluster: EtcdCluster, make: Make) -> dict[str, str]:
    """Return the annotations that say how a member boots without a log."""
    beside = make.beside or {make.member: peer_url(cluster, make.member)}
    known = ",".join(f"{name}={url}" for name, url in beside.items())
    return {BOOT: make.boot, BESIDE: known, STATE: "new" if make.boot == "new" else "existing"}


def _etcdctl(cluster: EtcdCluster, member: str) -> list[Manifest]:
    """Return the variables with which `kubectl exec MEMBER -- etcdctl` asks the member."""
    scheme_, folder = scheme(cluster.spec), f"{TLS}/client"
    variables = {"ENDPOINTS": f"{scheme_}://{host(cluster, member)}:{CLIENT}"}
    if cluster.spec.tls is not None:
        files = {"CACERT": "ca.crt", "CERT": "tls.crt", "KEY": "tls.key"}
        variables |= {name: f"{folder}/{file}" for name, file in files.items()}
    return [{"name": f"ETCDCTL_{name}", "value": value} for name, value in variables.items()]


def _flags(cluster: EtcdCluster, make: Make) -> list[str]:
    spec, member, tls = cluster.spec, make.member, cluster.spec.tls
    beside = make.beside or {member: peer_url(cluster, member)}
    clients = [f"{host(cluster, member)}:{CLIENT}", *spec.service.advertised]
    both = tls is not None and (make.secure is False or tls.plain_clients)
    served = ["http", "https"] if both else [scheme(spec)]
    peers = f"{scheme(spec) if make.secure else 'http'}://0.0.0.0:2380"
    flags: dict[str, str | int | None] = {
        "name": member,
        "data-dir": f"{DATA}/data",
        "listen-peer-urls": peers + (f",https://0.0.0.0:{PEER['https']}" if tls else ""),
        "listen-client-urls": ",".join(f"{url}://0.0.0.0:{CLIENT}" for url in served),
        "listen-metrics-urls": f"http://0.0.0.0:{METRICS}",
        "initial-advertise-peer-urls": beside[member],
        "advertise-client-urls": ",".join(f"{url}://{at}" for url in served for at in clients),
        "initial-cluster-token": cluster.metadata.uid,
    }
    options = asdict(spec.options)  # they are named after the flags
    flags |= {name.replace("_", "-"): value for name, value in options.items()}
    if spec.options.auto_compaction_retention is None:
        del flags["auto-compaction-mode"]
    given = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    given += ["--force-new-cluster"] if make.boot == "force" else []
    for use, prefix in (("client", ""), ("peer", "peer-")) if spec.tls is not None else ():
        folder = f"{TLS}/{use}"
        given += [f"--{prefix}cert-file={folder}/tls.crt", f"--{prefix}key-file={folder}/tls.key"]
        given += [f"--{prefix}trusted-ca-file={folder}/ca.crt", f"--{prefix}client-cert-auth"]
    return [*given, *versions.flags(make.version)]


def _volumes(cluster: EtcdCluster, member: str) -> list[Manifest]:
    data, tls = claim_volume("data", volume_name(cluster, member)), cluster.spec.tls
    secrets = {"peer": tls.peer_secret, "client": tls.client_secret} if tls is not None else {}
    return [data, *(secret_volume(use, secret) for use, secret in secrets.items())]


def claim_volume(name: str, claim: str) -> Manifest:
    """Return a volume of a Pod that is a PersistentVolumeClaim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def secret_volume(name: str, secret: str) -> Manifest:
    """Return a volume of a Pod that has the files of a Secret."""
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def _tolerations(spec: Spec) -> list[Manifest]:
    """Return how long a Pod stays on a lost node before Kubernetes deletes it."""
    return [
        {
            "key": f"node.kubernetes.io/{trouble}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": spec.node_lost_after,
        }
        for trouble in ("not-ready", "unreachable")
    ]


def _spread(name: str) -> list[Manifest]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(name)},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
