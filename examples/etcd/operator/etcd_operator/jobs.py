"""The Jobs in which the agent runs, and their outcomes."""

from collections.abc import Sequence
from typing import Any

import kopf_runtime as kr
import msgspec

from etcd_operator import agent, manifests, stored
from etcd_operator.kinds import EtcdCluster
from etcd_operator.manifests import Manifest
from etcd_operator.settings import Settings

JOB, POD = kr.kinds.JOB, kr.kinds.POD
#: The keys of a Secret with credentials for S3.
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: The variable with the uid of a Pod.
UID = {"name": agent.POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
SHORT = kr.ValidationRule(
    "size(self.metadata.name) <= 40",
    "metadata.name must have at most 40 characters: Jobs are named after it",
    ".metadata.name",
)
#: How a Job fares, and what its Pods have reported.
Course = kr.JobRun[stored.Report]


def course(context: kr.StepContext[Any], name: str) -> Course:
    """Return the state of the Job with a name."""
    return Course.of(context, name, _both)


def _both(texts: Sequence[str]) -> stored.Report:
    """Return the report with the newest backup, and all that was deleted: a Pod may run twice."""
    reports = [msgspec.json.decode(text, type=stored.Report) for text in texts]
    newest = max(reports, key=lambda report: report.taken.name if report.taken is not None else "")
    deleted = [name for report in reports for name in report.deleted]
    return msgspec.structs.replace(newest, deleted=deleted)


# --- manifests -----------------------------------------------------------------------------------


def backup(
    cluster: EtcdCluster,
    name: str,
    request: agent.Backup,
    seconds: int,
    retries: int,
    settings: Settings,
) -> Manifest:
    """Return the Job that takes a backup."""
    container = _agent("backup", request, settings)
    volumes = [*_store(request.store, container), *_client(cluster, container)]
    return _job(cluster, name, [container], volumes, seconds, retries)


def check(cluster: EtcdCluster, name: str, request: agent.Fetch, settings: Settings) -> Manifest:
    """Return the Job that reads and verifies a backup, but writes nothing."""
    dry = msgspec.structs.replace(request, dry=True)
    container = _agent("check", dry, settings)
    return _job(cluster, name, [container], _store(request.store, container), 24 * 3600, 2)


def restore(
    cluster: EtcdCluster,
    name: str,
    member: str,
    token: str,
    request: agent.Fetch,
    bump: int,
    settings: Settings,
) -> Manifest:
    """Return the Job that fills a member's volume, with the etcdutl of the member's version."""
    url, own = manifests.peer_url(cluster, member), f"{agent.DATA}/{agent.OWN}$({agent.POD})"
    flags = [
        f"--data-dir={own}/{agent.MADE}",
        f"--name={member}",
        f"--initial-cluster={member}={url}",
        f"--initial-advertise-peer-urls={url}",
        f"--initial-cluster-token={token}",
        # Clients that know a later revision than the backup's see neither it again, nor its past.
        f"--bump-revision={bump}",
        "--mark-compacted",
    ]
    repository = cluster.spec.repository or settings.etcd_repository
    etcdutl = {
        "name": "etcdutl",
        "image": f"{repository}:v{request.version}",
        "command": ["etcdutl", "snapshot", "restore", f"{own}/{agent.FETCHED}", *flags],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": manifests.ALONE,
    }
    fetch = _agent("fetch", msgspec.structs.replace(request, token=token), settings)
    containers = [fetch, etcdutl, _agent("finish", agent.Finish(), settings)]
    for container in containers:
        container["env"] = [*container.get("env", ()), UID]
        container["volumeMounts"] = [{"name": "data", "mountPath": agent.DATA}]
    claim = manifests.volume_name(cluster, member)
    volumes = [*_store(request.store, fetch), manifests.claim_volume("data", claim)]
    return _job(cluster, name, containers, volumes, 24 * 3600, 10)


def _agent(name: str, request: agent.Request, settings: Settings) -> Manifest:
    return {
        "name": name,
        "image": settings.agent_image,
        "command": ["python3", "-m", "etcd_operator.agent"],
        "env": [{"name": agent.REQUEST, "value": msgspec.json.encode(request).decode()}],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "384Mi"}},
        "volumeMounts": [],
        "securityContext": manifests.ALONE,
    }


def _store(store: stored.Store, container: Manifest) -> list[Manifest]:
    """Return the volumes that a store needs; give the container its mounts and variables."""
    volumes: list[Manifest] = []
    if store.volume is not None:
        container["volumeMounts"].append({"name": "backups", "mountPath": agent.BACKUPS})
        volumes.append(manifests.claim_volume("backups", store.volume.claim))
    if store.s3 is not None and store.s3.secret is not None:
        container["env"] += [_from(store.s3.secret, name, name) for name in KEYS]
    if store.s3 is not None and store.s3.ca_secret is not None:
        container["volumeMounts"].append({"name": "store", "mountPath": agent.CA})
        volumes.append(manifests.secret_volume("store", store.s3.ca_secret))
    return volumes


def _client(cluster: EtcdCluster, container: Manifest) -> list[Manifest]:
    """Return the volumes of a client of a cluster; give the container its mounts and variables."""
    spec = cluster.spec
    if spec.auth is not None:
        container["env"].append(_from(spec.auth.root_secret, "password", agent.PASSWORD))
    if spec.tls is None:
        return []
    container["volumeMounts"].append({"name": "tls", "mountPath": agent.TLS})
    return [manifests.secret_volume("tls", spec.tls.client_secret)]


def _from(secret: str, key: str, variable: str) -> Manifest:
    """Return a variable with one key of a Secret, so that no other key comes into the Pod."""
    source = {"name": secret, "key": key, "optional": key == "AWS_SESSION_TOKEN"}
    return {"name": variable, "valueFrom": {"secretKeyRef": source}}


def _job(
    cluster: EtcdCluster,
    name: str,
    containers: Sequence[Manifest],
    volumes: list[Manifest],
    seconds: int,
    retries: int,
) -> Manifest:
    labels = {"app.kubernetes.io/name": "etcd-agent", "app.kubernetes.io/instance": name}
    *first, last = containers
    pod = {
        "restartPolicy": "Never",
        **manifests.COMMON,
        "initContainers": first,
        "containers": [last],
        "volumes": volumes,
        "nodeSelector": cluster.spec.pod.node_selector,
        "tolerations": cluster.spec.pod.tolerations,
        "imagePullSecrets": [{"name": secret} for secret in cluster.spec.pod.image_pull_secrets],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "activeDeadlineSeconds": seconds,
            "backoffLimit": retries,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
