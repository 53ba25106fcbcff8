"""A volume that is claimed for as long as its object is there, as in kopf's tutorial."""

from collections.abc import Iterable

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """What is claimed."""

    size: kr.Quantity = "1Gi"
    """The size of the volume."""


@kr.custom_resource("gallery.example.dev", "v1", "ephemeralvolumes")
class EphemeralVolume(kr.Resource):
    """An EphemeralVolume is a PersistentVolumeClaim of its name, which goes with it."""

    spec: Spec = Spec()


manager = kr.Manager("ephemeral-volume", kr.Settings)
volumes = manager.controller_for(EphemeralVolume)
volumes.owns(kr.kinds.PERSISTENT_VOLUME_CLAIM, prune=True, unready=lambda _: "")


@volumes.desired
def desired(volume: EphemeralVolume, _: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the claim of a volume."""
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.metadata.name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": volume.spec.size}},
        },
    }


if __name__ == "__main__":
    raise SystemExit(manager.run())
