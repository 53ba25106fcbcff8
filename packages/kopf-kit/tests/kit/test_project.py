"""PROJECT is read as kubebuilder reads it, and its mistakes are told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kopf
import msgspec
import pytest
import yaml

from kopf_kit.crd import declared
from kopf_kit.project import definition, documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths, registry
from kopf_kit.rig.paths import PLUGIN
from kopf_kit.rig.run import KitError
from kopf_offline import golang
from message_operator.operator import manager

CHECKOUT = Path(__file__).parents[4]

Edit = Callable[[dict[str, Any]], Any]


def write(folder: Path, edit: Edit = lambda content: None) -> Path:
    """Write the checkout's PROJECT, edited, with its samples and package; return the file."""
    content = documents.load((CHECKOUT / "PROJECT").read_text())
    edit(content)
    (folder / "examples").mkdir()
    for sample in ("hello.yaml", "interval.yaml"):
        (folder / "examples" / sample).touch()
    (folder / "operator" / "message_operator").mkdir(parents=True)
    (folder / "operator" / "message_operator" / "__init__.py").touch()
    (folder / "PROJECT").write_text(yaml.safe_dump(content))
    return folder / "PROJECT"


def test_it_says_what_the_operator_s_code_and_chart_say() -> None:
    chart = documents.load((PROJECT.chart / "Chart.yaml").read_text())
    (listed,) = documents.load(chart["annotations"]["artifacthub.io/crds"])
    (kind,) = PROJECT.kinds

    assert chart["name"] == manager.program.name == PROJECT.name
    assert PROJECT.variables == manager.program.prefix
    assert f'__version__ = "{PROJECT.version}"' in PROJECT.version_file.read_text()
    assert (listed["kind"], listed["version"], listed["name"]) == (
        kind.kind,
        kind.version,
        kind.crd,
    )


def test_the_rig_names_no_operator() -> None:
    words = {PROJECT.name, PROJECT.package, PROJECT.variables, PROJECT.alerts}
    for kind in PROJECT.kinds:
        words |= {kind.many, f"{kind.kind.lower()} Pod", f"{kind.kind}'s"}
    words |= {image.variable for image in PROJECT.images}
    folders = (paths.KIT / "rig", golang.RECIPES)
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix != ".pyc"]
    texts = {file: file.read_text() for file in files if file.is_file()}

    assert {"control_plane.py", "node_image.py", "main.go"} <= {file.name for file in texts}
    assert not {(file.name, word) for file, text in texts.items() for word in words if word in text}


def test_what_is_made_on_the_machine_is_called_after_the_project() -> None:
    assert paths.prefix() == PROJECT.name
    assert f"{PROJECT.name}-registry" == registry.NAME
    assert paths.cache().name == "kopf-kit"  # which all operators share


def test_samples_are_of_their_kinds() -> None:
    for kind in PROJECT.kinds:
        for file in PROJECT.samples[kind.kind]:
            sample = documents.load(file.read_text())

            assert sample["kind"] == kind.kind
            assert sample["apiVersion"] == f"{kind.qualified_group}/{kind.version}"


@pytest.mark.parametrize("given", ["examples/hello.yaml", ["examples/hello.yaml"]])
def test_one_sample_need_not_be_in_a_list(tmp_path: Path, given: str | list[str]) -> None:
    write(tmp_path, lambda p: p["plugins"][PLUGIN].update(samples={"Message": given}))

    assert definition.load(tmp_path).samples == {"Message": (tmp_path / "examples" / "hello.yaml",)}


