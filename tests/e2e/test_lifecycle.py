"""Create, look, edit, delete, as the guide tells a newcomer; and what was lost comes back."""

import json

import pytest

from kopf_kit.cli import e2e
from kopf_kit.rig import paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError
from kopf_kit.testing import Kubectl
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import PART_OF, RESTRICTED, WAIT, Namespace, Object, ready, uid

EXAMPLES = sorted((paths.CHECKOUT / "examples").glob("*.yaml"))


def test_a_message_becomes_a_pod_that_prints_its_text_again_and_again(namespace: Namespace) -> None:
    message = namespace.create("hello", "안녕하세요!", interval=1)
    namespace.kubectl("wait", "--for=condition=Ready", WAIT, "message/hello")

    pod = message.wait_until_ready()

    assert pod["metadata"]["name"] == "msg-hello"
    message.wait_for_log("안녕하세요!\n안녕하세요!\n안녕하세요!\n".encode())
    status = message.status()
    condition = ready(status)
    assert status["phase"] == "Processed"
    assert status["observedGeneration"] == 1
    assert status["podName"] == "msg-hello"
    assert status["nodeName"] == pod["spec"]["nodeName"]
    assert (condition["status"], condition["reason"]) == ("True", "PodRunning")
    assert condition["message"] == "The Pod prints the text."
    assert condition["observedGeneration"] == 1

    message.wait_for_event("Created")
    heading, row = namespace.kubectl("get", "messages").splitlines()
    wide_heading, wide_row = namespace.kubectl("get", "msg", "-o", "wide").splitlines()
    story = namespace.kubectl("describe", "message", "hello")

    assert heading.split() == ["NAME", "TEXT", "PHASE", "READY", "AGE"]
    assert row.split()[:4] == ["hello", "안녕하세요!", "Processed", "True"]
    assert wide_heading.split()[5:] == ["POD", "NODE", "REASON"]
    assert wide_row.split()[5:] == ["msg-hello", status["nodeName"], "PodRunning"]
    assert "Created Pod msg-hello." in story


def test_an_edit_replaces_the_pod_and_a_label_does_not(namespace: Namespace) -> None:
    message = namespace.create("hello", "before", interval=86400)
    first = message.wait_until_ready()
    since = namespace.now()

    namespace.kubectl("label", "message", "hello", "team=green")
    namespace.kubectl("annotate", "message", "hello", "note=green")
    message.edit(text="after")

    second = message.wait_until_ready(instead_of=first)
    assert b"before" not in message.wait_for_log(b"after\n")
    assert message.status()["observedGeneration"] == 2
    assert second["metadata"]["name"] == first["metadata"]["name"]
    event = message.wait_for_event("Replaced")
    assert event["message"] == "Replaced Pod msg-hello: the Message was edited."
    history = namespace.history(since)
    assert {uid(pod) for what, pod in history if what == "ADDED"} == {uid(second)}

    message.edit(text="before")  # taken back

    third = message.wait_until_ready(instead_of=second)
    template = "myorg.dev/template-hash"
    annotations = [pod["metadata"]["annotations"][template] for pod in (first, second, third)]
    assert annotations[0] == annotations[2] != annotations[1]

    message.edit(intervalSeconds=1)

    message.wait_until_ready(instead_of=third)
    message.wait_for_log(b"before\nbefore\n")


def test_a_deleted_message_takes_its_pod_with_it_and_its_name_is_free(namespace: Namespace) -> None:
    message, former = (namespace.create(name, "before") for name in ("hello", "phoenix"))
    pod, former_pod = message.wait_until_ready(), former.wait_until_ready()
    assert "finalizers" not in (message.get() or {})["metadata"]
    assert "finalizers" not in pod["metadata"]

    former.delete()
    phoenix = namespace.create("phoenix", "after")
    namespace.kubectl("delete", "message", "hello", WAIT)

    message.wait_until_gone()
    pod = phoenix.wait_until_ready(instead_of=former_pod)
    assert owners(pod) == [uid(phoenix.get())]
    assert b"before" not in phoenix.wait_for_log(b"after\n")
    assert phoenix.status()["observedGeneration"] == 1


