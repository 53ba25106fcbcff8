"""An operator in the releases that a version lives through; the first argument is the release."""

import sys
from collections.abc import Iterator
from typing import Any

import kopf_runtime as kr
from kopf_runtime.working import migration

#: v1alpha1 alone, both, v1 is stored, v1alpha1 is not served any more, v1 alone.
FIRST, BOTH, STORED, UNSERVED, LAST = range(1, 6)


class AlphaSpec(kr.Fields, frozen=True):
    """What is wanted."""

    seats: int = 0
    note: str = ""


class Spec(kr.Fields, frozen=True):
    """What is wanted, with a name for the seats that means more, and a colour."""

    places: int = 0
    note: str = ""
    colour: str = ""


def release(number: int) -> kr.Manager[kr.Settings]:
    """Return the operator of a release."""

    @kr.custom_resource(
        "example.dev",
        "v1alpha1",
        "fairs",
        kind="Fair",
        storage=number <= BOTH,
        served=number < UNSERVED,
    )
    class Alpha(kr.Resource):
        """A Fair has seats."""

        spec: AlphaSpec = AlphaSpec()

    @kr.custom_resource("example.dev", "v1", "fairs", storage=number > BOTH)
    class Fair(kr.Resource):
        """A Fair has places."""

        spec: Spec = Spec()

    manager = kr.Manager("fair-operator", kr.Settings)
    own: type[kr.Resource] = Alpha if number == FIRST else Fair
    controller = manager.controller_for(own)
    controller.owns(kr.kinds.DEPLOYMENT)

    @controller.desired
    def desired(fair: Any, _: kr.Context[kr.Settings]) -> Iterator[dict[str, Any]]:
        """Return a Deployment of no Pods, of which a change would be a restart."""
        places = fair.spec.seats if number == FIRST else fair.spec.places
        name, labels = fair.metadata.name, {"fair": fair.metadata.name}
        variables = [{"name": "PLACES", "value": str(places)}]
        container = {"name": "fair", "image": "example.dev/fair:1", "env": variables}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }

    if number in (FIRST, LAST):
        return manager

    @controller.convert(Alpha, Fair)
    def newer(old: Alpha) -> Fair:
        return Fair(metadata=old.metadata, spec=Spec(old.spec.seats, old.spec.note))

    @controller.convert(Fair, Alpha)
    def older(new: Fair) -> Alpha:
        return Alpha(metadata=new.metadata, spec=AlphaSpec(new.spec.places, new.spec.note))

    return manager


if __name__ == "__main__":
    migration.CRD_SETTLES = 1.0
    raise SystemExit(release(int(sys.argv.pop(1))).run())
