"""hack.pack.chart_templates: the reference's texts with another operator's names in them."""

import pytest

from hack.pack import chart_templates
from hack.pack.project import REFERENCE, load


def test_a_name_in_another_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = load(REFERENCE.root / "examples" / "memcached").kinds[0]
    text = "Messages of message-operator: messages.myorg.dev, message pods, MESSAGES, messaging"

    monkeypatch.setattr(chart_templates, "PROJECT", load(REFERENCE.root / "examples/memcached"))

    assert chart_templates.renamed(text, kind) == (
        "Memcacheds of memcached-operator: memcacheds.cache.example.com, memcached pods, MESSAGES, "
        "messaging"
    )
