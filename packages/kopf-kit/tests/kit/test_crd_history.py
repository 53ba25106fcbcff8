"""`kopf-kit verify` finds what would break the users of the last release, in any layout."""

from pathlib import Path
from typing import Any

from kit import forked
from kit.called import commit
from kopf_kit.crd import upgrades

_CODE = '''
import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    size: int
    name: str = ""


@kr.custom_resource("box.example.dev", "v1", "boxes")
class Box(kr.Resource, kw_only=True):
    """A Box is a box."""

    spec: Spec


manager = kr.Manager("box-operator", kr.Settings, version="0.1.0")
controller = manager.controller_for(Box)
'''
_SECOND_VERSION = '''
@kr.custom_resource("box.example.dev", "v2", "boxes", kind="Box", storage=True)
class New(kr.Resource, kw_only=True):
    """A Box is a box."""

    spec: Spec


manager = kr.Manager("box-operator", kr.Settings, version="0.1.0")
'''
_CONVERTERS = """

@controller.convert(Box, New)
def newer(old: Box) -> New:
    return New(metadata=old.metadata, spec=old.spec)


@controller.convert(New, Box)
def older(new: New) -> Box:
    return Box(metadata=new.metadata, spec=new.spec)
"""
_PROJECT = """
domain: example.dev
layout: [kopf-runtime.myorg.dev/v1]
plugins:
  kopf-runtime.myorg.dev/v1:
    package: boxes
    samples: {Box: sample.yaml}
projectName: box-operator
resources:
  - {api: {crdVersion: v1, namespaced: true}, controller: true, domain: example.dev,
     group: box, kind: Box, plural: boxes, version: v1}
version: "3"
"""
_SAMPLE = "{apiVersion: box.example.dev/v1, kind: Box, metadata: {name: one}, spec: {size: 1}}\n"
_REMOVED = "boxes.box.example.dev: v1.spec.name: may not be removed"


class Repository:
    """An author's repository; `code` is its one module."""

    def __init__(self, folder: Path, code: Path) -> None:
        self.folder, self.code = folder, folder / code
        self.code.parent.mkdir(parents=True, exist_ok=True)
        self.code.write_text(_CODE)
        (folder / "PROJECT").write_text(_PROJECT)
        (folder / "sample.yaml").write_text(_SAMPLE)

    def release(self, tag: str = "v0.1.0") -> None:
        commit(self.folder, tag)

    def change(self, former: str, present: str) -> None:
        text = self.code.read_text()
        assert former in text
        self.code.write_text(text.replace(former, present))

    def verify(self) -> tuple[str, str]:
        """Return what is wrong, and what is said beside it."""
        asked = "from kopf_kit.crd import upgrades; print(*upgrades.problems(), sep='\\n')"
        done = forked.python("-c", asked, folder=self.folder)
        done.check_returncode()
        return done.stdout.strip(), done.stderr.strip()


def test_a_field_that_users_have_may_not_go_unless_somebody_says_why(tmp_path: Path) -> None:
    here = Repository(tmp_path, Path("operator/boxes/__init__.py"))
    here.release()
    here.change('    name: str = ""\n', "")

    wrong, _ = here.verify()
    assert wrong.startswith(f"{_REMOVED} since v0.1.0. Declare a new version of the kind")

    project = here.folder / "PROJECT"
    accepted = f'    package: boxes\n    accepted: {{"{_REMOVED}": nobody has used it}}\n'
    project.write_text(_PROJECT.replace("    package: boxes\n", accepted))
    assert here.verify() == ("", "")


def crd(name: str, **served: bool) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": version, "served": is_, "schema": schema} for version, is_ in served.items()
    ]
    return {"metadata": {"name": name}, "spec": {"scope": "Namespaced", "versions": versions}}


def test_a_kind_or_a_version_that_is_served_may_not_go() -> None:
    former = [crd("a", v1=False, v2=True, v3=True), crd("b", v1=True)]

    assert list(upgrades.changes(former, [crd("a", v3=True)])) == [
        "a: spec.versions: v2 may not be removed while it is served",
        "b: may not be removed",
    ]


def test_a_version_is_served_until_its_users_have_had_a_release_to_move_in() -> None:
    refused = [
        "a: spec.versions: v1 may not stop being served before a release has served another "
        "version beside it"
    ]
    one, both, next_ = crd("a", v1=True), crd("a", v1=True, v2=True), crd("a", v1=False, v2=True)
    hidden = crd("a", v1=True, v2=False)

    assert list(upgrades.changes([one], [next_])) == refused
    assert list(upgrades.changes([hidden], [next_])) == refused
    for former, present in ((one, both), (both, next_), (next_, crd("a", v2=True))):
        assert list(upgrades.changes([former], [present])) == []


def test_a_new_version_in_place_of_the_former_one_is_refused_by_verify(tmp_path: Path) -> None:
    here = Repository(tmp_path, Path("boxes.py"))
    here.release()
    here.change(
        'manager = kr.Manager("box-operator", kr.Settings, version="0.1.0")\n', _SECOND_VERSION
    )
    here.change("controller_for(Box)", "controller_for(New)")
    here.change(
        '"box.example.dev", "v1", "boxes"', '"box.example.dev", "v1", "boxes", served=False'
    )
    here.code.write_text(here.code.read_text() + _CONVERTERS)

    wrong, _ = here.verify()

    assert wrong.startswith(
        "boxes.box.example.dev: spec.versions: v1 may not stop being served before a release has "
        "served another version beside it since v0.1.0. Declare a new version of the kind, and "
        "serve this one beside it; or,"
    )


def test_a_release_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    here = Repository(tmp_path, Path("boxes.py"))
    here.change("import kopf_runtime as kr\n", "import kopf_runtime as kr\nimport no_such_module\n")
    here.release()
    here.change("import no_such_module\n", "")

    wrong, said = here.verify()

    assert wrong == ""
    assert "whose code cannot be run" in " ".join(said.split())
    assert "No module named 'no_such_module'" in " ".join(said.split())


def test_a_release_from_before_adopt_is_said_in_a_sentence(tmp_path: Path) -> None:
    here = Repository(tmp_path, Path("boxes.py"))
    project = (here.folder / "PROJECT").rename(here.folder.parent / "kept")
    here.release()
    project.rename(here.folder / "PROJECT")

    assert here.verify() == (
        "",
        "note: v0.1.0 has no PROJECT, so the kinds are not compared with those of then",
    )