def test_a_group_stands_before_the_domain(tmp_path: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["resources"][0] |= {"group": "cache", "domain": "example.com"}

    write(tmp_path, edit)

    (kind,) = definition.load(tmp_path).kinds

    assert kind.crd == "messages.cache.example.com"


def test_an_image_has_a_flag_and_variables(tmp_path: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["plugins"][PLUGIN]["images"] = [{"name": "side-car", "values": "sideCar.image"}]

    write(tmp_path, edit)

    (image,) = definition.load(tmp_path).images

    assert image.flag == "side-car-image"
    assert image.variable == "SIDE_CAR_IMG"
    assert image.related_variable == "RELATED_IMAGE_SIDE_CAR"


@pytest.mark.parametrize(
    ("kind", "plural", "many"),
    [
        ("Message", "messages", "Messages"),
        ("FlightTicket", "flighttickets", "FlightTickets"),
        ("Policy", "policies", "Policies"),
    ],
)
def test_sentences_have_a_plural(kind: str, plural: str, many: str) -> None:
    assert definition.Kind("example.com", kind, plural, "v1").many == many


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            lambda p: p["resources"].append({**p["resources"][0], "kind": "Messages"}),
            "both Message and Messages are called messages",
        ),
        (
            lambda p: p["plugins"][PLUGIN].update(package="mesage_operator"),
            "package mesage_operator is not in ",
        ),
        (
            lambda p: p["plugins"][PLUGIN].update(samples={"Letter": "examples/hello.yaml"}),
            "Letter, Message must be both a kind in `resources` and a key of `samples`",
        ),
        (
            lambda p: p["plugins"][PLUGIN].update(samples={"Message": "examples/none.yaml"}),
            "examples/none.yaml does not exist; `samples` names files",
        ),
        (
            lambda p: p["plugins"][PLUGIN].update(samples={"Message": []}),
            "`samples` names no file of Message, the first kind; name one",
        ),
    ],
)
def test_a_mistake_is_told_in_a_sentence(tmp_path: Path, edit: Edit, sentence: str) -> None:
    file = write(tmp_path, edit)

    with pytest.raises(KitError) as error:
        definition.load(tmp_path)

    assert str(error.value).startswith(f"{file}: ")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_manager_that_is_nowhere_is_told_and_the_line_that_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lacking.py").write_text("\nimport nothing_at_all")

    for name in ("nowhere", "message_operator.nope"):
        with pytest.raises(KitError, match=f"PROJECT: there is no module {name}"):
            PROJECT.module(name)
    with pytest.raises(KitError, match=r"lacking\.py:2: ModuleNotFoundError: .*nothing_at_all"):
        PROJECT.module("lacking")


def test_a_manager_of_another_name_than_the_project_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    another = msgspec.structs.replace(PROJECT, name="another-operator")
    monkeypatch.setattr(declared, "PROJECT", another)

    with pytest.raises(KitError, match=r"manager message-operator, and .* project another-opera"):
        declared.of_the_project()


def test_only_kopfs_handlers_for_kinds_of_others_have_no_webhook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers = kopf.OperatorRegistry()
    monkeypatch.setattr(PROJECT.module(PROJECT.manager).manager.beside, "registry", handlers)
    kopf.on.validate("messages", registry=handlers, id="short")(lambda **_: None)
    declared.of_the_project()
    assert [webhook.name for webhook in PROJECT.admission] == ["short.messages.myorg.dev"]

    kopf.on.validate("pods", registry=handlers, id="small")(lambda **_: None)
    with pytest.raises(KitError, match="webhooks small are kopf's and for what no controller"):
        declared.of_the_project()


def test_a_handler_of_kopfs_that_cannot_be_asked_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers = kopf.OperatorRegistry()
    monkeypatch.setattr(PROJECT.module(PROJECT.manager).manager.beside, "registry", handlers)
    kopf.on.validate("messages", registry=handlers, id="길")(lambda **_: None)
    for read in (declared.of_the_project, lambda: PROJECT.admission):
        with pytest.raises(KitError, match="'길' cannot name a webhook"):
            read()


def test_a_kind_is_shown_in_the_version_that_project_names() -> None:
    versions = [{"name": "v1", "served": True}, {"name": "v1beta1"}]
    crd = {"spec": {"scope": "Namespaced", "versions": versions}}
    kind = definition.Kind("example.com", "Widget", "widgets", "v1")
    assert kind.shown(crd) == {"name": "v1", "served": True}
    kind = definition.Kind("example.com", "Widget", "widgets", "v2")
    told = "PROJECT: Widget has the version v2, and the operator's code declares v1, v1beta1; name"
    with pytest.raises(KitError, match=told):
        kind.shown(crd)
    kind = definition.Kind("example.com", "Widget", "widgets", "v1", api={"namespaced": False})
    with pytest.raises(KitError, match=r"Widget has the scope Cluster, and the .* Namespaced; cha"):
        kind.shown(crd)
