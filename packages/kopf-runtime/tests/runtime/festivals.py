"""A kind of these tests with three versions: a Festival, whose oldest one has a single stage."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta, json
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_runtime.endpoints.reviews import Answer
from kopf_runtime.working.admission import Asked


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
controller = manager.controller_for(Festival, transform=lambda festival: festival.spec)


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


@controller.default(operations=("create",))
def tidy(festival: Festival, _: kr.ReviewContext[kr.Settings]) -> Festival | None:
    """Say who made it, and open at ten."""
    if festival.spec.hours.opens:
        return None
    hours = Hours("10", festival.spec.hours.closes)
    return replace(festival, spec=replace(festival.spec, hours=hours))


@controller.validate(operations=("create", "update", "delete"))
def fair_names(festival: Festival, context: kr.ReviewContext[kr.Settings]) -> Iterator[str]:
    """Refuse a stage of a bad name, and the end of a large festival; warn of a small one."""
    if context.operation == "delete":
        if len(festival.spec.stages) > 3 and "admins" not in context.user.groups:
            raise kr.Denied(f"{context.user.name} may not end a large festival; ask an admin.")
        return
    if any(stage.name == "rude" for stage in festival.spec.stages):
        raise kr.Denied("A stage is called rude; give it another name.")
    if context.old is not None and len(context.old.spec.stages) > len(festival.spec.stages):
        yield "The festival loses stages."


@controller.validate(failure_policy="ignore", timeout=0.5)
async def in_time(festival: Festival, _: kr.ReviewContext[kr.Settings]) -> None:
    """Hang for some."""
    if festival.metadata.name.startswith("slow"):
        await asyncio.sleep(3600)


def admit(controller: Any = controller) -> list[tuple[str, Answer]]:
    """Return what answers at the paths of a controller's webhooks, for a test without a cluster."""
    given = {"settings": kr.Settings(), "now": 0.0, "session": None}

    async def context(_: kr.Resource) -> dict[str, Any]:
        return given

    async def own() -> str:
        return "system:serviceaccount:festivals:operator"

    decoder = json.Decoder(Festival)
    return [
        (webhook.path, Asked(webhook, Festival, decoder, context, own).answer)
        for webhook in controller.declaration.webhooks
    ]


if __name__ == "__main__":
    raise SystemExit(manager.run())
