"""Where backups are kept, for users and for the agent, and what is known about a backup."""

from typing import Annotated, Literal

import kopf_runtime as kr
from msgspec import Meta, Struct

from etcd_operator.kinds import ID, Text, Version, described

#: Parts of a path below a bucket or a volume; none begins with a dot.
_PART = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
Path = Annotated[str, Meta(max_length=256, pattern=f"^({_PART}(/{_PART})*)?$")]
Sha256 = Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]{64}$")]


class S3(kr.Fields, frozen=True, kw_only=True):
    """A bucket of S3, or of a store with the same protocol."""

    bucket: Annotated[str, Meta(min_length=3, max_length=63, pattern="^[a-z0-9][a-z0-9.-]+$")]
    prefix: Annotated[Path, described("The folder in the bucket.")] = ""
    endpoint: Annotated[
        str,
        described(
            "The URL of the store, such as https://minio.example; empty for AWS.",
            max_length=256,
            pattern=r"^(https?://[^\s/]+)?$",
        ),
    ] = ""
    region: Annotated[str, Meta(max_length=63)] = "us-east-1"
    secret: Annotated[
        kr.ObjectName | None,
        described(
            "A Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and "
            "AWS_SESSION_TOKEN if there is one. Without it, the Pod's own identity is used."
        ),
    ] = None
    ca_secret: Annotated[
        kr.ObjectName | None,
        described("A Secret whose ca.crt has the authority of the store's certificate."),
    ] = None
    virtual_hosts: Annotated[
        bool, described("Whether the bucket is a part of the store's host name.")
    ] = False
    encryption: Annotated[
        Literal["", "AES256", "aws:kms"],
        described("How the store is asked to encrypt; empty for the bucket's own setting."),
    ] = ""
    kms_key: Annotated[str, described("The key for aws:kms.", max_length=256)] = ""


class Claim(kr.Fields, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    claim: kr.ObjectName
    path: Annotated[Path, described("The folder in the volume.")] = ""


class Store(kr.Fields, frozen=True):
    """Where backups are kept: exactly one of these."""

    s3: S3 | None = None
    volume: Claim | None = None


ONE = kr.Rule("has(self.s3) != has(self.volume)", "name one store: either s3 or volume")


class Taken(kr.Fields, frozen=True, kw_only=True):
    """A complete backup: its file, which was verified, and this record of it are in the store."""

    name: Annotated[Path, described("Its file in the store, below prefix or path.")]
    time: Annotated[str, described("When it was begun.", max_length=32)]
    revision: Annotated[int, described("It has at least all that was written up to this.")]
    version: Annotated[Version, described("The version of etcd that it is of.")]
    cluster_id: ID = ""
    size: Annotated[int, described("Its bytes.", ge=0)]
    sha256: Sha256
    seconds: Annotated[float, described("How long it took.", ge=0)] = 0.0


class Report(Struct, frozen=True, kw_only=True):
    """What the agent reports when it ends: a termination message of at most 4 KiB."""

    taken: Taken | None = None
    #: Names of backups that were deleted, because enough newer ones are kept.
    deleted: list[str] = []
    #: What went wrong, but does not spoil the backup.
    warning: Text = ""
