"""A declared kind becomes a CustomResourceDefinition, and the rights that its controller needs."""

import dataclasses
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd import declared, generated
from kopf_kit.crd.generated import definition
from kopf_kit.crd.structural import DeclarationError
from kopf_kit.project import rbac
from kopf_kit.testing.api_server import declared_rules
from kopf_runtime.declaring.declaration import declared as declaration
from kopf_runtime.declaring.records import Update


class Part(kr.Fields, frozen=True):
    """What is within."""

    name: str
    zone: str | None = None
    count: int = 0


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    size: int = 1
    name: str = ""
    port: int | str = 80
    whole: bool = True
    share: float = 0.5
    names: tuple[str, ...] = ()
    anything: Any = None
    part: Part | None = None
    labels: dict[str, str] | None = None
    depth: int | None = None


class Status(kr.Fields, frozen=True):
    """What was observed."""

    node_name: Annotated[str | None, Meta(description="Its node.")]
    ready_size: int
    parts: dict[str, list[Part]] | None = None


@kr.custom_resource("example.dev", "v1", "boxes", status=Status, ready="it is full")
class Box(kr.Resource):
    """A Box.

    It holds things.
    """

    spec: Spec = Spec()


@kr.custom_resource("example.dev", "v1", "lids", namespaced=False)
class Lid(kr.Resource, kw_only=True):
    """A Lid."""

    spec: Spec
    """What is to cover the box."""


_READY = ".status.readySize"


def version(type_: type[kr.Resource], **changes: Any) -> generated.Manifest:
    """Return the only version of a kind's definition."""
    (one,) = definition(dataclasses.replace(declaration(type_), **changes))["spec"]["versions"]
    found: generated.Manifest = one
    return found


def fields(type_: type[kr.Resource]) -> generated.Manifest:
    """Return the schema's properties."""
    properties: generated.Manifest = version(type_)["schema"]["openAPIV3Schema"]["properties"]
    return properties


def test_the_class_names_and_describes_the_kind() -> None:
    spec = definition(declaration(Box))["spec"]

    assert spec["names"]["listKind"] == "BoxList"
    assert spec["scope"] == "Namespaced"
    assert definition(declaration(Lid))["spec"]["scope"] == "Cluster"
    schema = version(Box)["schema"]["openAPIV3Schema"]
    assert schema["description"] == "A Box. It holds things."
    assert fields(Lid)["spec"]["description"] == "What is to cover the box."


def test_a_spec_with_a_default_may_be_left_out_and_another_may_not() -> None:
    assert fields(Box)["spec"]["default"] == {}
    assert "required" not in version(Box)["schema"]["openAPIV3Schema"]
    assert version(Lid)["schema"]["openAPIV3Schema"]["required"] == ["spec"]


def test_of_a_status_nothing_is_required_and_null_takes_a_field_away() -> None:
    status = fields(Box)["status"]

    assert "required" not in status
    assert status["properties"]["nodeName"] == {"type": "string", "description": "Its node."}
    assert {"readySize", "observedGeneration", "conditions"} < status["properties"].keys()
    part = status["properties"]["parts"]["additionalProperties"]["items"]
    assert "required" not in part
    assert part["properties"]["zone"] == {"type": "string"}
    assert "default" not in part["properties"]["count"]
    assert "while it is full." in status["properties"]["conditions"]["description"]


def test_a_column_has_the_type_of_its_field() -> None:
    sealed = kr.Column("Sealed", '.status.conditions[?(@.type=="Sealed")].status')
    columns = [kr.Column("Size", ".spec.size"), kr.READY, kr.AGE, kr.REASON, sealed]
    shown = version(Box, printer_columns=columns)["additionalPrinterColumns"]

    assert [column["type"] for column in shown] == ["integer", "string", "date", "string", "string"]
    assert shown[1]["description"] == "Whether it is full"
    assert [column.get("priority", 0) for column in shown] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("port", "string"),
        ("whole", "boolean"),
        ("share", "number"),
        ("names", "string"),
        ("anything", "string"),
        ("part.count", "integer"),
    ],
)
def test_a_column_has_a_type_that_a_table_knows(field: str, kind: str) -> None:
    (column,) = version(Box, printer_columns=[kr.Column("C", f".spec.{field}")])[
        "additionalPrinterColumns"
    ]

    assert column["type"] == kind


