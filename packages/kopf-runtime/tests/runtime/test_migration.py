"""What is stored in a former version is rewritten at its pace, whatever the API server answers.

tests/faults/test_migration.py does it with a real one, and reads its etcd.
"""

import asyncio
import logging
from collections import Counter
from typing import Any

import msgspec
import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.working import migration
from kopf_runtime.working.migration import Migration
from runtime import festivals
from runtime.support.waiting import in_virtual_time, now

VERSIONS = Versions.of(festivals.controller.declaration)


class Server:
    """An API server with a number of Festivals."""

    def __init__(self, number: int) -> None:
        self.objects = [{"name": f"f-{n}"} for n in range(number)]
        self.stored = ["v1alpha1", "v1"]
        #: When each object was written.
        self.writes: list[tuple[str, float]] = []
        #: What befalls a write: an error, or seconds.
        self.faults: dict[str, ApiError | float] = {}
        self.listing: ApiError | None = None

    async def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if method == "PATCH":
            assert path.endswith("/status")
            self.stored = body["status"]["storedVersions"]
        versions = [{"name": "v1alpha1", "storage": False}, {"name": "v1", "storage": True}]
        metadata = {"generation": 1, "resourceVersion": "1"}
        status = {"storedVersions": self.stored}
        return {"metadata": metadata, "spec": {"versions": versions}, "status": status}

    async def request(self, method: str, path: str, _: Any = None, **__: Any) -> bytes:
        name = path.rpartition("/")[2]
        if name == "festivals":
            if self.listing:
                raise self.listing
            items = [{"metadata": {"namespace": "ns", **metadata}} for metadata in self.objects]
            return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})
        if method == "GET":
            return b"{}"
        self.writes.append((name, now()))
        if isinstance(fault := self.faults.pop(name, 0.0), ApiError):
            raise fault
        await asyncio.sleep(fault)
        return b"{}"


async def migrated(server: Server, seconds: float) -> dict[str, float]:
    """Migrate for some time; return what the metrics say then, by name."""
    metrics = Metrics("festival-operator")
    task = asyncio.create_task(Migration(server, [VERSIONS], metrics).run())  # type: ignore[arg-type, list-item]
    await asyncio.sleep(seconds)
    found = {
        name: metrics.registry.get_sample_value(
            f"festival_operator_storage_migrator_{name}", {"resource": "festivals"}
        )
        or 0.0
        for name in ("migrated_objects_total", "remaining_objects")
    }
    task.cancel()
    return found


@in_virtual_time
async def test_no_second_has_more_writes_than_it_may_after_the_api_server_was_slow() -> None:
    server = Server(500)
    server.faults["f-50"] = 3.0

    found = await migrated(server, 60)

    assert found == {"migrated_objects_total": 500, "remaining_objects": 0}
    assert server.stored == ["v1"]
    assert max(Counter(int(when) for _, when in server.writes).values()) <= migration.RATE + 1


@pytest.mark.parametrize("status", [403, 404, 422])
def test_what_a_webhook_refuses_with_any_status_is_told_and_tried_again(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def test() -> None:
        server = Server(3)
        server.faults["f-1"] = ApiError("PATCH", "f-1", status, "NotFound", "a webhook said no")
        with caplog.at_level(logging.WARNING):
            found = await migrated(server, migration.CRD_SETTLES + 0.5)
        assert found == {"migrated_objects_total": 2, "remaining_objects": 1}
        assert "v1alpha1" in server.stored
        assert "ns/f-1 cannot be rewritten" in caplog.text
        await migrated(server, 100)
        assert server.stored == ["v1"]

    test()


@in_virtual_time
async def test_a_list_that_is_not_served_ends_nothing() -> None:
    server = Server(3)
    server.listing = ApiError("GET", "festivals", 404, "NotFound", "page not found")
    task = asyncio.create_task(migrated(server, 200))
    await asyncio.sleep(migration.CRD_SETTLES + 1)
    server.listing = None
    await task

    assert server.stored == ["v1"]
