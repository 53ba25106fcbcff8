"""Turns an author's manifest into the child to send, with its owner reference and our marks.

`reader` calls `Templates.plan` whenever an object changes. The result is hashed, and the encoded
manifests are kept for a while, because most children are created right after that.
"""

import hashlib
import logging
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.declaring import models
from kopf_runtime.declaring.context import Context
from kopf_runtime.declaring.errors import PlanError, Wait
from kopf_runtime.declaring.kinds import SECRET, Key, Kind
from kopf_runtime.declaring.objects import Object, ObjectMeta, Resource
from kopf_runtime.declaring.parsers import DNS_LABEL
from kopf_runtime.declaring.records import MANAGED_BY, Child, Owned, Owner, Wanted
from kopf_runtime.working import fields
from kopf_runtime.working.fields import INSTALLATION

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: Bytes of manifests that are kept; older ones are made again from a GET.
KEPT = 4 * 1024 * 1024
#: Children that one object may have.
MAX_CHILDREN = 1000

#: Returns the manifests of the children that an object should have. The context is None where they
#: depend on nothing but the object and the settings.
Desired = Callable[[Any, Context[Any] | None], Iterable[Any]]

#: A label's name has at most 63 characters, and the longest mark is called `KIND-generation`.
_LONGEST_WORD = 63 - len("-generation")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Marks:
    """The labels and annotations by which an operator recognizes the children of a kind."""

    def __init__(
        self, manager: str, kind: Kind, *, foreign: bool = False, installation: str = ""
    ) -> None:
        #: Which installation of the operator this is: its Lease's namespace and name.
        self.manager, self.installation = manager, installation
        word = kind.kind.lower()
        prefix = kind.group
        if foreign:  # what has the group of others as its prefix is theirs to name
            prefix, word = manager, ".".join(filter(None, (word, kind.group)))
        if len(word) > _LONGEST_WORD:
            word = f"{word[: _LONGEST_WORD - 11]}-{short_hash(word)}"
        #: The label with the uid of the object that a child was created for.
        self.uid = f"{prefix}/{word}-uid"
        #: The annotation with the generation that it was created for.
        self.generation = f"{prefix}/{word}-generation"
        #: The annotation with the hash of the manifest that it was created from.
        self.template = f"{prefix}/template-hash"
        #: The annotation that counts replacements in quick succession.
        self.replaced = f"{prefix}/replacements"
        #: The annotation with the name of the object that a descendant, or a child without an owner
        #: reference, belongs to.
        self.name = f"{prefix}/{word}-name"
        #: The annotation with the installation of the operator that has written a child last.
        self.written_by = f"{prefix}/{INSTALLATION}"
        #: The annotation of an object that is paused.
        self.paused = f"{prefix}/paused"
        #: The finalizer of an object whose `finalize` has not been called yet.
        self.finalizer = f"{prefix}/{manager}"
        #: The label of an object of others' kind to which the operator has added something, and the
        #: annotation with the hash of that.
        self.served, self.contribution = f"{prefix}/{word}", f"{prefix}/{word}-contribution"

    @property
    def selector(self) -> str:
        """The label selector of the children."""
        return f"{MANAGED_BY}={self.manager},{self.uid}"

    def only(self, manifest: bytes) -> bytes:
        """Return a child's manifest reduced to what identifies it, its owner and the marks."""
        whole = msgspec.json.decode(manifest)
        meta = whole["metadata"]
        mine = {MANAGED_BY, self.uid, self.generation, self.template, self.name}
        kept = ("name", "namespace", "uid", "ownerReferences")
        metadata = {name: meta[name] for name in kept if name in meta}
        for part in ("labels", "annotations"):
            metadata[part] = {name: value for name, value in meta[part].items() if name in mine}
        return msgspec.json.encode(
            {"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": metadata}
        )

    def hand_over(self, owner: Owner, child: Child) -> str:
        """Return the commands that make an object a child of an owner, as a shell takes them."""
        kubectl = f"kubectl -n {child.key[0]}" if child.key[0] else "kubectl"
        of = f"{child.kind} {child.key[1]}"
        commands = [
            f"{kubectl} label {of} --overwrite {self.uid}={owner.uid}",
            f"{kubectl} annotate {of} --overwrite {self.name}={owner.key[1]}",
        ]
        if child.controller_uid and not child.retained:
            drop = '[{"op":"remove","path":"/metadata/ownerReferences"}]'
            commands.insert(0, f"{kubectl} patch {of} --type=json -p='{drop}'")
        return " && ".join(commands)

    def signed(self, annotations: dict[str, str]) -> dict[str, str]:
        """Return annotations with that of the installation."""
        return annotations | ({self.written_by: self.installation} if self.installation else {})

    def missing(self, labels: dict[str, str], uid: str) -> tuple[str, ...]:
        """Return the labels of every child that these lack, or have with other values."""
        wanted = {MANAGED_BY: self.manager, self.uid: uid}
        return tuple(label for label, value in wanted.items() if labels.get(label) != value)


