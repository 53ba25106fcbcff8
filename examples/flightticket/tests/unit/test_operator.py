"""What a FlightTicket may contain, and its status, without a cluster and without a service."""

import argparse
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest

from flightticket_operator import operator

SPEC = {"from": "Mumbai", "to": "London", "number": 2}


def decoded(**spec: object) -> operator.FlightTicket:
    metadata = {"name": "sample", "uid": "1", "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, "spec": SPEC | spec}, operator.FlightTicket)


@pytest.mark.parametrize("number", [0, 11])
def test_a_number_of_seats_that_cannot_be_is_refused(number: int) -> None:
    with pytest.raises(msgspec.ValidationError, match="number"):
        decoded(number=number)


@pytest.mark.parametrize(
    "text", ["booking", "ftp://booking", "https://user:a@booking", "http://b?a", "http://"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a valid address"):
        operator.url(text)


def test_an_address_may_have_a_port_and_a_path() -> None:
    assert operator.url("https://[::1]:8443/api/") == "https://[::1]:8443/api"


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ({"state": "booked", **SPEC}, "Booked"),
        ({"state": "booked", **SPEC, "number": 3}, "Changed"),
        ({"state": "cancelled", **SPEC}, "Cancelled"),
    ],
)
def test_what_the_service_says_of_a_booking_is_told(says: dict[str, Any], reason: str) -> None:
    booking = msgspec.convert({"reference": "B1", **says}, operator.Booking)
    seen = kr.Observed(None, sync_result=booking)

    assert operator.status(decoded(), seen).reason == reason
