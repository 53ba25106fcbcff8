"""Messages that live through upgrades, and tell whether they noticed."""

from tests.e2e.messages import Message, Namespace, restarts, uid


class Witnesses:
    """Messages of a former release: some that nobody touches, and one that is edited."""

    def __init__(self, namespace: Namespace, text: str) -> None:
        self._kept = [namespace.create(f"kept-{number}", text) for number in range(3)]
        self._edited = namespace.create("edited", text)
        for message in (*self._kept, self._edited):
            message.wait_until_ready()
            message.wait_for_log(f"{text}\n".encode())
        self._before = self._seen()

    def assert_unmoved(self) -> None:
        """Check that no Pod was replaced or restarted, and that no status was ever another."""
        assert self._seen() == self._before

    def assert_served(self, text: str) -> None:
        """Check that the operator follows an edit, which leaves the others alone."""
        former = self._edited.wait_until_ready()
        self._edited.edit(text=text)
        self._edited.wait_until_ready(instead_of=former)
        self._edited.wait_for_log(f"{text}\n".encode())
        self.assert_unmoved()

    def _seen(self) -> list[tuple[str, str, int, str, str]]:
        return [_seen(message) for message in self._kept]


def _seen(message: Message) -> tuple[str, str, int, str, str]:
    pod = message.wait_until_ready()
    condition = message.ready()
    # A status that was False for a moment has another time.
    since = str(condition["lastTransitionTime"])
    return message.name, uid(pod), restarts(pod), str(condition["status"]), since
