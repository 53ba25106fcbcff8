"""The texts of the reference chart, with an operator's own names in them."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kopf_kit.chart import templates
from kopf_kit.project import shared
from kopf_kit.project.definition import load
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError


def test_a_name_in_another_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    memcached = load(paths.CHECKOUT / "examples" / "memcached")
    text = "Widgets of widget-operator: widgets.acme.example, widget pods, WIDGETS, widgeting"

    monkeypatch.setattr(shared, "PROJECT", memcached)

    assert shared.renamed(text, memcached.kinds[0]) == (
        "Memcacheds of memcached-operator: memcacheds.cache.example.com, memcached pods, WIDGETS, "
        "widgeting"
    )


def test_whoever_removes_everything_is_told_to_remove_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memcached = load(paths.CHECKOUT / "examples" / "memcached")
    letter = msgspec.structs.replace(memcached.kinds[0], kind="Letter", plural="letters")
    project = msgspec.structs.replace(memcached, kinds=(*memcached.kinds, letter))
    for module in (templates, shared):
        monkeypatch.setattr(module, "PROJECT", project)

    lines = templates.files()[project.chart / "templates" / "NOTES.txt"].splitlines()

    crds = "memcacheds.cache.example.com letters.cache.example.com"
    assert f"kubectl delete crd {crds}" in lines
    # `pods`, of a kind Pod of the author's, would mean all Pods of the cluster.
    deleted = f"kubectl delete {crds.replace(' ', ',')} --all "
    assert any(line.startswith(deleted) for line in lines)
    (roles,) = (line for line in lines if "delete clusterrole " in line)
    assert roles.split()[-6:] == [
        f"{crd}-{role}" for role in ("view", "edit", "admin") for crd in crds.split()
    ]


def test_what_an_operator_no_longer_has_is_left_over_unless_its_author_wrote_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memcached = load(paths.CHECKOUT / "examples" / "memcached")
    assert memcached.converted
    for module in (templates, shared):
        monkeypatch.setattr(module, "PROJECT", msgspec.structs.replace(memcached, root=tmp_path))
    monkeypatch.setattr(templates, "runbooks", str)
    monkeypatch.setattr(shared, "_home", lambda: "https://example.com/example/a")
    for file, text in templates.files().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert templates.leftovers() == []

    monkeypatch.setattr(shared, "_is_one", lambda kind: kind == "runtime")

    left = {file.name: file for file in templates.leftovers()}
    assert left.keys() == {"migration.yaml", "webhooks.yaml"}
    left["migration.yaml"].write_text("# an author's own\n")
    assert left["migration.yaml"] not in templates.leftovers()


@pytest.mark.parametrize("comment", ["", "# The domain.\n", "# -- The domain.\n"])
def test_f6_a_value_of_the_author_s_has_a_description_or_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, comment: str
) -> None:
    (tmp_path / "values.own.yaml").write_text(f"web:\n  {comment}  domain: example.org\n")
    monkeypatch.setattr(templates, "PROJECT", SimpleNamespace(written_chart=tmp_path))
    if "--" in comment:
        assert "domain: example.org" in templates._own_values()
        return
    with pytest.raises(KitError, match=r"nothing describes `web\.domain`; write `# -- What it is"):
        templates._own_values()
