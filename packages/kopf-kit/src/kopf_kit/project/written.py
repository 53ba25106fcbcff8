"""The shapes of the files that people write, as far as the kit reads them.

`kopf_kit.rig.reading` checks a file against its shape, and names the field that has another one.
"""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict, Union

from msgspec import Meta, Struct

Texts = dict[str, str]
_Texts = Annotated[list[str], Meta(min_length=1)]


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


class _Labelled(TypedDict):
    labels: NotRequired[dict[str, str] | None]


class _Need(TypedDict):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: NotRequired[list[str] | None]


class _Selector(TypedDict):
    matchLabels: NotRequired[dict[str, str] | None]
    matchExpressions: NotRequired[list[_Need] | None]


class _Aggregation(TypedDict):
    clusterRoleSelectors: NotRequired[list[_Selector] | None]


class _Rule(TypedDict):
    verbs: _Texts
    apiGroups: NotRequired[list[str] | None]
    resources: NotRequired[list[str] | None]
    resourceNames: NotRequired[list[str] | None]
    nonResourceURLs: NotRequired[list[str] | None]


class Role(TypedDict):
    """A Role or a ClusterRole, which may have the rules of others."""

    metadata: _Labelled
    rules: NotRequired[list[_Rule] | None]
    aggregationRule: NotRequired[_Aggregation | None]


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
    displayName: NotRequired[str]


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


class _Script(TypedDict, total=False):
    reference: str
    callable: str


class Project(TypedDict):
    """The table `project` of a pyproject.toml, and what poetry has in its own."""

    name: NotRequired[str]
    description: NotRequired[str]
    urls: NotRequired[Texts]
    repository: NotRequired[str]
    homepage: NotRequired[str]
    scripts: NotRequired[dict[str, str | _Script]]
    dependencies: NotRequired[list[str]]


#: The name of a kind, as the API server takes it.
KindName = Annotated[str, Meta(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
_ModuleName = Annotated[str, Meta(pattern=r"^[\w-]+(\.[\w-]+)*$")]
_Home = Annotated[str, Meta(pattern=r"^https://[^/\s]+(/[^/\s]+){2,}$")]


class Adopted(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What PROJECT says of an operator on plain kopf, which is packaged as it is."""

    #: What `kopf run` runs.
    module: _ModuleName
    #: The version of the operator and of its chart.
    version: str
    #: The day of that version.
    created: str
    #: The operator's page, from which the names of its images are, too.
    home: _Home
    description: str
    crds: Annotated[tuple[str, ...], Meta(min_length=1)]
    samples: dict[KindName, str | tuple[str, ...]]
    #: What the image installs; without it, the repository's Dockerfile or its lock of uv's says so.
    requirements: str = ""
    #: Files with roles of what the handlers do beyond what kopf itself does, and their bindings.
    rights: str | tuple[str, ...] = ()
    #: The operator's ServiceAccount in these, if nothing there says which it is.
    account: str = ""
    #: What it watches unless its users say otherwise, as in the chart's values.
    watch_namespaces: tuple[str, ...] = ()
    #: The variables that its code reads, with their values.
    environment: dict[str, str] = {}
    #: How its image starts it, if not by `kopf run`.
    command: tuple[str, ...] = ()
    #: What its own way of being started listens on.
    ports: tuple[int, ...] = ()
    #: The folders beside /tmp that it writes to.
    temporary: tuple[Annotated[str, Meta(pattern=r"^/[^:]*$")], ...] = ()
    #: As whom it runs, if its own Dockerfile does not say so.
    user: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    #: Its own Dockerfile, if that is not in the repository's root.
    dockerfile: str = "Dockerfile"
    #: Whether it is packed for OLM, which cannot give each right where the author's roles do.
    olm: bool = True
    #: Breaking changes since the last release, as `verify` tells them, and why each hits nobody.
    accepted: dict[str, str] = {}
    registry_port: int = 0

    @property
    def package(self) -> str:
        """The Python package, or the one module, that the operator is."""
        return self.module.partition(".")[0]

    @property
    def roles(self) -> tuple[str, ...]:
        """The files of `rights`."""
        return (self.rights,) if isinstance(self.rights, str) else self.rights
