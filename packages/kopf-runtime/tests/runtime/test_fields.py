"""M1: a child was altered if a field that the operator set is not the operator's any more."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from kopf_runtime.declaring.objects import ManagedFields, ObjectMeta
from kopf_runtime.working import drift
from kopf_runtime.working.fields import Ownership, shape
from runtime.support.store import Owners

Raw = dict[str, Any]
OURS, UID = "message-operator", "uid-of-the-owner"


def manifest(**spec: Any) -> Raw:
    container = {
        "name": "message",
        "image": "busybox:1",
        "command": ["sh"],
        "ports": [{"port": 80}],
        "env": [{"name": "TEXT", "value": "hello"}],
        "resources": {"limits": {"cpu": "100m"}},
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"app": "message"},
            "annotations": {"made": "here"},
            "finalizers": ["example.dev/one"],
            "ownerReferences": [{"uid": UID, "kind": "Message", "controller": True}],
        },
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/os": "linux"}, **spec},
    }


Change = Callable[[Raw], object]


def intact(
    wanted: Raw, *changes: Change, admission: Change = lambda _: None, by: str = "kubectl-edit"
) -> bool:
    """Tell whether a Pod is as it was made: changed by admission first, by somebody then."""
    pod: Raw = json.loads(json.dumps(wanted))
    admission(pod)
    owners = Owners()
    owners.changed({}, pod, OURS)
    for change in changes:
        before: Raw = json.loads(json.dumps(pod))
        change(pod)
        owners.changed(before, pod, by)
    pod["metadata"]["managedFields"] = owners.render()
    return not Ownership(OURS).compare(wanted, pod).altered


Place = tuple[str | int, ...]


def places(part: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the place of each field and item, but of those that say what it is, and whose."""
    for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
        place = (*path, key)
        if place[0] not in ("apiVersion", "kind") and place[1:2] not in (("name",), (OWNERS,)):
            yield place
            if isinstance(inner, dict | list):
                yield from places(inner, place)


def part_of(pod: Raw, place: Place) -> Any:
    """Return what is at a place, with our container as the first one."""
    part: Any = pod
    for key in place:
        if key == 0 and isinstance(part[0], dict) and "image" in part[0]:
            part = next(container for container in part if container["name"] == "message")
        else:
            part = part[key]
    return part


OWNERS = "ownerReferences"
PLACES = [place for place in places(manifest()) if len(place) > 1]
TEXTS = [place for place in PLACES if isinstance(part_of(manifest(), place), str)]
MAPS = [place for place in places(manifest()) if isinstance(part_of(manifest(), place), dict)]


def inject_sidecar(pod: Raw) -> None:
    pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "envoy"})


def change(place: Place) -> Change:
    return lambda pod: part_of(pod, place[:-1]).__setitem__(place[-1], "another")


def tolerate(pod: Raw) -> None:
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), {"key": "spot"}]


@pytest.mark.parametrize("admission", [lambda _: None, inject_sidecar], ids=["plain", "sidecar"])
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_m1_what_somebody_changes_or_removes_is_altered(place: Place, admission: Change) -> None:
    def remove(pod: Raw) -> None:
        part, taken = part_of(pod, place[:-1]), part_of(pod, place)
        part.remove(taken) if isinstance(part, list) else part.pop(place[-1])

    assert not intact(manifest(), remove, admission=admission)
    if place in TEXTS:
        assert not intact(manifest(), change(place), admission=admission)


@pytest.mark.parametrize("place", MAPS, ids=str)
def test_m1_what_somebody_adds_is_theirs_but_in_what_is_set_as_a_whole(place: Place) -> None:
    def add(pod: Raw) -> None:
        part_of(pod, place)["added"] = "later"

    assert intact(manifest(), add, tolerate, admission=inject_sidecar) is (
        place[-1] != "nodeSelector"
    )


@pytest.mark.parametrize("place", [p for p in TEXTS if {*p}.isdisjoint(("name", "finalizers"))])
def test_m1_what_admission_has_changed_stays_so(place: Place) -> None:
    assert intact(manifest(), tolerate, admission=change(place))


def test_m1_l10_what_was_made_is_intact_and_another_s_toleration_is_not() -> None:
    assert intact(manifest())
    assert intact(manifest(volumes=[], affinity={}, priorityClassName=""))  # as if absent
    assert not intact(manifest(tolerations=[{"key": "gpu"}]), tolerate)


def test_an_event_names_who_else_changed_a_child() -> None:
    entries = [ManagedFields("kubectl-edit"), ManagedFields(OURS), ManagedFields("a" * 1000)]

    assert Ownership(OURS).others(entries) == f"{'a' * 64}, kubectl-edit"
    assert Ownership(OURS).others([ManagedFields("kubelet", "status")]) == ""


def entry(manager: str, fields: Raw, subresource: str = "") -> ManagedFields:
    return ManagedFields(manager, subresource, msgspec.Raw(json.dumps(fields).encode()))


