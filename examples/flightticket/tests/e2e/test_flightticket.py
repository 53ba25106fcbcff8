"""A FlightTicket on a cluster: booked once and cancelled once by a service in a Pod of its own."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from examples.flightticket.booking import install as booking
from examples.flightticket.tests.e2e.conftest import HOME, BookingService
from kopf_kit.commands.operators import NAMESPACE, RELEASE
from tests.e2e.kube import WAIT, Kube, Object
from tests.e2e.waiting import wait_until

SAMPLE = Path(__file__).parents[2] / "sample.yaml"
#: What is edited of a FlightTicket to have the operator look at its booking at once.
LOOK = "flights.com/look"
NEWER = "n3w3r-t0k3n"


def kubectl(kube: Kube, *arguments: str, stdin: str | None = None) -> str:
    return kube.kubectl("-n", HOME, *arguments, stdin=stdin)


def get(kube: Kube, name: str) -> Object:
    found: Object = json.loads(kubectl(kube, "get", "ft", name, "-o", "json"))
    return found


def manifest(name: str, **spec: Any) -> str:
    wanted = {"from": "Mumbai", "to": "London", "number": 2} | spec
    return json.dumps({
        "apiVersion": "flights.com/v1", "kind": "FlightTicket", "metadata": {"name": name},
        "spec": {field: value for field, value in wanted.items() if value is not None},
    })  # fmt: skip


def create(kube: Kube, name: str) -> str:
    """Create a FlightTicket; return its uid, the key of its booking."""
    kubectl(kube, "create", "-f", "-", stdin=manifest(name))
    uid: str = get(kube, name)["metadata"]["uid"]
    return uid


def until_booked(kube: Kube, name: str) -> None:
    kubectl(kube, "wait", "--for=condition=Ready", f"ft/{name}", WAIT)


def until_reason(kube: Kube, name: str, reason: str) -> str:
    """Wait until a FlightTicket gives this reason; return what it says."""

    def ready() -> Object:
        conditions = get(kube, name).get("status", {}).get("conditions") or [{"reason": ""}]
        found: Object = conditions[0]
        return found

    found = wait_until(f"{name} is {reason}", ready, lambda now: now["reason"] == reason)
    message: str = found["message"]
    return message


def operator(kube: Kube) -> Object:
    """Return the operator's Pod."""
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=flightticket-operator"

    def pods() -> list[Object]:
        found = kube.kubectl("-n", NAMESPACE, "get", "pods", "-l", selector, "-o", "json")
        return [p for p in json.loads(found)["items"] if "deletionTimestamp" not in p["metadata"]]

    (pod,) = wait_until("one Pod of the operator", pods, lambda found: len(found) == 1)
    return pod


def test_a_ticket_is_booked_and_its_deletion_cancels_once(
    kube: Kube, service: BookingService
) -> None:
    kubectl(kube, "apply", "-f", str(SAMPLE))
    until_booked(kube, "sample")
    found = get(kube, "sample")
    key, reference = found["metadata"]["uid"], found["status"]["booking"]
    heading, row = kubectl(kube, "get", "ft", "sample").splitlines()

    assert heading.split() == ["NAME", "FROM", "TO", "NUMBER", "BOOKING", "READY", "AGE"]
    assert row.split()[:6] == ["sample", "Mumbai", "London", "2", reference, "True"]
    assert service.calls(key) == ["GET", "POST"]
    kubectl(kube, "delete", "ft", "sample", "--timeout=120s")
    assert service.events(key) == ["booked", "cancelled"]


