"""The FlightTicket of examples/ as the fault suite sees it: what it has is outside of the cluster.

It has no children, so it is none of `subjects`; tests/faults/test_flightticket.py has its tests.
"""

from pathlib import Path
from typing import Any

import yaml

from kopf_runtime.kinds import Kind
from tests.support.faults.cluster import Raw
from tests.support.faults.rights import granted
from tests.support.faults.subject import Subject

EXAMPLE = Path(__file__).parents[2] / "examples" / "flightticket"


class FlightTickets(Subject):
    """The operator of examples/flightticket, with the rights that it declares."""

    program = (str(EXAMPLE / "flighttickets.py"),)
    kind = Kind("flights.com", "v1", "flighttickets", "FlightTicket")
    child = Kind("", "v1", "events", "Event")  # all that it creates in the cluster
    well = "Booked"

    def install(self) -> list[Raw]:
        return [yaml.safe_load((EXAMPLE / "crd.yaml").read_text())]

    def rights(self, namespace: str | None) -> list[Raw]:
        return granted(EXAMPLE / "flighttickets.py", namespace)

    def spec(self, text: str) -> Raw:
        return {"from": "Mumbai", "to": text, "number": 2}

    def child_of(self, name: str) -> str:
        raise NotImplementedError("a FlightTicket has no children")

    def foreign(self, name: str) -> Raw:
        raise NotImplementedError("a FlightTicket has no children")

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        raise NotImplementedError("a FlightTicket has no children")

    def essence(self, child: Raw) -> Raw:
        raise NotImplementedError("a FlightTicket has no children")