#: A status with a name of the runtime's, one that says nothing of itself, and an odd one.
_NAMED = msgspec.defstruct("Odd", [("conditions", list[str])])
_BARE = msgspec.defstruct(
    "Bare", [("one", Annotated[int, Meta(extra_json_schema={"x-kubernetes-list-map-keys": ["a"]})])]
)


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (kr.Column("Part", ".spec.part"), "the column Part shows .spec.part, which is an object;"),
        (kr.Column("All", ".spec.labels"), "the column All shows .spec.labels, which is an object"),
        (kr.Column("Si", ".spec.sice"), "the column Si shows .spec.sice, which is not a field"),
        (kr.Column("A\nb", "spec.size"), "the column A b shows spec.size, which is not a field"),
        (kr.Column("", ".spec.size"), "the column of .spec.size has no name; give it one"),
        (
            kr.Column("Age", '.status.conditions[?(@.type=="Full")].age'),
            "the column Age shows .status.conditions[?(@",
        ),
        (_NAMED, ".status.conditions is the runtime's"),
        (kr.Scale(".spec.size", ".status.ready"), "scale= names .status.ready, which is not a f"),
        (kr.Scale(".spec.name", _READY), "scale= names .spec.name, which is not a whole number"),
        (kr.Scale(_READY, _READY), "scale= names .status.readySize, which is not a field of .spec"),
        (
            kr.Scale(".spec.size", ".spec.size"),
            "scale= names .spec.size, which is not a field of .status",
        ),
        (
            kr.Scale(".spec.depth", _READY),
            "scale= names .spec.depth, which may be missing; give it a default",
        ),
        (
            kr.Scale(".spec.size", _READY, _READY),
            "scale= names .status.readySize, which is not a text",
        ),
        (
            kr.Scale(".spec.size", _READY, ".metadata.name"),
            "scale= names .metadata.name, which is not a field of .spec or .status",
        ),
    ],
)
def test_what_names_no_field_is_refused(part: Any, complaint: str) -> None:
    changes = {kr.Column: {"printer_columns": [part]}, kr.Scale: {"scale": part}}

    with pytest.raises(DeclarationError) as error:
        version(Box, **changes.get(type(part), {"status": part}))

    assert str(error.value).startswith(complaint)


def test_a_description_that_says_nothing_is_left_out() -> None:
    status = version(Box, status=_BARE)["schema"]["openAPIV3Schema"]["properties"]["status"]

    assert "description" not in status
    assert status["properties"]["one"]["type"] == "integer"


def test_a_class_that_is_not_declared_is_told() -> None:
    class Derived(Box):
        """Of a declared one."""

    manager = kr.Manager("box-operator", kr.Settings)

    with pytest.raises(TypeError, match="Derived is not declared as a kind"):
        manager.controller_for(Derived)


def test_names_that_no_label_could_have_are_refused_when_they_are_declared() -> None:
    declare = kr.custom_resource("example.dev", "v1", "longs")

    assert declare(type("A" * 63, (kr.Resource,), {}))
    with pytest.raises(ValueError, match="is too long a name; use at most 63 letters"):
        declare(type("A" * 64, (kr.Resource,), {}))
    for name in ("Box operator", "", "-box", "b" * 64):
        with pytest.raises(ValueError, match="cannot name an operator: use 1 to 63 of"):
            kr.Manager(name, kr.Settings)


def test_braces_in_a_text_are_no_template_of_helm_s() -> None:
    @kr.custom_resource("example.dev", "v1", "cups")
    class Cup(kr.Resource):
        """A Cup is written as {{cup}}."""

    manager = kr.Manager("cup-operator", kr.Settings)
    manager.controller_for(Cup)

    chart = declared.chart_crd(declared.definitions(manager), "cup-operator")

    assert 'written as {{ "{{" }}cup}}' in chart


# --- rights -------------------------------------------------------------------------------------


def granted(manager: kr.Manager[kr.Settings]) -> dict[str, str]:
    """Return the verbs by group and resource."""
    found = {}
    for _, rule in rbac.rules(manager):
        (group,), (resource,) = rule["apiGroups"], rule["resources"]
        found[f"{resource}.{group}"] = " ".join(rule["verbs"])
    return found


def test_a_controller_may_do_what_it_declares_and_nothing_else() -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    controller = manager.controller_for(Box)
    controller.owns(kr.kinds.DEPLOYMENT)
    controller.owns(kr.kinds.SECRET, update=kr.RECREATE)
    controller.descendants(kr.kinds.POD, transform=lambda _: None)

    assert granted(manager) == {
        "boxes.example.dev": "get list watch",
        "boxes/status.example.dev": "patch",
        "deployments.apps": "get list watch create patch delete",
        "secrets.": "get list watch create delete",
        "pods.": "get list watch",
        "events.": "create patch",
    }