def test_an_operator_that_is_killed_while_it_books_books_once(
    kube: Kube, service: BookingService
) -> None:
    service.fail({"kind": "hold", "method": "POST", "times": 1})
    key = create(kube, "killed")
    wait_until("a call that books", lambda: service.calls(key), lambda calls: "POST" in calls)

    pod = operator(kube)["metadata"]["name"]
    kube.kubectl("-n", NAMESPACE, "delete", "--force", "--grace-period=0", "--", "pod", pod)

    until_booked(kube, "killed")
    service.fail()  # what was held goes on
    assert service.events(key) == ["booked"]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"number": 0}, "spec.number in body should be greater than or equal to 1"),
        ({"number": 11}, "spec.number in body should be less than or equal to 10"),
        ({"number": "2"}, 'spec.number in body must be of type integer: "string"'),
        ({"number": None}, "spec.number: Required value"),
        ({"from": None}, "spec.from: Required value"),
        ({"to": None}, "spec.to: Required value"),
        ({"to": "Mumbai"}, "from and to are the same; name two cities"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_booked_is_refused_in_words(
    kube: Kube, spec: dict[str, Any], complaint: str
) -> None:
    refusal = kube.refusal("-n", HOME, "create", "-f", "-", stdin=manifest("bad", **spec))

    assert complaint in refusal


def test_an_edit_is_refused_and_a_replacement_cancels_and_books(
    kube: Kube, service: BookingService
) -> None:
    former = create(kube, "edited")
    until_booked(kube, "edited")

    edit = ("patch", "ft", "edited", "--type=merge", '--patch={"spec":{"number":3}}')
    refusal = kube.refusal("-n", HOME, *edit)
    replacement = manifest("edited", number=3)
    kubectl(kube, "replace", "--force", "-f", "-", stdin=replacement)

    assert "a booking cannot be changed; delete the FlightTicket and create another" in refusal
    until_booked(kube, "edited")
    key = get(kube, "edited")["metadata"]["uid"]
    assert service.events(former) == ["booked", "cancelled"]
    assert service.events(key) == ["booked"]


def test_a_booking_that_somebody_cancels_is_noticed_and_not_booked_again(
    kube: Kube, service: BookingService
) -> None:
    key = create(kube, "cancelled")
    until_booked(kube, "cancelled")

    service.cancel(key)
    kubectl(kube, "annotate", "ft", "cancelled", f"{LOOK}=now")

    message = until_reason(kube, "cancelled", "Cancelled")
    assert message.endswith("was cancelled outside of the cluster.")
    assert service.events(key) == ["booked", "cancelled"]


def test_while_the_service_is_down_that_is_told_with_a_way_out_and_it_comes_back(
    kube: Kube, service: BookingService
) -> None:
    kept, given_up = create(kube, "kept"), create(kube, "given-up")
    until_booked(kube, "kept")
    until_booked(kube, "given-up")
    with service.down():
        late = create(kube, "late")
        assert until_reason(kube, "late", "SyncFailed").startswith("The booking service ")
        kubectl(kube, "delete", "ft", "given-up", "--wait=false")
        message = until_reason(kube, "given-up", "CleanupFailed")
        assert message.endswith("remove its finalizer flights.com/flightticket-operator.")
        free = '--patch={"metadata":{"finalizers":null}}'
        kubectl(kube, "patch", "ft", "given-up", "--type=merge", free)
        kubectl(kube, "wait", "--for=delete", "ft/given-up", WAIT)

    until_booked(kube, "late")
    kubectl(kube, "annotate", "ft", "kept", f"{LOOK}=now")
    wait_until("the operator looks", lambda: service.calls(kept), lambda calls: "GET" in calls)
    until_booked(kube, "kept")
    assert [service.events(key) for key in (kept, late, given_up)] == [["booked"]] * 3


def test_the_token_changes_without_a_restart_and_is_told_nowhere(
    kube: Kube, service: BookingService
) -> None:
    before, older = operator(kube), token(kube)
    change_secret(kube, booking.NAMESPACE, booking.TOKENS, "booking-0", tokens=NEWER)
    read = ("-c", "print(open('/etc/booking/tokens').read(), end='')")
    wait_until(
        "the service to have its new token",
        lambda: kube.kubectl("-n", booking.NAMESPACE, "exec", "booking-0", "--", "python3", *read),
        lambda accepted: accepted == NEWER,
    )
    create(kube, "refused")
    message = until_reason(kube, "refused", "SyncFailed")
    assert message == "The booking service refuses the operator's token (401)."

    pod = before["metadata"]["name"]
    change_secret(kube, NAMESPACE, booking.TOKEN, pod, token=NEWER)

    until_booked(kube, "refused")
    after = operator(kube)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]
    said = kubectl(kube, "get", "ft,events", "-o", "yaml")
    said += kube.kubectl("-n", NAMESPACE, "logs", "--", pod)
    assert message in said
    assert older not in said
    assert NEWER not in said


def token(kube: Kube) -> str:
    """Return the operator's token."""
    coded = ("get", "secret", booking.TOKEN, "-o", "jsonpath={.data.token}")
    return base64.b64decode(kube.kubectl("-n", NAMESPACE, *coded)).decode()


def change_secret(kube: Kube, namespace: str, name: str, pod: str, **content: str) -> None:
    """Change a Secret that a Pod has mounted.

    The kubelet looks at the Secrets of a Pod every minute or two, and when the Pod is changed.
    """
    secret = json.dumps(booking.secret(namespace, name, **content))
    kube.kubectl("apply", "-f", "-", stdin=secret)
    kube.kubectl("-n", namespace, "annotate", "pod", pod, f"{LOOK}=now", "--overwrite")


def test_the_network_policy_lets_the_operator_reach_the_service(kube: Kube) -> None:
    """Where the cluster enforces policies, the other tests need them, too; kind may not."""
    labels = operator(kube)["metadata"]["labels"]
    policies = json.loads(kube.kubectl("-n", NAMESPACE, "get", "networkpolicies", "-o", "json"))
    mine = [
        one["spec"] for one in policies["items"]
        if one["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ]  # fmt: skip
    endpoints = kube.kubectl("-n", booking.NAMESPACE, "get", "endpointslices", "-o", "json")
    (served,) = json.loads(endpoints)["items"]

    open_ports = {
        port["port"] for spec in mine for rule in spec.get("egress", ()) for port in rule["ports"]
    }
    assert all("Egress" in spec["policyTypes"] for spec in mine)
    assert {port["port"] for port in served["ports"]} < open_ports
