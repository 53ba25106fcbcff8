"""An operator that has kopf's own handlers of admission beside its controller: of Permits."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import kopf

import kopf_runtime as kr
from kopf_runtime.declaring.admission import MAX_TIMEOUT
from kopf_runtime.declaring.kinds import CONFIG_MAP
from kopf_runtime.endpoints.reviews import Answer
from kopf_runtime.process.kopf_admission import Handled

_before = kopf.get_default_registry()  # of another operator in the process of a test
kopf.set_default_registry(kopf.OperatorRegistry())


class Spec(kr.Fields, frozen=True):
    """What is permitted."""

    holder: str
    days: int = 0


@kr.custom_resource("example.dev", "v1", "permits", short_names=["pmt"])
class Permit(kr.Resource, kw_only=True):
    """A Permit allows its holder something for some days."""

    spec: Spec


manager = kr.Manager("permit-operator", kr.Settings)
controller = manager.controller_for(Permit)
controller.owns(CONFIG_MAP)


@controller.desired
def desired(permit: Permit, _: kr.Context[kr.Settings]) -> Iterator[dict[str, Any]]:
    """Write it on paper."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"permit-{permit.metadata.name}"},
        "data": {"days": str(permit.spec.days)},
    }


@kopf.on.startup()
async def banned(memo: kopf.Memo, **_: Any) -> None:
    """Read whom nobody permits anything."""
    memo.banned = {"mallory"}


@kopf.on.validate("pmt", operations=["CREATE", "UPDATE"])
async def known_holder(memo: kopf.Memo, spec: Any, warnings: list[str], **_: Any) -> None:
    """Refuse who is banned, and warn of a long time."""
    if spec["holder"] in memo.banned:
        raise kopf.AdmissionError(f"{spec['holder']} is banned.", code=422)
    if spec["holder"] == "slow":
        await asyncio.sleep(3600)
    if spec["days"] > 300:
        warnings.append("That is nearly a year.")


@kopf.on.mutate("permits", labels={"kind": "short"}, side_effects=True, ignore_failures=True)
def a_day(spec: Any, patch: kopf.Patch, **_: Any) -> None:
    """Let a short one last for a day."""
    if not spec.get("days"):
        patch.spec["days"] = 1


def admit(timeout: float = MAX_TIMEOUT) -> list[tuple[str, Answer]]:
    """Return what answers at the paths of its webhooks, for a test without a cluster."""

    async def given() -> dict[str, Any]:
        memo = kopf.Memo(banned={"mallory"})
        return {"settings": kopf.OperatorSettings(), "memobase": memo, "indices": {}}

    async def own() -> str:
        return "system:serviceaccount:permits:operator"

    webhooks = [replace(webhook, timeout=timeout) for webhook in manager.webhooks]
    return [(webhook.path, Handled(webhook, own, given).answer) for webhook in webhooks]


if __name__ != "__main__":
    kopf.set_default_registry(_before)
else:
    raise SystemExit(manager.run())
