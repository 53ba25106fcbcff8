"""The operator's settings, and the manager that all its kinds share."""

from dataclasses import dataclass

import kopf_runtime as kr

from etcd_operator import __version__


def not_released(text: str) -> str:
    """Return the name of an image that a release does not push: etcd's or the operator's."""
    return kr.image(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    etcd_repository: str = kr.flag(
        "gcr.io/etcd-development/etcd", "where the images of etcd are", not_released, "REPOSITORY"
    )
    agent_image: str = kr.flag(
        "ghcr.io/example/etcd-operator:" + __version__,
        "this operator's image, in which backups are taken",
        not_released,
        "IMAGE",
    )


manager = kr.Manager("etcd-operator", Settings, version=__version__)
