"""kopf_kit.pack.chart_templates: the reference's texts with another operator's names in them."""

import msgspec
import pytest

from kopf_kit.pack import chart_templates
from kopf_kit.pack.project import REFERENCE, load


def test_a_name_in_another_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = load(REFERENCE.root / "examples" / "memcached").kinds[0]
    text = "Messages of message-operator: messages.myorg.dev, message pods, MESSAGES, messaging"

    monkeypatch.setattr(chart_templates, "PROJECT", load(REFERENCE.root / "examples/memcached"))

    assert chart_templates.renamed(text, kind) == (
        "Memcacheds of memcached-operator: memcacheds.cache.example.com, memcached pods, MESSAGES, "
        "messaging"
    )


def test_whoever_removes_everything_is_told_to_remove_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memcached = load(REFERENCE.root / "examples" / "memcached")
    letter = msgspec.structs.replace(memcached.kinds[0], kind="Letter", plural="letters")
    project = msgspec.structs.replace(memcached, kinds=(*memcached.kinds, letter))
    monkeypatch.setattr(chart_templates, "PROJECT", project)

    written = chart_templates.files()

    crds = "memcacheds.cache.example.com letters.cache.example.com"
    for file, before in (
        (project.chart / "templates" / "NOTES.txt", ""),
        (project.crds_chart / "templates" / "NOTES.txt", ""),
        (project.crds_chart / "README.md.in", "$ "),
    ):
        lines = written[file].splitlines()
        assert f"{before}kubectl delete crd {crds}" in lines
        assert any(
            line.startswith(f"{before}kubectl delete memcacheds,letters --all ") for line in lines
        )
        (roles,) = (line for line in lines if "delete clusterrole " in line)
        assert roles.split()[-6:] == [
            f"{crd}-{role}" for role in ("view", "edit", "admin") for crd in crds.split()
        ]
