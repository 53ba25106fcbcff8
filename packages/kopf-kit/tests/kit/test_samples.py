"""kopf_kit.project.samples: what users are shown are the samples that PROJECT lists, as written."""

from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd import acceptable, declared
from kopf_kit.project import adopted, documents, samples
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.release import numbered

SAMPLE = """\
# How one begins.
---
apiVersion: example.com/v1
kind: Note
metadata:
  name: sample
spec:
  # Two paragraphs.
  text: |
    {{ .Values }}

    `the second`
"""


_EMBEDDED = "x-kubernetes-embedded-resource"


class Embedded(kr.Fields, frozen=True):
    spec: dict[str, int] | None = None


class BoxSpec(kr.Fields, frozen=True):
    size: Annotated[int, Meta(ge=1, le=5)] = 1
    net: Annotated[str, Meta(extra_json_schema={"format": "cidr"})] = "10.0.0.0/8"
    pod: Annotated[Embedded | None, Meta(extra_json_schema={_EMBEDDED: True})] = None
    wide_name: Annotated[str, Meta(pattern="^[a-z]$")] = "a"


@kr.custom_resource("example.com", "v1", "boxes")
class Box(kr.Resource):
    """What has a size."""

    spec: BoxSpec = BoxSpec()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one sample of a project."""
    file = tmp_path / "sample.yaml"
    file.write_text(SAMPLE)
    kind = Kind(domain="example.com", kind="Note", plural="notes", version="v1")
    project = msgspec.structs.replace(PROJECT, kinds=(kind,), samples={"Note": (file,)})
    monkeypatch.setattr(samples, "PROJECT", project)
    return file


def test_what_people_apply_is_the_sample_without_the_comments_before_it(file: Path) -> None:
    assert samples.first() == SAMPLE.partition("---\n")[2]


def test_a_kind_without_samples_is_shown_only_where_all_later_ones_are(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = samples.first()
    kinds = tuple(
        Kind(domain="example.com", kind=kind, plural=f"{kind.lower()}s", version="v1")
        for kind in ("Note", "Undo")
    )
    both = msgspec.structs.replace(PROJECT, kinds=kinds, samples={"Note": (file,), "Undo": ()})
    monkeypatch.setattr(samples, "PROJECT", both)

    assert samples.first() == shown
    assert len(samples.manifests()) == 1

    later = file.with_name("later.yaml")
    later.write_text(SAMPLE.replace("Note", "Undo"))
    monkeypatch.setattr(samples, "PROJECT", msgspec.structs.replace(both, later_samples=(later,)))

    assert samples.first() == shown
    assert [manifest["kind"] for manifest in samples.manifests().values()] == ["Note", "Undo"]


def test_helm_renders_the_sample_as_it_is(file: Path) -> None:
    assert '    {{ "{{" }} .Values }}\n\n    `the second`\n{{- end }}' in samples.template()


def test_chart_yaml_has_the_sample_also_the_second_time(file: Path) -> None:
    text = "  artifacthub.io/crdsExamples: |\n    - {}\n  artifacthub.io/links: |\n    - {}\n"

    once = numbered.with_samples(text)

    assert numbered.with_samples(once) == once
    annotations = documents.load(once)
    (listed,) = documents.load(annotations["artifacthub.io/crdsExamples"])
    assert listed == documents.load(SAMPLE.partition("---\n")[2]) == samples.manifests()[file]
    assert annotations["artifacthub.io/links"] == "- {}\n"


@pytest.mark.parametrize(
    ("shown", "dropped"),
    [
        ("# the samples", []),
        ("- {kind: Note, metadata: {name: sample}, spec: {text: older}}", []),
        ("- {kind: Note, metadata: {name: mine}}", ["Note mine"]),
    ],
    ids=["at first", "the sample", "another"],
)
def test_an_object_that_was_only_in_chart_yaml_does_not_vanish_in_silence(
    shown: str, dropped: list[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = (
        f"home: https://a.example/b\nannotations:\n  artifacthub.io/crdsExamples: |\n    {shown}\n"
    )
    monkeypatch.setattr(adopted, "chart", lambda _: chart)

    assert numbered.dropped() == dropped


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("", "", ""),
        ("size: 1", "size: null", ""),
        ("size: 1", "size: 3.0", ""),
        ("size: 1", "net: 10.0.0.5/8", ""),
        ("size: 1", "pod: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}", ""),
        ("example.com/v1", "example.com/v2", "apiVersion: example.com/v2 does not serve the kind"),
        ("size: 1", "size: 9", "spec.size: 9 is greater than the maximum of 5"),
        ("size: 1", "size: one", "spec.size: 'one' is not of type 'integer'"),
        ("size: 1", "wide_name: a", "spec: Additional properties are not allowed ('wide_name' was"),
        ("wideName: a", "wideName: B", "spec.wideName: 'B' does not match"),
    ],
    ids=[
        *("valid", "null", "float", "format", "embedded"),
        *("version", "bound", "type", "name", "re"),
    ],
)
def test_a_sample_is_refused_only_where_an_api_server_certainly_would(
    before: str, after: str, why: str
) -> None:
    text = (
        "apiVersion: example.com/v1\nkind: Box\nmetadata: {name: a}\nspec: {size: 1, wideName: a}"
    )
    manager = kr.Manager("box-operator", kr.Settings)
    manager.controller_for(Box)
    manifest = documents.load(text.replace(before, after) if before else text)

    found = [*acceptable.mistakes(declared.definitions(manager), manifest)]

    assert len(found) == bool(why)
    assert all(sentence.startswith(why) for sentence in found)
