"""The shapes of the files that people write, as far as the kit reads them.

`kopf_kit.rig.reading` checks a file against its shape, and names the field that has another one.
"""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict, Union

from msgspec import Meta

Texts = dict[str, str]
_Listed = Annotated[list[Any], Meta(min_length=1)]


class Named(TypedDict):
    """Metadata with a name."""

    name: str
    labels: NotRequired[Texts | None]
    annotations: NotRequired[Texts | None]


class Sample(TypedDict):
    """An object of a kind that the operator serves."""

    apiVersion: str
    kind: str
    metadata: Named
    spec: NotRequired[dict[str, Any] | None]


class Schema(TypedDict, total=False):
    """A part of the schema of a kind."""

    type: str
    description: str
    properties: dict[str, "Schema"]
    items: "Schema"
    additionalProperties: Union["Schema", bool]


class _Schema(TypedDict):
    openAPIV3Schema: Schema


class _Version(TypedDict):
    name: str
    served: bool
    storage: bool
    schema: _Schema
    subresources: NotRequired[dict[str, Any] | None]


class _Names(TypedDict):
    kind: str
    plural: str
    singular: NotRequired[str]
    shortNames: NotRequired[list[str]]


class _Spec(TypedDict):
    group: str
    names: _Names
    scope: Literal["Namespaced", "Cluster"]
    versions: Annotated[list[_Version], Meta(min_length=1)]


class Definition(TypedDict):
    """A CustomResourceDefinition."""

    apiVersion: Literal["apiextensions.k8s.io/v1"]
    kind: Literal["CustomResourceDefinition"]
    metadata: Named
    spec: _Spec


class Rule(TypedDict):
    """A rule of RBAC."""

    verbs: list[str]
    apiGroups: NotRequired[list[str]]
    resources: NotRequired[list[str]]
    resourceNames: NotRequired[list[str]]
    nonResourceURLs: NotRequired[list[str]]


class Role(TypedDict):
    """A Role or a ClusterRole."""

    kind: Literal["Role", "ClusterRole"]
    rules: Annotated[list[Rule], Meta(min_length=1)]


class _Maintainer(TypedDict):
    name: str


class Chart(TypedDict, total=False):
    """Chart.yaml."""

    name: str
    description: str
    version: str
    home: Required[Annotated[str, Meta(pattern="^https?://[^/]+/[^/]+")]]
    kubeVersion: Annotated[str, Meta(pattern=r"^>=\d+\.\d+\.\d+-0$")]
    keywords: list[str]
    maintainers: list[_Maintainer]
    annotations: Texts | None


class _Descriptor(TypedDict):
    path: str
    displayName: str


class _Described(TypedDict, total=False):
    resources: list[dict[str, Any]]
    status: dict[str, Any]
    specDescriptors: list[_Descriptor]
    statusDescriptors: list[_Descriptor]


class _Annotated(TypedDict):
    annotations: Texts


class ServiceVersion(TypedDict):
    """olm/csv.yaml."""

    metadata: _Annotated
    spec: dict[str, Any]
    kinds: NotRequired[dict[str, _Described]]
    reviewers: NotRequired[list[str] | None]


class Record(TypedDict):
    """The record of a release in a catalog."""

    image: str


class _Title(TypedDict):
    name: str
    displayName: str


#: What Chart.yaml has as a text: the kinds and the links.
Titles = list[_Title]
Links = list[Texts]


class Project(TypedDict):
    """The table `project` of a pyproject.toml."""

    name: NotRequired[str]
    description: NotRequired[str]
    urls: NotRequired[Texts]
    dependencies: NotRequired[list[str]]
