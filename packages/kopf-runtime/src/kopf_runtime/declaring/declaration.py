"""What an author declares about a kind, except its fields: names, columns, rules and scale.

`custom_resource` attaches it to a class. `manager` serves the kind that the class declares, and
`kopf_kit.crd` generates its CustomResourceDefinition. Types and `msgspec.Meta` declare the fields,
and decoding enforces them too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from kopf_runtime.declaring import parsers
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import Resource

_ATTRIBUTE = "__custom_resource__"
#: Letters of a kind's name: in lower case, it must be a DNS label.
MAX_KIND_LENGTH = 63

#: The name of an object, such as a Pod or a Node, for a field of a spec or a status. So nobody who
#: may patch a status can write something there that a program would take for an option.
ObjectName = Annotated[str, Meta(max_length=253, pattern=f"^{parsers.SUBDOMAIN_PATTERN}$")]

_DECIMAL = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
#: An amount in Kubernetes' notation, such as 8Gi or 500m, for the size of a volume; not negative.
Quantity = (
    Annotated[int, Meta(ge=0)]
    | Annotated[
        str,
        Meta(max_length=64, pattern=f"^{_DECIMAL}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_DECIMAL})?$"),
    ]
)


class Fields(Struct, rename="camel", frozen=True):
    """Fields of an object; they are written in camelCase in the API.

    Derive from it with `frozen=True`: an instance may then be a default.
    """


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A validation `rule` in CEL, which the API server enforces.

    `message` says what is wrong and what to do; the API server returns it when it rejects an
    object. `field_path` is the wrong field, such as `.metadata.name`, if the rule has another one.
    """

    rule: str
    message: str
    field_path: str = ""

    def schema(self) -> dict[str, str]:
        """Return the rule in the form of a schema."""
        # The API server does not keep an empty text, and the CRD would differ from what is stored.
        more = {"fieldPath": self.field_path, "message": self.message}
        return {"rule": self.rule, **{key: text for key, text in more.items() if text}}


def validations(*rules: ValidationRule) -> dict[str, Any]:
    """Return the rules of a field, for `msgspec.Meta(extra_json_schema=kr.validations(…))`."""
    return {"x-kubernetes-validations": [rule.schema() for rule in rules]}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that `kubectl get` prints; it has the type of its field.

    `name` is its title, and `description` is for `kubectl explain`. `path` is the JSONPath of the
    field, such as `.spec.size`; a list is printed as JSON. A condition has a path such as
    `.status.conditions[?(@.type=="Sealed")].status`. Only `--output=wide` shows a `wide` column.
    """

    name: str
    path: str
    description: str = ""
    wide: bool = False


#: A column: whether an object is ready; its description comes from the declaration.
READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
#: A column: why it is or is not; its description comes from the declaration, too.
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', wide=True)
#: A column: how long ago an object was created.
AGE = Column("Age", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class Scale:
    """The fields that `kubectl scale` and autoscalers read and write, such as `.spec.size`.

    `spec_replicas_path` and `status_replicas_path` are numbers; `label_selector_path` is the label
    selector of the Pods, in the status, which autoscalers need.
    """

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True)
class CustomResource:
    """An author's declaration of a kind."""

    kind: Kind
    resource: type[Resource]
    #: The fields of the status besides conditions and observedGeneration, or None.
    status: type[Struct] | None
    #: When the condition Ready is true.
    ready: str
    short_names: Sequence[str]
    categories: Sequence[str]
    printer_columns: Sequence[Column]
    validations: Sequence[ValidationRule]
    scale: Scale | None
    #: Describes `metadata.name`.
    naming: str
    #: Whether this version can be read and written, and whether objects are stored in it.
    served: bool = True
    storage: bool = False


T = TypeVar("T", bound=Resource)


def custom_resource(
    group: str,
    version: str,
    plural: str,
    *,
    namespaced: bool = True,
    status: type[Struct] | None = None,
    ready: str = "all of its objects are there",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    printer_columns: Sequence[Column] = (READY, AGE),
    validations: Sequence[ValidationRule] = (),
    scale: Scale | None = None,
    naming: str = "",
    kind: str = "",
    served: bool = True,
    storage: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Declare a class as the kind of the same name; its docstring describes the kind.

    The parameters that have the name of a field of a CustomResourceDefinition mean the same;
    `status` is the class of the author's fields of the status, and `scale` the subresource. `ready`
    says when the condition Ready is true ("The condition Ready is True while …"), `naming`
    describes `metadata.name`, and `validations` apply to the whole object. A kind of several
    versions has a class for each, between which `Controller.convert` leads: `kind` is then the name
    of the kind where the class has another, `served=False` takes a version out of use, and
    `storage=True` says in which one objects are stored. Raise `ValueError` if the name is too long.
    """

    def declare(type_: type[T]) -> type[T]:
        name = kind or type_.__name__
        if not issubclass(type_, Resource):
            raise TypeError(
                f"{type_.__name__} is no kind: write class {type_.__name__}(kr.Resource)"
            )
        if len(name) > MAX_KIND_LENGTH:
            raise ValueError(f"{name} is too long a name; use at most {MAX_KIND_LENGTH} letters")
        declared = CustomResource(
            Kind(group, version, plural, name, namespaced),
            type_,
            status,
            ready,
            short_names,
            categories,
            printer_columns,
            validations,
            scale,
            naming,
            served,
            storage,
        )
        setattr(type_, _ATTRIBUTE, declared)
        return type_

    return declare


def declared(type_: type[Resource]) -> CustomResource:
    """Return the declaration of a class; raise `TypeError` if it has none."""
    declaration = vars(type_).get(_ATTRIBUTE)
    if not isinstance(declaration, CustomResource):
        raise TypeError(
            f"{type_.__name__} is not declared as a kind; put "
            "@kr.custom_resource(group, version, plural) above the class"
        )
    return declaration
