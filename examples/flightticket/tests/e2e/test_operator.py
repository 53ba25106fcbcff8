"""A FlightTicket on a cluster: booked once and cancelled once by a service in a Pod of its own."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kopf_kit.testing.installed import Installed, Kubectl
from kopf_kit.testing.requests import wait_until

from booking import install as booking
from tests.e2e.conftest import BookingService

SAMPLE = Path(__file__).parents[2] / "examples" / "sample.yaml"
WAIT = "--timeout=300s"
#: What is edited of a FlightTicket to have the operator look at its booking at once.
LOOK = "flights.com/look"
NEWER = "n3w3r-t0k3n"


def get(kubectl: Kubectl, name: str) -> dict[str, Any]:
    found: dict[str, Any] = kubectl.get("ft", name)
    return found


def manifest(name: str, **spec: Any) -> str:
    wanted = {"from": "Mumbai", "to": "London", "number": 2} | spec
    return json.dumps(
        {
            "apiVersion": "flights.com/v1",
            "kind": "FlightTicket",
            "metadata": {"name": name},
            "spec": {field: value for field, value in wanted.items() if value is not None},
        }
    )


def create(kubectl: Kubectl, name: str) -> str:
    """Create a FlightTicket; return its uid, the key of its booking."""
    kubectl("create", "-f", "-", stdin=manifest(name))
    uid: str = get(kubectl, name)["metadata"]["uid"]
    return uid


def until_booked(kubectl: Kubectl, name: str) -> None:
    kubectl("wait", "--for=condition=Ready", f"ft/{name}", WAIT)


def until_reason(kubectl: Kubectl, name: str, reason: str) -> str:
    """Wait until a FlightTicket gives this reason; return what it says."""

    def ready() -> dict[str, Any]:
        conditions = get(kubectl, name).get("status", {}).get("conditions") or [{"reason": ""}]
        found: dict[str, Any] = conditions[0]
        return found

    found = wait_until(f"{name} is {reason}", ready, lambda now: now["reason"] == reason)
    message: str = found["message"]
    return message


def operator(installed: Installed) -> dict[str, Any]:
    """Return the operator's Pod."""
    (pod,) = wait_until("one Pod of the operator", installed.pods, lambda found: len(found) == 1)
    found: dict[str, Any] = pod
    return found


def test_a_ticket_is_booked_and_its_deletion_cancels_once(
    kubectl: Kubectl, service: BookingService
) -> None:
    kubectl("apply", "-f", str(SAMPLE))
    until_booked(kubectl, "sample")
    found = get(kubectl, "sample")
    key, reference = found["metadata"]["uid"], found["status"]["booking"]
    heading, row = kubectl("get", "ft", "sample").splitlines()

    assert heading.split() == ["NAME", "FROM", "TO", "NUMBER", "BOOKING", "READY", "AGE"]
    assert row.split()[:6] == ["sample", "Mumbai", "London", "2", reference, "True"]
    assert service.calls(key) == ["GET", "POST"]
    kubectl("delete", "ft", "sample", "--timeout=120s")
    assert service.events(key) == ["booked", "cancelled"]


def test_an_operator_that_is_killed_while_it_books_books_once(
    kubectl: Kubectl, installed: Installed, service: BookingService
) -> None:
    service.fail({"kind": "hold", "method": "POST", "times": 1})
    key = create(kubectl, "killed")
    wait_until("a call that books", lambda: service.calls(key), lambda calls: "POST" in calls)

    pod = operator(installed)["metadata"]["name"]
    installed.kubectl("delete", "--force", "--grace-period=0", "--", "pod", pod)

    until_booked(kubectl, "killed")
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
    kubectl: Kubectl, spec: dict[str, Any], complaint: str
) -> None:
    refusal = kubectl.refusal("create", "-f", "-", stdin=manifest("bad", **spec))

    assert complaint in refusal


