"""Create, look, edit, delete: what the guide tells a newcomer to do."""

import json

from hack.rig import paths
from tests.e2e.kube import WAIT, Kube, Object
from tests.e2e.messages import Namespace, ready, uid
from tests.e2e.waiting import wait_until

EXAMPLES = sorted((paths.CHECKOUT / "examples").glob("*.yaml"))


def test_a_message_becomes_a_pod_that_prints_its_text(namespace: Namespace) -> None:
    message = namespace.create("hello-msg", "안녕하세요, 오퍼레이터!")

    pod = message.wait_until_ready()

    assert pod["metadata"]["name"] == "msg-hello-msg"
    message.wait_for_log("안녕하세요, 오퍼레이터!\n".encode())


def test_the_status_tells_how_a_message_fares(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")

    pod = message.wait_until_ready()

    status = message.status()
    condition = ready(status)
    assert status["phase"] == "Processed"
    assert status["observedGeneration"] == 1
    assert status["podName"] == "msg-hello"
    assert status["nodeName"] == pod["spec"]["nodeName"]
    assert (condition["status"], condition["reason"]) == ("True", "PodRunning")
    assert condition["message"] == "The Pod prints the text."
    assert condition["observedGeneration"] == 1


def test_kubectl_shows_a_message_at_a_glance(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello-there")
    namespace.kubectl("wait", "--for=condition=Ready", WAIT, "message/hello")
    message.wait_for_event("Created")
    node = message.status()["nodeName"]

    heading, row = namespace.kubectl("get", "messages").splitlines()
    wide_heading, wide_row = namespace.kubectl("get", "msg", "-o", "wide").splitlines()
    story = namespace.kubectl("describe", "message", "hello")

    assert heading.split() == ["NAME", "TEXT", "PHASE", "READY", "AGE"]
    assert row.split()[:4] == ["hello", "hello-there", "Processed", "True"]
    assert wide_heading.split()[5:] == ["POD", "NODE", "REASON"]
    assert wide_row.split()[5:] == ["msg-hello", node, "PodRunning"]
    assert "Created Pod msg-hello." in story


def test_a_message_without_a_spec_says_hello(namespace: Namespace) -> None:
    message = namespace.create("defaults")

    message.wait_until_ready()

    message.wait_for_log(b"Hello from Operator!\n")
    assert (message.get() or {})["spec"] == {"text": "Hello from Operator!", "intervalSeconds": 10}


def test_the_text_is_printed_again_and_again(namespace: Namespace) -> None:
    message = namespace.create("tick", "Tick.", interval=1)

    message.wait_until_ready()

    message.wait_for_log(b"Tick.\nTick.\nTick.\n")


def test_an_edit_replaces_the_pod(namespace: Namespace) -> None:
    message = namespace.create("hello", "before")
    former = message.wait_until_ready()

    message.edit(text="after")

    pod = message.wait_until_ready(instead_of=former)
    log = message.wait_for_log(b"after\n")
    assert b"before" not in log
    assert message.status()["observedGeneration"] == 2
    assert pod["metadata"]["name"] == former["metadata"]["name"]
    event = message.wait_for_event("Replaced")
    assert event["message"] == "Replaced Pod msg-hello: the Message was edited."


def test_an_edit_of_the_interval_replaces_the_pod_too(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello", interval=86400)
    former = message.wait_until_ready()

    message.edit(intervalSeconds=1)

    message.wait_until_ready(instead_of=former)
    message.wait_for_log(b"hello\nhello\n")


def test_applying_the_same_again_changes_nothing(namespace: Namespace) -> None:
    example = str(paths.CHECKOUT / "examples" / "hello.yaml")
    namespace.kubectl("apply", "-f", example)
    message = namespace.message("hello-msg")
    pod = message.wait_until_ready()

    printed = namespace.kubectl("apply", "-f", example)

    assert "unchanged" in printed
    assert uid(message.wait_until_ready()) == uid(pod)


def test_a_label_or_annotation_on_a_message_leaves_its_pod_alone(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")
    pod = message.wait_until_ready()
    since = namespace.now()

    namespace.kubectl("label", "message", "hello", "team=green")
    namespace.kubectl("annotate", "message", "hello", "note=green")
    other = namespace.create("other", "other")  # by then the edits have been seen
    other.wait_until_ready()

    history = namespace.kube.history("Pod", namespace.name, since)
    replaced = {found["metadata"]["name"] for what, found in history if what != "MODIFIED"}
    assert replaced == {"msg-other"}
    assert uid(message.pod()) == uid(pod)


def test_a_burst_of_edits_ends_with_the_last_and_never_has_two_pods(namespace: Namespace) -> None:
    message = namespace.create("burst", "A")
    former = message.wait_until_ready()
    since = namespace.now()

    message.edit(text="B")
    message.edit(text="C")
    message.edit(text="B")
    message.edit(text="C")

    pod = message.wait_until_ready(instead_of=former)
    message.wait_for_log(b"C\n")
    assert message.status()["observedGeneration"] == 5
    assert most_pods_at_once(namespace, [former], since) == 1
    assert [uid(found) for found in namespace.pods()] == [uid(pod)]


def test_an_edit_that_is_taken_back_ends_as_it_began(namespace: Namespace) -> None:
    message = namespace.create("there-and-back", "A")
    first = message.wait_until_ready()

    message.edit(text="B")
    second = message.wait_until_ready(instead_of=first)
    message.edit(text="A")
    third = message.wait_until_ready(instead_of=second)

    template = "myorg.dev/template-hash"
    annotations = [pod["metadata"]["annotations"][template] for pod in (first, second, third)]
    assert annotations[0] == annotations[2] != annotations[1]
    message.wait_for_log(b"A\n")


def test_a_deleted_message_takes_its_pod_with_it(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")
    pod = message.wait_until_ready()
    assert "finalizers" not in (message.get() or {})["metadata"]
    assert "finalizers" not in pod["metadata"]

    namespace.kubectl("delete", "message", "hello", WAIT)

    message.wait_until_gone()


def test_a_message_of_the_same_name_gets_a_pod_of_its_own(namespace: Namespace) -> None:
    former = namespace.create("phoenix", "before")
    former_pod = former.wait_until_ready()

    former.delete()
    message = namespace.create("phoenix", "after")

    pod = message.wait_until_ready(instead_of=former_pod)
    assert owners(pod) == [uid(message.get())]
    assert b"before" not in message.wait_for_log(b"after\n")
    assert message.status()["observedGeneration"] == 1


def test_a_message_of_the_same_name_never_adopts_a_pod_that_is_still_there(
    namespace: Namespace,
) -> None:
    former = namespace.create("phoenix", "the same")
    former_pod = former.wait_until_ready()
    finalizers = {"metadata": {"finalizers": ["example.org/held"]}}
    former.patch_pod(finalizers)  # it outlives its Message for as long as we want
    former_pod = former.wait_until_ready()

    former.delete()
    wait_until("the former Message to be gone", former.get, lambda found: found is None)
    message = namespace.create("phoenix", "the same")
    waiting = message.wait_for_reason("PodTerminating")
    kept = message.pod()
    message.patch_pod({"metadata": {"finalizers": None}})

    pod = message.wait_until_ready(instead_of=former_pod)
    assert uid(kept) == uid(former_pod)
    assert waiting["status"] == "False"
    assert owners(pod) == [uid(message.get())]


def test_a_message_applied_together_with_its_namespace_becomes_ready(namespace: Namespace) -> None:
    name = f"{namespace.name[:50]}-2"
    labels = (namespace.kube.get("Namespace", namespace.name) or {})["metadata"]["labels"]
    labels.pop("kubernetes.io/metadata.name")
    both = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels},
            },
            {
                "apiVersion": "myorg.dev/v1",
                "kind": "Message",
                "metadata": {"name": "hello", "namespace": name},
            },
        ],
    }
    other = Namespace(namespace.kube, name)

    namespace.kube.kubectl("apply", "-f", "-", stdin=json.dumps(both))

    try:
        other.message("hello").wait_until_ready()
    finally:
        other.remove()


def test_those_who_may_edit_a_namespace_may_use_messages(namespace: Namespace, kube: Kube) -> None:
    def may(verb: str, role: str) -> bool:
        who = f"system:serviceaccount:{namespace.name}:{role}"
        try:
            return "yes" in namespace.kubectl("auth", "can-i", verb, "messages", f"--as={who}")
        except AssertionError:
            return False

    for role in ("view", "edit"):
        namespace.kubectl("create", "serviceaccount", role)
        account = f"--serviceaccount={namespace.name}:{role}"
        namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", account)

    wait_until("the role edit to reach Messages", lambda: may("create", "edit"), bool)
    wait_until("the role view to reach Messages", lambda: may("list", "view"), bool)
    assert not may("create", "view")


def test_every_example_runs(namespace: Namespace) -> None:
    for example in EXAMPLES:
        namespace.kubectl("apply", "-f", str(example))

    messages = json.loads(namespace.kubectl("get", "messages", "-o", "json"))["items"]

    assert len(messages) == len(EXAMPLES)
    for found in messages:
        message = namespace.message(found["metadata"]["name"])
        message.wait_until_ready()
        message.wait_for_log(found["spec"]["text"].encode() + b"\n")


def owners(pod: Object) -> list[str]:
    """Return the uids of a Pod's owners."""
    return [owner["uid"] for owner in pod["metadata"]["ownerReferences"]]


def most_pods_at_once(namespace: Namespace, pods: list[Object], since: str) -> int:
    """Return how many Pods a namespace had at most at once, from these on."""
    living = {uid(pod) for pod in pods}
    most = len(living)
    for what, pod in namespace.kube.history("Pod", namespace.name, since):
        if what == "DELETED":
            living.discard(uid(pod))
        else:
            living.add(uid(pod))
        most = max(most, len(living))
    return most
