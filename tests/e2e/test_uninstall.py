"""Uninstalling leaves nothing that is stuck; it is the last of all (the files run by name)."""

from tests.e2e import release
from tests.e2e.kube import WAIT
from tests.e2e.messages import Namespace, restarts, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until


def test_uninstalled_the_operator_leaves_messages_that_can_be_deleted_and_adopted(
    namespace: Namespace, operator: Operator
) -> None:
    kube = namespace.kube
    deleted, kept, edited = (
        namespace.create(name, "before") for name in ("deleted", "kept", "edited")
    )
    deleted.wait_until_ready()
    pod, former = kept.wait_until_ready(), edited.wait_until_ready()

    operator.uninstall()

    try:
        wait_until("the operator to be gone", operator.pods, lambda pods: not pods)
        assert kube.get("CustomResourceDefinition", release.CRD) is not None
        assert uid(kept.pod()) == uid(pod)
        namespace.kubectl("delete", "message", "deleted", WAIT)
        deleted.wait_until_gone()
        edited.edit(text="after")
        late = namespace.create("late", "late")
    finally:
        operator.install()

    late.wait_until_ready()
    edited.wait_until_ready(instead_of=former)
    edited.wait_for_log(b"after\n")
    adopted = kept.wait_until_ready()
    assert (uid(adopted), restarts(adopted)) == (uid(pod), 0)
