import pytest

from kit import forked
from kopf_kit.project import nested, registered
from tests import conftest as _environment  # noqa: F401


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this Python read handlers, and generate, without each time importing kopf."""
    for module in (nested, registered):
        monkeypatch.setattr(module, "output", forked.output)
