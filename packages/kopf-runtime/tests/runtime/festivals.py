"""A kind of these tests with three versions: a Festival, whose oldest one has a single stage."""

from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr


class Stage(kr.Fields, frozen=True):
    """A stage."""

    name: Annotated[str, Meta(min_length=1, max_length=20)]
    seats: Annotated[int, Meta(ge=1, le=50_000)] = 100


class AlphaSpec(kr.Fields, frozen=True):
    """What is wanted."""

    stage_name: Annotated[str, Meta(min_length=1, max_length=20)]
    opens_at: str = ""


class BetaSpec(kr.Fields, frozen=True):
    """What is wanted, with several stages."""

    stages: Annotated[list[Stage], Meta(min_length=1, max_length=5)]
    opens_at: str = ""


class Hours(kr.Fields, frozen=True):
    """When it is open."""

    opens: str = ""
    closes: str | None = None


class Spec(kr.Fields, frozen=True):
    """What is wanted, with hours."""

    stages: Annotated[list[Stage], Meta(min_length=1, max_length=5)]
    hours: Hours = Hours()


@kr.custom_resource("example.dev", "v1alpha1", "festivals", kind="Festival", storage=True)
class Alpha(kr.Resource, kw_only=True):
    """A Festival has one stage."""

    spec: AlphaSpec


@kr.custom_resource("example.dev", "v1beta1", "festivals", kind="Festival")
class Beta(kr.Resource, kw_only=True):
    """A Festival has stages."""

    spec: BetaSpec


@kr.custom_resource("example.dev", "v1", "festivals")
class Festival(kr.Resource, kw_only=True):
    """A Festival has stages, and hours in which it is open."""

    spec: Spec


manager = kr.Manager("festival-operator", kr.Settings)
controller = manager.controller_for(Festival, project=lambda festival: festival.spec)


@controller.convert(Alpha, Beta)
def several(old: Alpha) -> Beta:
    """Make the one stage the first of several."""
    if old.spec.stage_name == "poison":
        raise RuntimeError("no stage may be poisoned")
    spec = BetaSpec([Stage(old.spec.stage_name)], old.spec.opens_at)
    return Beta(metadata=old.metadata, spec=spec)


@controller.convert(Beta, Alpha)
def single(new: Beta) -> Alpha:
    """Take the first stage."""
    name = new.spec.stages[0].name if new.spec.stages else ""
    return Alpha(metadata=new.metadata, spec=AlphaSpec(name, new.spec.opens_at))


@controller.convert(Beta, Festival)
def with_hours(old: Beta) -> Festival:
    """Move the opening."""
    return Festival(metadata=old.metadata, spec=Spec(old.spec.stages, Hours(old.spec.opens_at)))


@controller.convert(Festival, Beta)
def without_hours(new: Festival) -> Beta:
    """Move the opening back; there is no closing."""
    return Beta(metadata=new.metadata, spec=BetaSpec(new.spec.stages, new.spec.hours.opens))


if __name__ == "__main__":
    raise SystemExit(manager.run())
