"""The FlightTicket of examples/ as the fault suite sees it: what it has is outside of the cluster.

It has no children, so it is none of `subjects`; tests/faults/test_flightticket.py has its tests.
"""

from examples.flightticket import flighttickets
from kopf_runtime.kinds import Kind
from tests.support.faults.cluster import Raw
from tests.support.faults.subject import Subject


class FlightTickets(Subject):
    """The operator of examples/flightticket, with the rights that it declares."""

    program = (flighttickets.__file__,)
    manager = flighttickets.manager
    creates = Kind("", "v1", "events", "Event")
    well = "Booked"

    def spec(self, text: str) -> Raw:
        return {"from": "Mumbai", "to": text, "number": 2}
