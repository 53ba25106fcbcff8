"""Draws manifests of many kinds, and edits of them, for `test_drift`."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from kopf_kit.testing.requests import Raw
from kopf_runtime.declaring import kinds
from kopf_runtime.declaring.kinds import Kind

THING = Kind("drift.example.dev", "v1", "things", "Thing")

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_ATOMIC = {"x-kubernetes-map-type": "atomic"}
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INNER = {"type": "object", "properties": {"a": _TEXT, "b": {"type": "integer"}}}
_ITEM = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": _TEXT,
        "zone": {**_TEXT, "default": "z"},
        "size": {"type": "integer"},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "inner": _INNER,
    },
}
#: Every structural feature that changes who owns what.
FIELDS: Raw = {
    "text": _TEXT,
    "number": {"type": "integer"},
    "flag": {"type": "boolean"},
    "either": {"x-kubernetes-int-or-string": True},
    "maybe": {**_TEXT, "nullable": True},
    "usual": {**_TEXT, "default": "usual"},
    "texts": _TEXTS,
    "whole": {**_TEXTS, **_ATOMIC},
    "inner": _INNER,
    "inners": {"type": "object", "additionalProperties": _INNER},
    "list": {"type": "array", "items": _TEXT},
    "lists": {"type": "array", "items": _INNER, "x-kubernetes-list-type": "atomic"},
    "set": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    "items": {
        "type": "array",
        "items": _ITEM,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id", "zone"],
    },
    "free": _FREE,
    "embedded": {**_FREE, "x-kubernetes-embedded-resource": True},
}


def definition(define: Callable[..., Raw]) -> Raw:
    """Return the CRD of the kind that has them all."""
    return define(THING, **FIELDS)


#: The annotation of what a webhook changes.
ADMITTED = "admitted"

#: A value, or one of several: a field is left out, or has one of them.
Menu = dict[str, list[Any]]

_MAPS: list[Any] = [{}, {"a": ""}, {"a": "x"}, {"a": "x", "b": ""}, {"é/0": "y", "b": "x"}]
_LABELS = {"a": "b"}
_SELECTORS: list[Any] = [
    {},
    {"matchLabels": {}},
    {"matchLabels": _LABELS},
    {"matchExpressions": []},
]
_PORTS: list[Any] = [
    [{"port": 53}],
    [{"port": 53, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}],
    [{"port": 80, "name": "", "targetPort": "web", "nodePort": 0}],
]
_PEERS: list[Any] = [[], [{}], [{"from": []}], [{"from": [{"podSelector": {}}], "ports": []}]]
_CONTAINER: Menu = {
    "command": [[], ["sh"], ["sh", ""]],
    "args": [[], ["-c", ""]],
    "env": [[], [{"name": "A", "value": ""}], [{"name": "B", "value": "x"}, {"name": "A"}]],
    "envFrom": [[], [{"secretRef": {"name": "s", "optional": False}}]],
    "resources": [{}, {"limits": {}}, {"limits": {"cpu": "0.5"}}, {"requests": {"cpu": "0"}}],
    "ports": [[], [{"containerPort": 80}], [{"containerPort": 53, "protocol": "UDP"}]],
    "securityContext": [
        {},
        {"runAsUser": 0},
        {"privileged": False},
        {"capabilities": {"drop": []}},
    ],
    "workingDir": ["", "/tmp"],
    "volumeMounts": [[], [{"name": "v", "mountPath": "/v", "readOnly": False, "subPath": ""}]],
    "tty": [False, True],
}
_POD: Menu = {
    "nodeSelector": _MAPS[:4],
    "tolerations": [[], [{"key": "spot"}], [{"operator": "Exists"}]],
    "securityContext": [{}, {"runAsUser": 0}, {"runAsNonRoot": False}, {"runAsUser": None}],
    "affinity": [{}, None, {"nodeAffinity": {}}],
    "volumes": [[{"name": "v", "emptyDir": {}}]],
    "terminationGracePeriodSeconds": [0, 5],
    "hostNetwork": [False],
    "serviceAccountName": ["", "sa"],
    "priorityClassName": [""],
    "imagePullSecrets": [[], [{"name": "p"}]],
    "hostAliases": [[], [{"ip": "10.0.0.1", "hostnames": []}]],
}


def _template(draw: "Draw", **fixed: Any) -> Raw:
    container = {"name": "main", "image": "x:1", **draw.some(_CONTAINER)}
    spec = {**draw.some(_POD), "containers": [container], **fixed}
    if "volumeMounts" in container:
        spec["volumes"] = [{"name": "v", "emptyDir": {}}]
    annotations = draw.some({"annotations": _MAPS[:4]})
    return {"metadata": {"labels": _LABELS, **annotations}, "spec": spec}


def _workload(draw: "Draw") -> Raw:
    return {"selector": {"matchLabels": _LABELS}, "template": _template(draw)}


def _deployment(draw: "Draw") -> Raw:
    menu: Menu = {"replicas": [0, 1], "paused": [False], "minReadySeconds": [0], "strategy": [{}]}
    return {"spec": {**_workload(draw), **draw.some(menu)}}


def _stateful_set(draw: "Draw") -> Raw:
    menu: Menu = {"serviceName": ["", "s"], "replicas": [0], "updateStrategy": [{}]}
    return {"spec": {**_workload(draw), **draw.some(menu)}}


def _cron_job(draw: "Draw") -> Raw:
    job = draw.some({"backoffLimit": [0], "parallelism": [0], "suspend": [False]})
    template = _template(draw, restartPolicy="Never")
    menu: Menu = {
        "suspend": [False, True],
        "startingDeadlineSeconds": [0, None],
        "timeZone": [None],
    }
    job_template = {"spec": {**job, "template": template}}
    return {"spec": {"schedule": "1 1 1 1 1", **draw.some(menu), "jobTemplate": job_template}}


def _config_map(draw: "Draw") -> Raw:
    if draw.random() < 0.4:  # more than 16 KiB of names
        return {
            "data": {f"key-{number}-{'x' * 20}": str(number % 3 or "") for number in range(745)}
        }
    return draw.some({"data": [*_MAPS[:4], {"x": None}], "binaryData": [{}, {"z": ""}]})


def _secret(draw: "Draw") -> Raw:
    return draw.some({"data": [{}, {"k": ""}, {"k": "eA=="}, {"k": "eA==", "e": ""}]})


def _service(draw: "Draw") -> Raw:
    menu: Menu = {
        "selector": _MAPS[:4],
        "publishNotReadyAddresses": [False],
        "externalIPs": [[], ["192.0.2.1"]],
        "loadBalancerSourceRanges": [[]],
        "externalName": [""],
        "sessionAffinity": ["ClientIP"],
        "clusterIP": ["None"],
    }
    return {"spec": {"ports": draw.choice(_PORTS), **draw.some(menu)}}


def _network_policy(draw: "Draw") -> Raw:
    menu: Menu = {
        "ingress": _PEERS,
        "egress": [[], [{}], [{"ports": []}]],
        "policyTypes": [["Ingress"]],
    }
    return {"spec": {"podSelector": draw.choice(_SELECTORS), **draw.some(menu)}}


def _role(draw: "Draw") -> Raw:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return draw.some({"rules": [[], None, [rule], [{**rule, "resourceNames": []}]]})


def _ingress(draw: "Draw") -> Raw:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    menu: Menu = {
        "rules": [[], [{"host": ""}], [{"host": "h", "http": {"paths": paths}}]],
        "tls": [[], [{}], [{"hosts": [], "secretName": ""}]],
        "ingressClassName": ["c"],
    }
    return {"spec": {"defaultBackend": backend, **draw.some(menu)}}


def _budget(draw: "Draw") -> Raw:
    return {"spec": draw.some({"minAvailable": [0, 1, "50%"], "selector": _SELECTORS[:3]})}


def _thing(draw: "Draw") -> Raw:
    inner: list[Any] = [{}, {"a": ""}, {"a": "x", "b": 0}, {"b": 1}]
    items: list[Any] = [
        [],
        [{"id": "1"}],
        [{"id": "1", "size": 0}, {"id": "1", "zone": "y", "inner": {}, "tags": []}],
        [{"id": "", "tags": ["a"]}, {"id": "2", "inner": {"a": ""}}],
    ]
    free: list[Any] = [
        *({}, {"a": {}}, {"a": {"b": {"c": 1}}}, {"a": [], "b": [1, {"c": ""}], "c": None}),
        {"a": {"b": 0}, "n": {"m": {}}, "t": ""},
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    menu: Menu = {
        "text": ["", "x"],
        "number": [0, 1],
        "flag": [False, True],
        "either": [0, "", "50%"],
        "maybe": [None, "", "x"],
        "usual": ["", "x"],
        "texts": _MAPS,
        "whole": _MAPS,
        "inner": inner,
        "inners": [{}, {"k": {}}, {"k": {"a": "x"}, "l": {}}, {"k": {"b": 0}}],
        "list": [[], [""], ["a", "b"]],
        "lists": [[], [{}], [{"a": "x"}, {"b": 0}]],
        "set": [[], [""], ["a", "b"]],
        "items": items,
        "free": free,
        "embedded": [pod, {**pod, "spec": {}, "data": {"a": {"b": ""}}}],
    }
    return {"spec": draw.some(menu, 0.6)}


#: The empty values, as JSON.
EMPTY = tuple(map(json.dumps, ("", [], {}, False, 0, None)))


def empties(part: Any) -> Iterator[str]:
    """Yield the empty values of a manifest."""
    if not part:
        yield json.dumps(part)
    below = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for value in below:
        yield from empties(value)


DRAWN: dict[Kind, Callable[["Draw"], Raw]] = {
    kinds.CONFIG_MAP: _config_map,
    kinds.SECRET: _secret,
    kinds.SERVICE: _service,
    kinds.NETWORK_POLICY: _network_policy,
    kinds.DEPLOYMENT: _deployment,
    kinds.STATEFUL_SET: _stateful_set,
    kinds.CRON_JOB: _cron_job,
    kinds.ROLE: _role,
    kinds.INGRESS: _ingress,
    kinds.POD_DISRUPTION_BUDGET: _budget,
    THING: _thing,
}
KINDS = tuple(DRAWN)
#: The custom resource has the most features, and ConfigMaps may be large.
_WEIGHTS = [{THING: 5, kinds.CONFIG_MAP: 2}.get(kind, 1) for kind in KINDS]


def _changed(part: Any) -> Any:
    match part:
        case "x":
            return "admitted"
        case "x:1":
            return "mirror/x:1"
        case {"a": "x", "b": ""}:
            return {}
        case dict():
            return {name: _changed(value) for name, value in part.items() if name != "é/0"}
        case ["a", *others] if "b" in others:  # beside what others have added, too
            return [item for item in part if item != "b"]
        case list():
            return [_changed(item) for item in part]
    return part


def admitted(raw: Raw) -> Raw:
    """Return an object as a webhook admits it: values changed, emptied, removed and added.

    What it has admitted once, it admits as it is, and so it does without the annotation.
    """

    result = copy.deepcopy(raw)
    meta = result["metadata"]
    if ADMITTED not in (meta.get("annotations") or {}):
        return result
    result |= {name: _changed(raw[name]) for name in ("spec", "data", "rules") if name in raw}
    for name in ("labels", "annotations"):
        meta[name] = {**_changed(meta.get(name) or {}), "added": "yes"}
    return result


#: What a search has to meet: kinds, all fields of the Thing, empty values, and what others do.
FEATURES = (
    *(kind.kind for kind in KINDS),
    *(f"Thing.{name}" for name in FIELDS),
    *(f"{empty} planned" for empty in EMPTY),
    *(f"{empty} set" for empty in EMPTY if empty != "null"),
    *("changed", "added", "removed", "updated", "applied", "large"),
)


def features(plan: Raw) -> Iterator[str]:
    """Yield what a plan has of these."""
    yield plan["kind"]
    yield from (f"{empty} planned" for empty in empties(plan))
    if plan["kind"] == THING.kind:
        yield from (f"Thing.{name}" for name in plan["spec"])
    if len(plan.get("data", ())) > 100:
        yield "large"


class Draw:
    """What is drawn from a seed."""

    def __init__(self, seed: str | float) -> None:
        self._random = random.Random(seed)  # noqa: S311 (no secret)
        self.random, self.choice = self._random.random, self._random.choice

    def some(self, menu: Menu, share: float = 0.4) -> Raw:
        """Return some of the fields of a menu, each with one of its values."""
        return {name: self.choice(values) for name, values in menu.items() if self.random() < share}

    def manifests(self, count: int) -> list[Raw]:
        """Return manifests without names, of each kind at least one."""
        more = self._random.choices(KINDS, _WEIGHTS, k=count - len(KINDS))
        return [self.manifest_of(kind) for kind in (*KINDS, *more)]

    def manifest_of(self, kind: Kind) -> Raw:
        """Return a manifest of a kind."""
        metadata = self.some({"labels": _MAPS[:4], "annotations": _MAPS[:4]}, 0.2)
        if self.random() < 0.3:
            metadata["annotations"] = {**metadata.get("annotations", {}), ADMITTED: "yes"}
        identity = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        return {**identity, **DRAWN[kind](self)}

    def another(self, plan: Raw, kind: Kind) -> Raw:
        """Return another manifest of a kind: a new one, or this one with emptied maps."""
        spec = plan.get("spec", {})
        maps = [name for name, value in spec.items() if value and isinstance(value, dict)]
        if kind != THING or not maps or self.random() < 0.5:
            return self.manifest_of(kind)
        return {**plan, "spec": {**spec, self.choice(maps): {}}}

    def edit(self, live: Raw, plan: Raw, group: str) -> tuple[str | int, ...]:
        """Change a part of an object, mostly one that its plan sets; return the path to it."""
        path: tuple[str | int, ...] = ()
        part, wanted = live, plan
        while True:
            steps: list[Any] = []
            if isinstance(part, dict):
                known = set(part) | set(wanted if isinstance(wanted, dict) else ())
                steps = (
                    sorted(known - {"apiVersion", "kind", "status"}) if not path else sorted(known)
                )
                if path == ("metadata",):
                    steps = ["labels", "annotations"]
                elif not path and len(steps) > 1 and self.random() < 0.8:
                    steps.remove("metadata")
                steps = [step for step in steps if not step.startswith((group, "app.kubernetes"))]
                planned = [step for step in steps if isinstance(wanted, dict) and step in wanted]
                steps = planned if planned and self.random() < 0.8 else steps
            elif isinstance(part, list):
                steps = list(range(len(part)))
            deep = not path or path == ("metadata",) or self.random() < 0.75
            if not steps or not deep:
                self._add(part)
                return path
            step = self.choice(steps)
            path = (*path, step)
            below = part.get(step) if isinstance(part, dict) else part[step]
            wanted = self._below(wanted, step)
            leaf = not isinstance(below, dict | list) or not below
            enough = len(path) > (2 if path[0] == "metadata" else 1)  # its maps have marks, too
            if below is None or (enough and (leaf or self.random() < 0.3)):
                self._change(part, step, below)
                return path
            part = below

    @staticmethod
    def _below(wanted: Any, step: Any) -> Any:
        if isinstance(wanted, dict):
            return wanted.get(step)
        return wanted[step] if isinstance(wanted, list) and step < len(wanted) else None

    def _add(self, part: Any) -> None:
        if isinstance(part, dict):
            part[f"new-{self.choice('abc')}"] = self.choice(["", "x"])
        elif isinstance(part, list) and part:
            last = part[-1]
            if isinstance(last, dict):
                names = ("name", "id", "port", "containerPort")
                changed = {
                    n: f"{v}1" if isinstance(v, str) else v + 1
                    for n, v in last.items()
                    if n in names
                }
                last = {**last, **changed}
            part.append(f"{last}-x" if isinstance(last, str) else last)

    def _change(self, part: Any, step: Any, value: Any) -> None:
        """Change, empty, remove or add a value."""
        if self.random() < 0.35 and (isinstance(step, int) or step in part):
            del part[step]
            return
        others: list[Any]
        match value:
            case bool():
                others = [not value]
            case int():
                others = [value + 1, 0]
            case str():
                others = [f"{value}x", "", "other"]
            case dict():
                others = [{}, {"a": "other"}, {**value, "extra": "x"}]
            case list():
                others = [[], ["other"], [{}], value[1:], [*value, *value]]
            case _:
                others = ["x", 1, True, {}, {"a": "x"}, [], ["x"], [{}]]
        part[step] = self.choice(others)
