"""Where backups are kept, for users and for the agent, and what is known about a backup."""

from typing import Annotated, Literal

import kopf_runtime as kr
from msgspec import Meta, Struct

from etcd_operator.kinds import ID, Text, Version, rule

#: Parts of a path below a bucket or a volume; none begins with a dot.
_PART = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
Path = Annotated[str, Meta(max_length=256, pattern=f"^({_PART}(/{_PART})*)?$")]
Sha256 = Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]{64}$")]


class S3(kr.Fields, frozen=True, kw_only=True, omit_defaults=True):
    """A bucket of S3, or of a store with the same protocol."""

    bucket: Annotated[str, Meta(min_length=3, max_length=63, pattern="^[a-z0-9][a-z0-9.-]+$")]
    prefix: Path = ""
    """The folder in the bucket."""
    endpoint: Annotated[str, Meta(max_length=256, pattern=r"^(https?://[^\s/]+)?$")] = ""
    """The URL of the store, such as https://minio.example; empty for AWS."""
    region: Annotated[str, Meta(max_length=63)] = "us-east-1"
    secret: kr.ObjectName | None = None
    """A Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if
    there is one. Without it, the Pod's own identity is used."""
    ca_secret: kr.ObjectName | None = None
    """A Secret whose ca.crt has the authority of the store's certificate."""
    virtual_hosts: bool = False
    """Whether the bucket is a part of the store's host name."""
    encryption: Literal["", "AES256", "aws:kms"] = ""
    """How the store is asked to encrypt; empty for the bucket's own setting."""
    kms_key: Annotated[str, Meta(max_length=256)] = ""
    """The key for aws:kms."""


class Claim(kr.Fields, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    claim: kr.ObjectName
    path: Path = ""
    """The folder in the volume."""


class Store(kr.Fields, frozen=True, omit_defaults=True):
    """Where backups are kept: exactly one of these."""

    s3: S3 | None = None
    volume: Claim | None = None


ONE = rule("has(self.s3) != has(self.volume)", "name one store: either s3 or volume")


class Taken(kr.Fields, frozen=True, kw_only=True):
    """A complete backup: its file, which was verified, and this record of it are in the store."""

    name: Path
    """Its file in the store, below prefix or path."""
    time: Annotated[str, Meta(max_length=32)]
    """When it was begun."""
    revision: int
    """It has at least all that was written up to this."""
    version: Version
    """The version of etcd that it is of."""
    cluster_id: ID = ""
    """The ID of the cluster in etcd; a restore gives it another one."""
    cluster_uid: Text = ""
    """The uid of the EtcdCluster; one that adopts its volumes has another one."""
    size: Annotated[int, Meta(ge=0)]
    """Its bytes."""
    sha256: Sha256
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long it took."""


class Report(Struct, frozen=True, kw_only=True):
    """What the agent reports when it ends: a termination message of at most 4 KiB."""

    taken: Taken | None = None
    #: Names of backups that were deleted, because enough newer ones are kept.
    deleted: list[str] = []
    #: What went wrong, but does not spoil the backup.
    warning: Text = ""