class Templates:
    """The children that objects of one kind should have.

    With `pass_on`, objects created from a child's `spec.template` inherit its marks.
    """

    def __init__(
        self,
        kind: Kind,
        marks: Marks,
        owned: Sequence[Owned],
        desired: Desired,
        *,
        pass_on: bool = False,
        foreign: bool = False,
    ) -> None:
        self._kind, self._marks = kind, marks
        self._owned = {declared.kind: declared for declared in owned}
        self._desired = desired
        self._pass_on, self._clears = pass_on, not foreign
        # The manifests, the oldest first.
        self._kept: OrderedDict[tuple[Kind, Key, str], bytes] = OrderedDict()
        self._size = 0

    def plan(
        self, thing: Object, context: Context[Any] | None = None, needed: Wanted | None = None
    ) -> tuple[tuple[Wanted, ...], str | Wait]:
        """Return the wanted children of an object, or why they cannot be planned.

        The manifest of the one that is needed is kept even if there is no room for all.
        """
        try:
            return self.make(thing, context, needed), ""
        except PlanError as error:
            return (), str(error) or "the plan was refused without a reason"
        except Wait as wait:
            # Its traceback would keep the whole object and all manifests.
            return (), Wait(wait.reason, wait.message, wait.after)

    def make(
        self, thing: Object, context: Context[Any] | None = None, needed: Wanted | None = None
    ) -> tuple[Wanted, ...]:
        """Return the wanted children of an object; raise `PlanError` or `Wait`."""
        meta = thing.metadata
        try:
            if self._clears and isinstance(thing, Resource):  # its status does not plan again
                thing = replace(thing, status={})
            outlives = {kind: owned.outlives(thing) for kind, owned in self._owned.items()}
            desired = self._desired(thing, context)  # may be endless
            manifests = [
                self._manifest(child) for child in islice(_each(desired), MAX_CHILDREN + 1)
            ]
        except (PlanError, Wait):
            raise
        except Exception as error:
            logger.exception("The plan for %s/%s failed", *meta.key)
            why = f"{type(error).__name__}: {describe_error(error)}"
            raise PlanError(f"the plan failed: {why}"[:500]) from error
        if len(manifests) > MAX_CHILDREN:
            raise PlanError(
                f"the plan has more than {MAX_CHILDREN} children, the most that is allowed"
            )
        wanted: dict[tuple[Kind, Key], Wanted] = {}
        last: tuple[Wanted, bytes] | None = None
        for manifest in manifests:
            child, body = self._child(meta, manifest, outlives)
            if (child.kind, child.key) in wanted:
                raise PlanError(
                    f"the plan has two children {child.kind.kind} {child.key[1]}; give each child "
                    "a name of its own"
                )
            wanted[child.kind, child.key] = child
            self._keep(child, body)
            if needed is not None and (child.kind, child.key) == (needed.kind, needed.key):
                last = child, body
        if last is not None:
            self._keep(*last)  # the others may have pushed it out
        return tuple(wanted.values())

    def body(self, wanted: Wanted) -> bytes | None:
        """Return the manifest to send, or None if it was not kept."""
        return self._kept.get((wanted.kind, wanted.key, wanted.template))

    def forget(self, wanted: Wanted) -> None:
        """Drop a manifest that was sent; it is created again if it is needed."""
        self._size -= len(self._kept.pop((wanted.kind, wanted.key, wanted.template), b""))

    def _keep(self, wanted: Wanted, body: bytes) -> None:
        self.forget(wanted)
        self._kept[wanted.kind, wanted.key, wanted.template] = body
        self._size += len(body)
        while self._size > KEPT and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1])

    def _child(
        self, meta: ObjectMeta, manifest: Any, outlives: dict[Kind, bool]
    ) -> tuple[Wanted, bytes]:
        kind, key = self._check(meta, manifest)
        marks = self._marks
        if kind == SECRET:
            manifest = _encoded(manifest)
        if self._pass_on:
            manifest = self._passing_on(meta, manifest)
        given = manifest["metadata"]
        labels = {MANAGED_BY: marks.manager, marks.uid: meta.uid}
        annotations = given.get("annotations") or {}
        metadata = {**given, "labels": {**(given.get("labels") or {}), **labels}}
        if outlives[kind]:
            metadata.pop("ownerReferences", None)
            metadata["annotations"] = annotations = {**annotations, marks.name: meta.name}
        else:
            # Without blockOwnerDeletion: setting it takes the right to finalize the owner
            # (admission plugin OwnerReferencesPermissionEnforcement, which OpenShift enables).
            metadata["ownerReferences"] = [
                {
                    "apiVersion": self._kind.api_version,
                    "kind": self._kind.kind,
                    "name": meta.name,
                    "uid": meta.uid,
                    "controller": True,
                }
            ]
        if kind.namespaced:
            metadata["namespace"] = key[0]
        whole = {**manifest, "metadata": metadata}
        # Without the owner reference, whose version of the API may change; the label has the uid.
        hashed = {**whole, "metadata": {**metadata, "ownerReferences": None}}
        try:
            template = digest(msgspec.json.encode(hashed, order="sorted"))
            shape = fields.shape(hashed)
        except (TypeError, UnicodeError, msgspec.MsgspecError, RecursionError) as error:
            raise PlanError(f"{kind.kind} {key[1]} is not JSON: {error}") from error
        notes = {marks.generation: str(meta.generation), marks.template: template}
        metadata["annotations"] = marks.signed({**annotations, **notes})
        return Wanted(kind, key, template, shape, outlives[kind]), msgspec.json.encode(whole)

    def _passing_on(self, meta: ObjectMeta, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return a manifest whose `spec.template`, if it has one, has the marks."""
        match manifest:
            case {"spec": {"template": dict(template), **spec}, **rest}:
                given = template.get("metadata") or {}
                labels = {MANAGED_BY: self._marks.manager, self._marks.uid: meta.uid}
                metadata = {
                    **given,
                    "labels": {**(given.get("labels") or {}), **labels},
                    "annotations": {
                        **(given.get("annotations") or {}),
                        self._marks.name: meta.name,
                    },
                }
                return {**rest, "spec": {**spec, "template": {**template, "metadata": metadata}}}
        return manifest

    def _manifest(self, given: Any) -> Any:
        """Return what an author gives for a child as a manifest; raise `PlanError`."""
        manifest = models.manifest(given)
        if manifest is given or not isinstance(manifest, dict):
            return manifest
        if manifest.get("apiVersion") and manifest.get("kind"):
            return manifest
        kinds = (owned.kind for owned in self._owned.values() if owned.model is type(given))
        if (kind := next(kinds, None)) is None:
            raise PlanError(
                f"the plan has a {type(given).__name__} without its apiVersion and kind; set them, "
                "or pass the class to owns()"
            )
        return {**manifest, "apiVersion": kind.api_version, "kind": kind.kind}

    def _check(self, meta: ObjectMeta, manifest: Any) -> tuple[Kind, Key]:
        """Return a manifest's kind and key; raise `PlanError` if it cannot be a child."""
        if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
            raise PlanError(f"the plan has a {type(manifest).__name__} that is not a manifest")
        given = manifest["metadata"]
        gvk = manifest.get("apiVersion"), manifest.get("kind")
        kind = next((kind for kind in self._owned if (kind.api_version, kind.kind) == gvk), None)
        if kind is None:
            raise PlanError(
                f"the plan has a {gvk[1]} of {gvk[0]}, "
                "a kind that the operator does not own; declare it with owns()"
            )
        name = given.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PlanError(f"the plan has a {kind.kind} whose name {name!r:.80} is not valid")
        for part in ("labels", "annotations"):
            if not isinstance(given.get(part) or {}, dict):
                raise PlanError(f"the {part} of {kind.kind} {name} are not a mapping")
        return kind, (_namespace(meta, kind, given), name)


def _each(manifests: Iterable[T]) -> Iterator[T]:
    """Yield all manifests; raise `RuntimeError` if a `StopIteration` by mistake cuts them short.

    A function that `map` or `filter` calls may raise one, mostly by `next`; it looks like the end.
    """
    iterator = iter(manifests)
    while True:
        try:
            manifest = next(iterator)
        except StopIteration as end:
            raised = end.__traceback__ and end.__traceback__.tb_next
            # Only an iterator's own method may say that it ends; those written in C have no frame.
            if raised and raised.tb_frame.f_code.co_name != "__next__":
                raise RuntimeError(
                    "a function raised StopIteration; give next() a default"
                ) from end
            return
        yield manifest


def _encoded(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with its `stringData` as `data`, which is what the API server keeps.

    Who owns a field of `stringData`, or has changed it, is not known.
    """
    texts, rest = secret.get("stringData"), {k: v for k, v in secret.items() if k != "stringData"}
    try:
        data = {name: b64encode(text.encode()).decode() for name, text in (texts or {}).items()}
        return {**rest, "data": {**(secret.get("data") or {}), **data}} if data else secret
    except (AttributeError, TypeError, UnicodeError):
        return secret  # it is refused as it is


def _namespace(meta: ObjectMeta, kind: Kind, given: dict[str, Any]) -> str:
    """Return the namespace of a child; raise `PlanError` if it cannot have the one it names."""
    child, namespace = f"{kind.kind} {given['name']}", given.get("namespace") or meta.namespace
    if not kind.namespaced:
        return ""
    if not namespace:
        raise PlanError(f"the plan must say the namespace of {child}")
    if not isinstance(namespace, str) or not DNS_LABEL.fullmatch(namespace):
        raise PlanError(f"the namespace {namespace!r:.80} of {child} is not valid")
    if meta.namespace and namespace != meta.namespace:
        raise PlanError(
            f"{child} is planned for the namespace {namespace}; a child has the "
            f"namespace of its owner, {meta.namespace} (Kubernetes' garbage collector)"
        )
    return namespace


def short_hash(text: str) -> str:
    """Return a hash of a text as ten hexadecimal digits, for names and labels."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def digest(data: bytes) -> str:
    """Return a hash of a manifest."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