def test_a_digest_changes_with_each_owner_and_field_and_empty_value_but_not_by_object() -> None:
    def digest(
        *more: ManagedFields, owner: str = UID, manager: str = OURS, empties: int = 2
    ) -> str:
        ours = entry(manager, {f'k:{{"uid":"{owner}"}}': {}})
        return Ownership(OURS).digest([ours, *more], owner, empties)

    another = entry("kubectl", {"f:spec": {"f:a": 1}})
    status = entry("kubelet", {"f:status": 1}, "status")

    assert digest() == digest(owner="another") == digest(status)
    assert len({digest(), digest(another), digest(manager="eve"), digest(empties=3)}) == 4


def test_a_label_and_a_reference_are_marks_if_the_operator_has_set_them() -> None:
    marks: Raw = {
        "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {'k:{"uid":"u"}': {}}}
    }

    def marked(*entries: ManagedFields, label: str = "a", reference: str = "u") -> bool:
        return Ownership(OURS).marked([*entries], label, reference)

    assert marked(entry(OURS, marks))
    assert marked(entry(f"{OURS}-owner", marks), reference="")
    assert not marked(entry(OURS, marks), label="b")
    assert not marked(entry(OURS, marks), reference="v")
    assert not marked(entry(OURS, marks, "status"))
    assert not marked(entry("eve", marks))
    contributed = Ownership(OURS).contributed
    assert contributed([entry(OURS, marks)]) == contributed(None) == ""
    assert contributed([entry(f"{OURS}-contribution", marks)])


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        "x",
        {"f:metadata": []},
        {"f:metadata": {"f:labels": 1}},
        {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:containers": {"k:{": {}}}},
        {"f:spec": {"f:containers": {"k:[1]": {".": {}}}}},
        {"f:metadata": {"f:finalizers": {"v:": {}}}},
    ],
)
def test_c1_fields_that_are_no_fields_are_not_the_operators(fields: Any) -> None:
    pod = manifest()
    pod["metadata"]["managedFields"] = [{"manager": OURS, "fieldsV1": fields}]

    assert Ownership(OURS).compare(manifest(), pod).altered


def test_r3_fields_that_the_api_server_merged_with_those_of_others_are_the_operators() -> None:
    """It keeps the entries of ten managers, and merges the oldest ones."""
    wanted = {"metadata": {"labels": {"app": "x"}}}
    merged = {"manager": "ancient-changes", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}
    ours = {"manager": OURS, "fieldsV1": {"f:metadata": {"f:annotations": {"f:a": {}}}}}

    def altered(*entries: Raw) -> bool:
        live = {"metadata": {"labels": {"app": "x"}, "managedFields": list(entries)}}
        return Ownership(OURS).compare(wanted, live).altered

    assert not altered(merged)
    assert altered(merged, ours)


def test_a_list_with_a_key_that_has_a_default_is_compared_item_by_item() -> None:
    """And that others have made a map, of which nothing is theirs any more, changes nothing."""
    ports: Raw = {
        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}},
        'k:{"port":443,"protocol":"TCP"}': {".": {}, "f:port": {}},
    }
    wanted: list[Raw] = [{"port": 443}, {"port": 80, "name": "web"}]
    live: Raw = {
        "metadata": {
            "managedFields": [
                {"manager": OURS, "fieldsV1": {"f:spec": {"f:ports": ports}}},
                {"manager": "eve", "fieldsV1": {"f:spec": {".": {}}}},
            ]
        },
        "spec": {"ports": [{**port, "protocol": "TCP"} for port in wanted]},
    }

    assert not Ownership(OURS).compare({"metadata": {}, "spec": {"ports": wanted}}, live).altered


@pytest.mark.parametrize("deeper", [lambda spec: spec, lambda spec: [spec]], ids=["maps", "lists"])
def test_m3_a_manifest_that_is_too_deep_has_no_shape(deeper: Callable[[Raw], Any]) -> None:
    spec: Raw = {}
    for _ in range(5_000):
        spec = {"deeper": deeper(spec)}

    with pytest.raises(RecursionError, match="200 levels"):
        shape({"metadata": {}, "spec": {"more": 1, "deeper": spec}})


def test_b1_whether_a_default_has_replaced_an_empty_value_has_to_be_looked_at() -> None:
    """As after `{"spec": {"replicas": null}}` of somebody; nobody owns the field then."""
    fields: Raw = {"f:spec": {"f:paused": {}}}
    live = {
        "metadata": {"managedFields": [{"manager": OURS, "fieldsV1": fields}]},
        "spec": {"paused": True, "replicas": 1},
    }
    empty: Raw = {"text": "", "map": {"part": ""}}
    wanted = {"metadata": {}, "spec": {"paused": True, "replicas": 0, **empty}}

    seen = Ownership(OURS).compare(wanted, live)

    assert not seen.altered
    absent = (("replicas", "="), ("text",), ("map",), ("map", "part"))
    assert seen.absent - {("metadata", "=")} == {("spec", *path) for path in absent}


def test_b1_what_admission_takes_away_is_wanted_if_others_have_put_it_back() -> None:
    sent: Raw = {"map": {"a": "b"}, "text": "c", "gone": {"d": "e"}}
    live = {"map": {"a": "other"}, "text": "d"}
    assert drift._admitted(sent, {"text": "d"}, live) == {"map": {"a": "b"}, "text": "d"}


def test_t8_a_resource_version_that_is_empty_is_none() -> None:
    assert [ObjectMeta("one", "u", resource_version=each).version for each in ("", "7")] == [0, 7]
