"""The FlightTicket of examples/ as the fault suite sees it: what it has is outside of the cluster.

It has no children, so it is none of `subjects`; tests/faults/test_flightticket.py has its tests.
"""

from pathlib import Path

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
    creates = Kind("", "v1", "events", "Event")
    well = "Booked"

    def install(self) -> list[Raw]:
        return [yaml.safe_load((EXAMPLE / "crd.yaml").read_text())]

    def rights(self, namespace: str | None) -> list[Raw]:
        return granted(EXAMPLE / "flighttickets.py", namespace)

    def spec(self, text: str) -> Raw:
        return {"from": "Mumbai", "to": text, "number": 2}
