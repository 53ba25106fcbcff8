import pytest

from kopf_kit.kubectl import checks, subject
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.release import krew
from tests.unit.plugin.operators import Raw

subject.use(krew.subject())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Raw]]:
    """The objects that kubectl finds, by their plural; the operator has all its rights."""
    objects: dict[str, list[Raw]] = {}

    def listed(_: Kubectl, kind: str, *__: str, everywhere: bool = False) -> list[Raw]:
        return objects.get(kind.partition(".")[0], [])

    def get(kubectl: Kubectl, kind: str, name: str, _: str | None = None) -> Raw | None:
        found = (raw for raw in kubectl.list(kind) if raw["metadata"]["name"] == name)
        return next(found, None)

    monkeypatch.setattr(Kubectl, "list", listed)
    monkeypatch.setattr(Kubectl, "get", get)
    monkeypatch.setattr(checks, "answers", lambda _, questions: [True] * len(questions))
    return objects
