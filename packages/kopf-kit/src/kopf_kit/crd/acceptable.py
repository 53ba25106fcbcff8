"""Whether an API server takes a CustomResourceDefinition: `generate` asks before a cluster does.

The rules are those of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`. Patterns
are asked of Helm, whose templates have Go's regular expressions, as the API server. What rules in
CEL cost only an API server knows: it is asked where its programs are at hand.
"""

import base64
import binascii
import functools
import ipaddress
import json
import re
import tempfile
import urllib.error
import uuid
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import jsonschema

from kopf_kit.rig import control_plane, paths, tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import say

Manifest = dict[str, Any]

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_APPROVED = "api-approved.kubernetes.io"
_RULES = "x-kubernetes-validations"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST, _KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
#: The keywords that a structural schema may have; https://kubernetes.io/docs/reference/kubernetes-api/
_KEYWORDS = {
    *("type", "format", "title", "description", "nullable", "default", "example", "enum"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("required", "items", "properties", "additionalProperties", "externalDocs"),
    *("allOf", "anyOf", "oneOf", "not", "x-kubernetes-preserve-unknown-fields"),
    *(_EMBEDDED, "x-kubernetes-int-or-string", "x-kubernetes-map-type"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", _RULES),
}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"


def check(definitions: Iterable[Manifest], source: object) -> None:
    """Raise KitError with each reason for which an API server would refuse one of these CRDs."""
    for crd in definitions:
        if reasons := [*refusals(crd)] or [*_asked(crd)]:
            name = crd["metadata"]["name"]
            raise KitError("\n".join(f"{source}: {name}: {reason}" for reason in reasons))


def refusals(crd: Manifest) -> Iterator[str]:
    """Yield the reasons for which an API server would refuse a CRD, as far as they can be read."""
    yield from _names(crd)
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        parts = [(f"{version['name']}{path}", part) for path, part in _parts(schema, "")]
        odd = _invalid_patterns([part["pattern"] for _, part in parts if "pattern" in part])
        for path, part in parts:
            yield from _keywords(path, part, odd)


#: What the API server refuses without exception, whatever it fills in before it looks.
_CERTAIN = {
    *("additionalProperties", "type", "enum", "required", "pattern", "minimum", "maximum"),
    *("minLength", "maxLength", "minItems", "maxItems"),
}


def mistakes(definitions: Iterable[Manifest], manifest: Manifest) -> Iterator[str]:
    """Yield why `kubectl apply` would refuse an object of these CRDs, where that is certain."""
    group, _, name = manifest["apiVersion"].rpartition("/")
    specs = [crd["spec"] for crd in definitions]
    versions = {
        version["name"]: version["schema"]["openAPIV3Schema"]
        for spec in specs
        if (spec["group"], spec["names"]["kind"]) == (group, manifest["kind"])
        for version in spec["versions"]
        if version["served"]
    }
    if name not in versions:
        yield f"apiVersion: {manifest['apiVersion']} does not serve the kind {manifest['kind']}"
        return
    own = {"apiVersion", "kind", "metadata"}  # the API server itself describes them
    schema = versions[name] | {
        "properties": {
            field: part
            for field, part in versions[name].get("properties", {}).items()
            if field not in own
        },
        "required": [field for field in versions[name].get("required", ()) if field not in own],
    }
    value = {field: part for field, part in manifest.items() if field not in own}
    for error in _errors(schema, value):
        integral = isinstance(error.instance, float) and error.instance.is_integer()
        # null stands for a field that is not set.
        if error.validator in _CERTAIN and error.instance is not None and not integral:
            yield f"{error.json_path.removeprefix('$').removeprefix('.')}: {error.message}"


def _names(crd: Manifest) -> Iterator[str]:
    spec, names = crd["spec"], crd["spec"]["names"]
    lower = {key: names[key].lower() for key in ("kind", "listKind") if key in names}
    lists = {key: names.get(key, ()) for key in ("shortNames", "categories")}
    words = [*lower.items(), ("plural", names["plural"]), ("singular", names.get("singular"))]
    words += [(key, word) for key, listed in lists.items() for word in listed]
    words += [("version", version["name"]) for version in spec["versions"]]
    for what, word in words:
        if word is not None and not _LABEL.fullmatch(word):
            yield (
                f"the {what} `{word}` is no name that Kubernetes takes: use at most 63 of a-z, 0-9 "
                "and -, beginning with a letter and ending with a letter or a digit"
            )
    group, notes = spec["group"], crd["metadata"].get("annotations") or {}
    if not _GROUP.fullmatch(group):
        yield f"the group `{group}` is no domain, such as cache.example.com"
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")) and _APPROVED not in notes:
        yield f"the group {group} is Kubernetes' own; use a domain of yours"
    versions = [version["name"] for version in spec["versions"]]
    if len({*versions}) < len(versions):
        yield f"two versions have one name: {', '.join(versions)}"
    if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        yield "objects must be stored in exactly one version: declare it with storage=True"


def _parts(schema: Manifest, path: str) -> Iterator[tuple[str, Manifest]]:
    """Yield a schema and all within it, each with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from _parts(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _parts(schema[key], f"{path}[]")


def _keywords(path: str, schema: Manifest, odd: dict[str, str]) -> Iterator[str]:
    allowed = {"uniqueItems"} if schema.get("uniqueItems") is False else set[str]()
    if unknown := sorted(schema.keys() - _KEYWORDS - allowed):
        yield f"{path} has `{', '.join(unknown)}`, which no schema of Kubernetes has; leave it out"
    if why := odd.get(schema.get("pattern", "")):
        yield f"{path} has a pattern that the API server (Go, RE2) cannot read: {why}; use another"
        return
    for rule in schema.get(_RULES, ()):
        if not str(rule.get("rule", "")).strip() or "\n" in rule.get("message", ""):
            yield f"{path} has a rule without text, or with a message of several lines"
    yield from _listed(path, schema)
    within = schema.get("properties") or schema.get(_PRESERVE)
    if schema.get(_EMBEDDED) and not (schema.get("type") == "object" and within):
        yield f"{path} has {_EMBEDDED}, which is for an object whose fields are named or kept"
    if "default" in schema:
        for error in _errors(schema, schema["default"]):
            yield f"{path} has a default that its own schema refuses: {error.message}"


def _listed(path: str, schema: Manifest) -> Iterator[str]:
    """Yield what is wrong with how lists and objects are merged."""
    items, kind, keys = schema.get("items", {}), schema.get(_LIST), schema.get(_KEYS, ())
    for name, type_, choices in (
        (_LIST, "array", ("atomic", "set", "map")),
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
    ):
        if name in schema and (schema.get("type") != type_ or schema[name] not in choices):
            of = " or ".join(choices)
            yield f"{path} has {name}, which is for an {type_}, and {of}; leave it out"
    if (kind == "map") != bool(keys) or len({*keys}) < len(keys):
        yield f"{path} has {_KEYS}, which name fields, once each, for the {_LIST} `map` alone"
    atomic = items.get(_LIST, items.get("x-kubernetes-map-type")) == "atomic"
    if kind == "set" and items.get("type") in ("object", "array") and not atomic:
        yield f"{path} is a set of objects or lists; use a list"
    if kind in ("set", "map") and items.get("nullable"):
        yield f"{path} is a set, or has items with keys, and null is among them; use a list"
    if kind == "map" and items.get("type") == "object":
        yield from _keyed(path, items, keys)
    elif kind == "map":
        yield f"{path} has items with keys that are no objects; use a list"


def _keyed(path: str, items: Manifest, keys: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the keys of a list's items."""
    for key in keys:
        part = items.get("properties", {}).get(key)
        if part is None or part.get("type") in ("array", "object"):
            yield f"{path} has items with the key {key}, which is no field with a scalar"
        elif key not in items.get("required", ()) and "default" not in part:
            yield f"{path} has items whose key {key} may be missing; give it a default"
        elif part.get("nullable"):
            yield f"{path} has items whose key {key} may be null; leave `| None` out"


# --- defaults -------------------------------------------------------------------------------------


def _errors(schema: Manifest, value: Any) -> list[jsonschema.ValidationError]:
    """Return why a value is none of a schema's."""
    return [*_VALIDATOR(_json_schema(schema), format_checker=_FORMATS).iter_errors(value)]


def _json_schema(schema: Manifest) -> Manifest:
    """Return a structural schema in the words of JSON Schema's draft 4, which it is based on."""
    result = {key: value for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in result:
        kinds = result["type"] if isinstance(result["type"], list) else [result["type"]]
        result["type"] = [*kinds, "null"]
    if schema.get("x-kubernetes-list-type") == "set":
        result["uniqueItems"] = True
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _json_schema(result[key])
    if schema.get(_EMBEDDED):
        own = dict.fromkeys(("apiVersion", "kind", "metadata"), Manifest())
        result["properties"] = own | result.get("properties", {})
    if "properties" in result:
        # A field that has a default is filled in before the whole is validated.
        parts = result["properties"] = {k: _json_schema(v) for k, v in result["properties"].items()}
        needed = [name for name in result.get("required", ()) if "default" not in parts[name]]
        result["required"] = needed
        result.setdefault("additionalProperties", bool(schema.get(_PRESERVE)))
    if not result.get("required"):
        result.pop("required", None)
    return result


_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_FORMATS = jsonschema.FormatChecker(formats=())


def _checks(name: str, type_: type, function: Any) -> None:
    def holds(value: object) -> bool:
        return not isinstance(value, type_) or isinstance(value, bool) or function(value)

    _FORMATS.checks(name, raises=ValueError)(holds)


_checks("int32", int, lambda value: -(2**31) <= value < 2**31)
_checks("int64", int, lambda value: -(2**63) <= value < 2**63)
_checks("date", str, date.fromisoformat)
_checks("date-time", str, datetime.fromisoformat)
_checks("ipv4", str, ipaddress.IPv4Address)
_checks("ipv6", str, ipaddress.IPv6Address)
_checks("cidr", str, ipaddress.ip_network)
_checks("uuid", str, uuid.UUID)
_checks("byte", str, lambda text: _is_base64(text))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


# --- patterns -------------------------------------------------------------------------------------

_CHART = {"apiVersion": "v2", "name": "asking", "version": "0.0.0"}
#: Of an alternative with nothing, an empty text is one, unless the pattern cannot be read.
_VALID = '{{ regexMatch (printf "|%s" .pattern) "" }}'
_MATCHES = "{{ mustRegexMatch .pattern .text }}"


def _matches(_: Any, pattern: str, text: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(text, str) and not _in_go(_MATCHES, ((pattern, text),))[0]:
        yield jsonschema.ValidationError(f"{text!r} does not match {pattern!r}")


_VALIDATOR: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft4Validator, {"pattern": _matches}
)


def _invalid_patterns(patterns: list[str]) -> dict[str, str]:
    """Return the patterns that Go cannot read, with its words."""
    odd: dict[str, str] = {}
    valid = _in_go(_VALID, tuple((pattern, "") for pattern in patterns))
    for pattern in (
        pattern for pattern, is_valid in zip(patterns, valid, strict=True) if not is_valid
    ):
        try:
            _in_go(_MATCHES, ((pattern, ""),))
        except KitError as error:
            words = " ".join(str(error).split())
            odd[pattern] = words.rpartition("error parsing regexp: ")[2].partition(" Use --debug")[
                0
            ]
    return odd


@functools.lru_cache(maxsize=1024)
def _in_go(function: str, cases: tuple[tuple[str, str], ...]) -> list[bool]:
    """Return what a function of Helm's templates says of patterns and texts."""
    if not cases:
        return []
    template = f"answers:\n{{{{- range .Values.cases }}}}\n- {function}\n{{{{- end }}}}\n"
    values = {"cases": [{"pattern": pattern, "text": text} for pattern, text in cases]}
    with tempfile.TemporaryDirectory(prefix="kopf-kit-") as name:
        folder = Path(name)
        (folder / "templates").mkdir()
        (folder / "Chart.yaml").write_text(json.dumps(_CHART))
        (folder / "values.yaml").write_text(json.dumps(values, ensure_ascii=False))
        (folder / "templates" / "answers.yaml").write_text(template)
        printed = output([tools.path("helm"), "template", "asking", folder])
    return [line == "- true" for line in printed.splitlines() if line.startswith("- ")]


# --- rules ----------------------------------------------------------------------------------------


def _asked(crd: Manifest) -> list[str]:
    """Return what an API server says of a CRD with rules; what it took once, it takes again."""
    text = json.dumps(crd, sort_keys=True)
    taken = paths.cache() / "accepted" / tools.digest(text)
    if _RULES not in text or taken.exists():
        return []
    programs = [control_plane.installed_program(name) for name in ("etcd", "kube-apiserver")]
    if not all(programs):
        if (told := taken.with_suffix(".told")).exists():
            return []
        told.parent.mkdir(exist_ok=True)
        told.touch()
        say(
            f"note: nobody asked what the rules of {crd['metadata']['name']} cost: put "
            "kube-apiserver and etcd on the PATH, or name their folder in KUBEBUILDER_ASSETS"
        )
        return []
    plane = control_plane.ControlPlane({}, installed=True)
    try:
        plane.start()
        plane.wait()
        why = asked(plane.server, text)
    finally:
        plane.remove()
    if not why:
        taken.parent.mkdir(exist_ok=True)
        taken.touch()
    return why


def asked(server: str, text: str) -> list[str]:
    """Return the reasons for which a control plane's API server refuses a CRD, given as JSON."""
    try:
        control_plane.ask(f"{server}{_CRDS}", text.encode(), timeout=30)
    except urllib.error.HTTPError as error:
        answer = json.load(error)
        causes = answer.get("details", {}).get("causes", ())
        return [f"{each['field']}: {each['message']}" for each in causes] or [answer["message"]]
    return []