def test_a_message_comes_together_with_its_namespace_and_goes_with_it(namespace: Namespace) -> None:
    name = f"{namespace.name[:50]}-2"
    labels = dict(label.split("=") for label in (PART_OF, RESTRICTED))
    own: Object = {"apiVersion": "v1", "kind": "Namespace"}
    message = {"apiVersion": "myorg.dev/v1", "kind": "Message"}
    other = Namespace(Kubectl(namespace.kubectl.cluster, name))

    other.kubectl.apply(
        {**own, "metadata": {"name": name, "labels": labels}},
        {**message, "metadata": {"name": "hello", "namespace": name}},
    )

    try:
        other.message("hello").wait_until_ready()
    finally:
        other.kubectl("delete", "namespace", name, WAIT)


def test_those_who_may_edit_a_namespace_may_use_messages(namespace: Namespace) -> None:
    def may(verb: str, role: str) -> bool:
        who = f"system:serviceaccount:{namespace.name}:{role}"
        try:
            return "yes" in namespace.kubectl("auth", "can-i", verb, "messages", f"--as={who}")
        except KitError:
            return False

    for role in ("view", "edit"):
        namespace.kubectl("create", "serviceaccount", role)
        account = f"--serviceaccount={namespace.name}:{role}"
        namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", account)

    wait_until("the role edit to reach Messages", lambda: may("create", "edit"), bool)
    wait_until("the role view to reach Messages", lambda: may("list", "view"), bool)
    assert not may("create", "view")


def test_every_example_runs_and_applied_again_it_is_left_alone(namespace: Namespace) -> None:
    files = [f"--filename={example}" for example in EXAMPLES]
    namespace.kubectl("apply", *files)
    messages = json.loads(namespace.kubectl("get", "messages", "-o", "json"))["items"]
    assert len(messages) == len(EXAMPLES)
    named = {found["metadata"]["name"]: found["spec"]["text"] for found in messages}
    pods = {name: namespace.message(name).wait_until_ready() for name in named}

    printed = namespace.kubectl("apply", *files)

    assert [line.split()[-1] for line in printed.splitlines()] == ["unchanged"] * len(EXAMPLES)
    for name, text in named.items():
        message = namespace.message(name)
        message.wait_for_log(text.encode() + b"\n")
        assert uid(message.wait_until_ready()) == uid(pods[name])


def owners(pod: Object) -> list[str]:
    """Return the uids of a Pod's owners."""
    return [owner["uid"] for owner in pod["metadata"]["ownerReferences"]]


GONE = "its Pod was gone"


def test_a_pod_that_is_lost_or_has_ended_comes_back(namespace: Namespace) -> None:
    why = {
        "deleted": GONE,
        "forced": GONE,
        "evicted": GONE,
        "past-its-deadline": "its Pod had ended (DeadlineExceeded)",
        "failed": "its Pod had ended (Evicted)",
    }
    messages = {name: namespace.create(name, "still here") for name in why}
    gone = namespace.create("gone", "gone")
    former = {name: message.wait_until_ready() for name, message in messages.items()}
    gone.wait_until_ready()
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "msg-evicted", "namespace": namespace.name},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods/msg-evicted/eviction"

    namespace.kubectl("delete", "pod", "msg-deleted", "--wait=false")
    namespace.kubectl("delete", "pod", "msg-forced", "--force", "--grace-period=0")
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    messages["past-its-deadline"].patch_pod({"spec": {"activeDeadlineSeconds": 1}})
    # What a kubelet reports of a Pod that it had to end, for instance for want of disk space.
    ended = {"status": {"phase": "Failed", "reason": "Evicted", "message": "no space"}}
    messages["failed"].patch_pod(ended, "--subresource=status")
    gone.delete_pod()  # it does not come back: its Message goes, too
    gone.delete()

    for name, message in messages.items():
        message.wait_until_ready(instead_of=former[name])
        message.wait_for_log(b"still here\n")
        event = message.wait_for_event("Healed")
        assert event["message"] == f"Created Pod msg-{name} again: {why[name]}."
    gone.wait_until_gone()
    there = sorted(message.pod_name for message in messages.values())
    wait_until(
        "no other Pod to be there",
        lambda: sorted(p["metadata"]["name"] for p in namespace.kubectl.get("pods")["items"]),
        there.__eq__,
    )


@pytest.mark.long  # its image, its chart and its admission are tested by themselves
def test_an_operator_on_plain_kopf_is_installed_beside_it(e2e_cluster: Cluster) -> None:
    """Its own tests pass there, too."""
    notes = "examples/plain-kopf"
    if e2e_cluster.existing:
        pytest.skip("its image is built for the tests' own cluster alone")
    assert e2e.run_pytest(f"{notes}/tests/e2e", PROJECT=notes) == 0
