import os
from collections.abc import AsyncIterator, Iterator

import pytest

from runtime.support.api_server import ApiServer
from runtime.widgets import WIDGET


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    """An API server that knows the KINDS of the test's module."""
    async with ApiServer(*getattr(request.module, "KINDS", (WIDGET,))).running() as one:
        yield one


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pauses short that a person would hardly notice.

    Not the one after which a write counts as slow: on a busy machine, many would.
    """
    for module in ("reporting.status_writer", "working.decide"):
        monkeypatch.setattr(f"kopf_runtime.{module}.SETTLE", 0.05)
    monkeypatch.setattr("kopf_runtime.watching.availability.PATIENCE", 2.0)


@pytest.fixture(autouse=True)
def _no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep kopf from reading the system's certificates at each start, which takes 45 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest.fixture(autouse=True)
def _nothing_unexpected_is_raised(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Fail a test, unless it RAISES, in which a reconcile did: it is tried again, unseen."""
    yield
    if not getattr(request.module, "RAISES", False):
        logged = (record.getMessage() for record in caplog.get_records("call"))
        assert not [line for line in logged if line.startswith("The reconcile failed")]
