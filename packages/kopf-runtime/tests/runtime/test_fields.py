"""M1: a child was altered if a field that the operator set is not the operator's any more."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kopf_runtime.declaring.objects import ManagedFields, ObjectMeta
from kopf_runtime.working.fields import Ownership, shape
from runtime.support.ownership import Owners

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


def ours(pod: Raw) -> Any:
    return next(
        container for container in pod["spec"]["containers"] if container["name"] == "message"
    )


def rewrite_image(pod: Raw) -> None:
    ours(pod)["image"] = "mirror.example/busybox:1"


def inject_sidecar(pod: Raw) -> None:
    pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "envoy"})


def set_defaults(pod: Raw) -> None:
    pod["spec"].update(
        {"serviceAccountName": "default", "tolerations": [{"key": "not-ready"}], "priority": 0}
    )
    ours(pod)["resources"]["requests"] = {"cpu": "100m"}


def annotate(pod: Raw) -> None:
    pod["metadata"]["annotations"]["ovn.kubernetes.io/ip"] = "10.0.0.1"


def label(pod: Raw) -> None:
    pod["metadata"]["labels"]["team"] = "blue"


def tolerate(pod: Raw) -> None:
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), {"key": "spot"}]


@pytest.mark.parametrize("admission", [rewrite_image, inject_sidecar, set_defaults])
@pytest.mark.parametrize("later", [annotate, label, tolerate], ids=lambda f: f.__name__)
def test_m1_what_admission_made_of_it_stays_so_when_somebody_adds_something_later(
    admission: Change, later: Change
) -> None:
    assert intact(manifest(), later, admission=admission)


def drop_label(pod: Raw) -> None:
    del pod["metadata"]["labels"]["app"]


def drop_labels(pod: Raw) -> None:
    del pod["metadata"]["labels"]


def change_annotation(pod: Raw) -> None:
    pod["metadata"]["annotations"]["made"] = "elsewhere"


def change_variable(pod: Raw) -> None:
    ours(pod)["env"][0]["value"] = "another text"


def drop_variable(pod: Raw) -> None:
    del ours(pod)["env"]


def resize(pod: Raw) -> None:
    ours(pod)["resources"]["limits"]["cpu"] = "1"


def change_command(pod: Raw) -> None:
    ours(pod)["command"] = ["sh", "-x"]


def drop_capabilities(pod: Raw) -> None:
    ours(pod)["securityContext"] = {}


def select_another_node(pod: Raw) -> None:
    pod["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux", "zone": "a"}


def drop_finalizer(pod: Raw) -> None:
    del pod["metadata"]["finalizers"]


@pytest.mark.parametrize(
    "alter",
    [
        rewrite_image,
        drop_label,
        drop_labels,
        change_annotation,
        change_variable,
        drop_variable,
        resize,
        change_command,
        drop_capabilities,
        select_another_node,
        drop_finalizer,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("admission", [lambda _: None, inject_sidecar], ids=["plain", "sidecar"])
def test_m1_what_somebody_changes_or_removes_is_altered(alter: Change, admission: Change) -> None:
    assert not intact(manifest(), alter, admission=admission)


def set_the_same(pod: Raw) -> None:
    ours(pod)["image"] = "busybox:1"


def test_m1_l10_what_was_made_is_intact_and_another_s_toleration_is_not() -> None:
    assert intact(manifest())
    assert intact(manifest(), set_the_same)  # two managers set it alike
    assert intact(manifest(volumes=[], affinity={}, priorityClassName=""))  # as if absent
    assert not intact(manifest(tolerations=[{"key": "gpu"}]), tolerate)


def test_an_event_names_who_else_changed_a_child() -> None:
    entries = [ManagedFields("kubectl-edit"), ManagedFields(OURS), ManagedFields("a" * 1000)]

    told = Ownership(OURS).others(entries)

    assert "kubectl-edit" in told
    assert len(told) < 200
    assert Ownership(OURS).others([ManagedFields("kubelet", "status")]) == ""


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


def test_m3_a_manifest_that_is_too_deep_has_no_shape() -> None:
    spec: Raw = {}
    for _ in range(5_000):
        spec = {"deeper": spec}

    with pytest.raises(RecursionError, match="200 levels"):
        shape({"metadata": {}, "spec": {"more": 1, "deeper": spec}})


def test_b1_whether_a_default_has_replaced_an_empty_value_has_to_be_looked_at() -> None:
    """As after `{"spec": {"replicas": null}}` of somebody; nobody owns the field then."""
    fields: Raw = {"f:spec": {"f:paused": {}}}
    live = {
        "metadata": {"managedFields": [{"manager": OURS, "fieldsV1": fields}]},
        "spec": {"paused": True, "replicas": 1},
    }
    wanted = {"metadata": {}, "spec": {"paused": True, "replicas": 0}}

    seen = Ownership(OURS).compare(wanted, live)

    assert not seen.altered
    assert ("spec", "replicas", "=") in seen.absent


def test_t8_a_resource_version_that_is_empty_is_none() -> None:
    assert [ObjectMeta("one", "u", resource_version=each).version for each in ("", "7")] == [0, 7]
