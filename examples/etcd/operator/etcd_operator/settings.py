"""The operator's settings, and the manager that all its kinds share."""

from dataclasses import dataclass

import kopf_runtime as kr

from etcd_operator import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    etcd_repository: str = kr.flag(
        "gcr.io/etcd-development/etcd", "where the images of etcd are", kr.image, "REPOSITORY"
    )


manager = kr.Manager("etcd-operator", Settings, version=__version__)