@pytest.mark.parametrize("update", [Update.APPLY, kr.RECREATE, kr.CREATE], ids=str)
def test_who_sets_an_owner_reference_may_delete_what_has_it(update: Any) -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    manager.controller_for(Box).owns(kr.kinds.SECRET, update=update, prune=False)

    assert "delete" in granted(manager)["secrets."].split()


def test_what_is_read_by_name_alone_may_be_neither_listed_nor_watched() -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    boxes, lids = manager.controller_for(Box), manager.controller_for(Lid)
    boxes.reads(kr.kinds.SECRET, keys=lambda _: ["a"], transform=str, every=60)
    boxes.reads(kr.kinds.CONFIG_MAP, keys=lambda _: ["a"], transform=str)
    lids.watches(kr.kinds.SERVICE, to=lambda _: ["a"])

    allowed = granted(manager)

    assert allowed["secrets."] == "get"
    assert allowed["configmaps."] == allowed["services."] == "get list watch"


def test_only_who_cleans_up_may_write_to_what_users_declare() -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    controller = manager.controller_for(Box)

    @controller.finalize
    async def clean_up(*_: Any) -> None: ...

    assert granted(manager)["boxes.example.dev"] == "get list watch patch"


def test_a_right_of_the_author_s_own_is_in_the_chart_and_in_the_suite_s_role() -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    manager.rbac(
        kr.PolicyRule(
            "storage.k8s.io", ["storageclasses"], ["get"], ["fast"], "A {{class}}\nis read."
        )
    )
    manager.rbac(kr.PolicyRule("", ["nodes", "pods/log"], ["list"]))
    rules = [
        {
            "apiGroups": ["storage.k8s.io"],
            "resources": ["storageclasses"],
            "resourceNames": ["fast"],
            "verbs": ["get"],
        },
        {"apiGroups": [""], "resources": ["nodes", "pods/log"], "verbs": ["list"]},
    ]

    chart = declared.chart_rules(declared.Operator([], rbac.rules(manager)), "box-operator")

    assert [rule for rule in declared_rules(manager) if rule in rules] == rules
    assert '# A {{ "{{" }}class}} is read.\n- apiGroups: [storage.k8s.io]\n' in chart
    assert "resourceNames: [fast]" in chart
    assert "# The operator's own code needs it.\n- apiGroups: ['']\n" in chart


@pytest.mark.parametrize(
    ("right", "why"),
    [
        (("", "nodes", ["get"]), "resources='nodes': use a sequence of texts"),
        (("", ["nodes"], [1]), "verbs=.1.: use a sequence of texts"),
        (("", ["nodes"], []), "the rule has no verbs; name at least one"),
        (("", ["*"], ["get"]), "'\\*' of resources is not valid: write it as `kubectl"),
        (("", ["Nodes"], ["get"]), "'Nodes' of resources is not valid"),
        (("", ["nodes"], ["create"], ["one"]), "create cannot be restricted to names"),
    ],
)
def test_a_right_that_cannot_be_meant_is_refused(right: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        kr.PolicyRule(*right)
    with pytest.raises(TypeError, match="'get nodes' is not a kr"):
        kr.Manager("box-operator", kr.Settings).rbac("get nodes")  # type: ignore[arg-type]


def test_a_kind_that_is_owned_and_watched_has_one_rule() -> None:
    manager = kr.Manager("box-operator", kr.Settings)
    boxes, lids = manager.controller_for(Box), manager.controller_for(Lid)
    boxes.owns(kr.kinds.POD, update=kr.RECREATE)
    lids.descendants(kr.kinds.POD, transform=lambda _: None)

    (pods,) = (r for _, r in rbac.rules(manager) if r["resources"] == ["pods"])

    assert pods["verbs"] == ["get", "list", "watch", "create", "delete"]


def test_a_kind_of_others_has_rights_but_no_crd() -> None:
    manager = kr.Manager("service-operator", kr.Settings)
    services = manager.controller_for(kr.kinds.SERVICE, where={"labels": {"a": "b"}})
    services.contribution(lambda *_: {"metadata": {"labels": {"c": "d"}}})
    manager.controller_for(kr.kinds.NODE, kr.Resource, condition="example.dev/Fit")

    assert declared.definitions(manager) == []
    verbs = {rule["resources"][0]: rule["verbs"] for _, rule in rbac.rules(manager)}
    assert verbs == {
        "services": ["get", "list", "watch", "patch"],
        "nodes": ["get", "list", "watch"],
        "nodes/status": ["patch"],
        "events": ["create", "patch"],
    }