def test_a_route_that_nobody_flies_is_refused_and_a_service_that_is_down_is_told(
    kubectl: Kubectl, service: BookingService
) -> None:
    def dry_run() -> str:
        options = ("create", "--dry-run=server", "-f", "-")
        asked = subprocess.run(  # noqa: S603
            kubectl.command(*options),
            input=manifest("bad", to="Atlantis"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return asked.stderr

    refusal = "denied the request: There is no airport in Atlantis."
    # An operator that was killed before is asked once it is ready.
    wait_until("the operator is asked", dry_run, lambda told: refusal in told)

    service.fail({"kind": "answer", "key": "routes", "status": 500, "text": "broken"})
    create = kubectl.command("create", "-f", "-")
    told = subprocess.run(  # noqa: S603
        create, input=manifest("unchecked"), capture_output=True, text=True, timeout=60, check=True
    )

    assert "Warning: It was not checked: known-route.flighttickets" in told.stderr
    until_booked(kubectl, "unchecked")


def test_an_edit_is_refused_and_a_replacement_cancels_and_books(
    kubectl: Kubectl, service: BookingService
) -> None:
    former = create(kubectl, "edited")
    until_booked(kubectl, "edited")

    edit = ("patch", "ft", "edited", "--type=merge", '--patch={"spec":{"number":3}}')
    refusal = kubectl.refusal(*edit)
    replacement = manifest("edited", number=3)
    kubectl("replace", "--force", "-f", "-", stdin=replacement)

    assert "a booking cannot be changed; delete the FlightTicket and create another" in refusal
    until_booked(kubectl, "edited")
    key = get(kubectl, "edited")["metadata"]["uid"]
    assert service.events(former) == ["booked", "cancelled"]
    assert service.events(key) == ["booked"]


def test_a_booking_that_somebody_cancels_is_noticed_and_not_booked_again(
    kubectl: Kubectl, service: BookingService
) -> None:
    key = create(kubectl, "cancelled")
    until_booked(kubectl, "cancelled")

    service.cancel(key)
    kubectl("annotate", "ft", "cancelled", f"{LOOK}=now")

    message = until_reason(kubectl, "cancelled", "Cancelled")
    assert message.endswith("was cancelled outside of the cluster.")
    assert service.events(key) == ["booked", "cancelled"]


def test_while_the_service_is_down_that_is_told_with_a_way_out_and_it_comes_back(
    kubectl: Kubectl, service: BookingService
) -> None:
    kept, given_up = create(kubectl, "kept"), create(kubectl, "given-up")
    until_booked(kubectl, "kept")
    until_booked(kubectl, "given-up")
    with service.down():
        late = create(kubectl, "late")
        assert until_reason(kubectl, "late", "SyncFailed").startswith("The booking service ")
        kubectl("delete", "ft", "given-up", "--wait=false")
        message = until_reason(kubectl, "given-up", "CleanupFailed")
        assert message.endswith("remove its finalizer flights.com/flightticket-operator.")
        free = '--patch={"metadata":{"finalizers":null}}'
        kubectl("patch", "ft", "given-up", "--type=merge", free)
        kubectl("wait", "--for=delete", "ft/given-up", WAIT)

    until_booked(kubectl, "late")
    kubectl("annotate", "ft", "kept", f"{LOOK}=now")
    wait_until("the operator looks", lambda: service.calls(kept), lambda calls: "GET" in calls)
    until_booked(kubectl, "kept")
    assert [service.events(key) for key in (kept, late, given_up)] == [["booked"]] * 3


def test_the_token_changes_without_a_restart_and_is_told_nowhere(
    kubectl: Kubectl, installed: Installed, service: BookingService
) -> None:
    before, older = operator(installed), token(installed)
    change_secret(service.kubectl, booking.TOKENS, "booking-0", tokens=NEWER)
    read = ("-c", "print(open('/etc/booking/tokens').read(), end='')")
    wait_until(
        "the service to have its new token",
        lambda: service.kubectl("exec", "booking-0", "--", "python3", *read),
        lambda accepted: accepted == NEWER,
    )
    create(kubectl, "refused")
    message = until_reason(kubectl, "refused", "SyncFailed")
    assert message == "The booking service refuses the operator's token (401)."

    pod = before["metadata"]["name"]
    change_secret(installed.kubectl, booking.TOKEN, pod, token=NEWER)

    until_booked(kubectl, "refused")
    after = operator(installed)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [container["restartCount"] for container in after["status"]["containerStatuses"]] == [0]
    said = kubectl("get", "ft,events", "-o", "yaml")
    said += installed.kubectl("logs", "--", pod)
    assert message in said
    assert older not in said
    assert NEWER not in said


def token(installed: Installed) -> str:
    """Return the operator's token."""
    coded = ("get", "secret", booking.TOKEN, "-o", "jsonpath={.data.token}")
    return base64.b64decode(installed.kubectl(*coded)).decode()


def change_secret(kubectl: Kubectl, name: str, pod: str, **content: str) -> None:
    """Change a Secret that a Pod has mounted.

    The kubelet looks at the Secrets of a Pod every minute or two, and when the Pod is changed.
    """
    secret = json.dumps(booking.secret(kubectl.namespace, name, **content))
    kubectl("apply", "-f", "-", stdin=secret)
    kubectl("annotate", "pod", pod, f"{LOOK}=now", "--overwrite")


def test_the_network_policy_lets_the_operator_reach_the_service(
    request: pytest.FixtureRequest, installed: Installed, service: BookingService
) -> None:
    """Where the cluster enforces policies, the other tests need them, too; kind may not."""
    if request.config.getoption("--installed-in"):
        pytest.skip("the bundle has no NetworkPolicy")
    labels = operator(installed)["metadata"]["labels"]
    policies = installed.kubectl.get("networkpolicies")
    mine = [
        policy["spec"]
        for policy in policies["items"]
        if policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ]
    (served,) = service.kubectl.get("endpointslices")["items"]

    open_ports = {
        port["port"] for spec in mine for rule in spec.get("egress", ()) for port in rule["ports"]
    }
    assert all("Egress" in spec["policyTypes"] for spec in mine)
    assert {port["port"] for port in served["ports"]} < open_ports
