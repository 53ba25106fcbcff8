"""Reads the file PROJECT: the operator's name, package, kinds and images.

The rest of `kopf_kit.project` and `kopf_kit.cli` take these from here and name no operator
themselves. The format is kubebuilder's. Data for which it has no field is under `plugins`, which
kubebuilder leaves alone: https://book.kubebuilder.io/reference/project-config
"""

import itertools
import os
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec

from kopf_kit.project import author_code
from kopf_kit.project.written import Adopted, KindName
from kopf_kit.rig import paths
from kopf_kit.rig.paths import PLAIN, PLUGIN, Label
from kopf_kit.rig.run import KitError
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.errors import DeclarationError

# The API server's limits: a DNS subdomain, the name of a kind, a version of an API.
_Domain = Annotated[
    str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$")
]
_Version = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
_Module = Annotated[str, msgspec.Meta(pattern=r"^[a-z_][a-z0-9_]*$")]
_Values = Annotated[str, msgspec.Meta(pattern=r"^\w+(\.\w+)*$")]


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind that the operator serves."""

    domain: _Domain
    kind: KindName
    plural: Label
    version: _Version
    group: str = ""
    controller: bool = False
    api: dict[str, str | bool] = {}

    @property
    def qualified_group(self) -> str:
        """The API group in full."""
        return ".".join(filter(None, (self.group, self.domain)))

    @property
    def crd(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.qualified_group}"

    def shown(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Return the version of a CRD that PROJECT names; raise KitError if it has none."""
        versions = {version["name"]: version for version in crd["spec"]["versions"]}
        if self.version not in versions:
            raise KitError(
                f"PROJECT: {self.kind} has the version {self.version}, and the operator's code "
                f"declares {', '.join(versions)}; name one of those"
            )
        if crd["spec"]["scope"] != (scope := "Namespaced" if self.namespaced else "Cluster"):
            raise KitError(
                f"PROJECT: {self.kind} has the scope {scope}, and the operator's code declares "
                f"{crd['spec']['scope']}; change `namespaced` in `api`"
            )
        texts: dict[str, Any] = versions[self.version]
        return texts

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        return bool(self.api.get("namespaced", True))

    @property
    def many(self) -> str:
        """The kind's plural for sentences: `Widgets` for the kind `Widget`."""
        lower = self.kind.lower()
        if self.plural.startswith(lower):
            return self.kind + self.plural.removeprefix(lower)
        return self.plural.capitalize()


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image of the Pods that the operator creates."""

    name: Label
    #: Its place in the chart's values.
    values: _Values
    #: The Debian packages from which it is built if no image registry can be reached; BusyBox is
    #: built in its own way.
    packages: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The operator's flag for it, without the dashes."""
        return f"{self.name}-image"

    @property
    def variable(self) -> str:
        """The variable that sets it for a release, such as WIDGET_IMG."""
        return f"{self._upper}_IMG"

    @property
    def related_variable(self) -> str:
        """The variable in the ClusterServiceVersion, in which tools that mirror images find it."""
        return f"RELATED_IMAGE_{self._upper}"

    @property
    def _upper(self) -> str:
        return self.name.upper().replace("-", "_")


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dashboard panel for a metric that only this operator has."""

    title: str
    description: str
    legend: str
    #: As in `kopf_kit.chart.dashboard`.
    query: str
    unit: str = "short"


class _Plugin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    package: _Module
    samples: dict[KindName, str | tuple[str, ...]]
    later_samples: tuple[str, ...] = ()
    manager: _Values = ""
    images: tuple[Image, ...] = ()
    panels: tuple[Panel, ...] = ()
    #: The folder of the generated files, if git has them.
    generated: Literal["", "."] = ""
    #: Breaking changes since the last release, as `verify` tells them, and why each hits nobody.
    accepted: dict[str, str] = {}
    #: Read by `kopf_kit.rig.paths`.
    registry_port: int = 0


class _Plugins(msgspec.Struct, frozen=True):
    own: _Plugin | None = msgspec.field(name=PLUGIN, default=None)
    adopted: Adopted | None = msgspec.field(name=PLAIN, default=None)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    domain: _Domain
    layout: tuple[str, ...]
    plugins: _Plugins
    project_name: Label
    resources: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)]
    #: Of the format.
    version: Literal["3"]
    #: The kit that wrote the repository: `kopf-kit new` sets it.
    cli_version: str = ""


class Project(msgspec.Struct, frozen=True):
    """An operator's repository, or a folder of one."""

    root: Path
    #: Also the name of the chart and of the OLM package, and the default name of a release.
    name: str
    domain: str
    #: The operator's Python package.
    package: str
    kinds: tuple[Kind, ...]
    images: tuple[Image, ...]
    #: Manifests of each kind, by the kind's name; the first is to try the operator with. A kind
    #: with which nobody should begin, such as one that replaces data, may have none.
    samples: dict[str, tuple[Path, ...]]
    #: Manifests of these kinds that only catalogs show, since they need what is there later.
    later_samples: tuple[Path, ...]
    #: The module that declares the operator, as `manager`.
    manager: str
    panels: tuple[Panel, ...] = ()
    #: `.` if git has the generated files.
    generated: str = ""
    #: Not for an operator on kopf-runtime.
    adopted: Adopted | None = None
    accepted: dict[str, str] = {}

    @property
    def base(self) -> Literal["runtime", "plain"]:
        """What it stands on: kopf-runtime or plain kopf. The texts of `reference/` ask for it."""
        return "plain" if self.adopted else "runtime"

    @property
    def converted(self) -> tuple[str, ...]:
        """The CRDs whose objects its code converts between versions, when the API server asks."""
        if self.adopted:
            return ()
        controllers = self.declared("manager").controllers
        try:
            return tuple(
                str(controller.kind)
                for controller in controllers
                if Versions.of(controller.declaration)
            )
        except DeclarationError as error:
            raise KitError(f"{self.manager}: {error}") from error

    @property
    def admission(self) -> tuple[Webhook, ...]:
        """The functions of its code that the API server asks before it stores an object."""
        try:
            return () if self.adopted else tuple(self.declared("manager").webhooks)
        except DeclarationError as error:
            raise KitError(f"{self.manager}: {error}") from error

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts it in its image; its flags follow."""
        if not self.adopted:
            return "python3", "-m", self.package
        if self.adopted.command:
            return self.adopted.command
        # glibc takes * for all addresses, of IPv4 and of IPv6; kopf takes nothing for localhost.
        run = "-m", "kopf", "run", "--standalone", "--liveness=http://*:8081/healthz"
        return "python3", *run, "-m", self.adopted.module

    @property
    def watched_variable(self) -> str:
        """The environment variable that OLM fills with the watched namespaces."""
        return "KOPF_RUN_NAMESPACES" if self.adopted else "WATCH_NAMESPACE"

    @property
    def install_modes(self) -> tuple[str, ...]:
        """What OLM may write there; kopf takes `a,b` for a pattern, which needs a ClusterRole."""
        several = () if self.adopted else ("MultiNamespace",)
        return "OwnNamespace", "SingleNamespace", *several, "AllNamespaces"

    @property
    def of_the_cluster(self) -> list[str]:
        """The kinds whose objects are in no namespace: it has to watch the whole cluster."""
        return [kind.kind for kind in self.kinds if not kind.namespaced]

    @property
    def built(self) -> Path:
        """The folder of the charts, the bundle and all else that is generated.

        It is the project's own folder if PROJECT says `generated: .`: then git has these files.
        Else it is below build/: `kopf_kit.project.nested` says what else is there.
        """
        if self.generated or paths.CHECKOUT not in (self.root, *self.root.parents):
            return self.root
        folder = self.root.relative_to(paths.CHECKOUT)
        return paths.BUILD / (folder if folder.parts else "generated")

    @property
    def chart(self) -> Path:
        """The folder of the chart."""
        return self.built / "charts" / self.name

    @property
    def written_chart(self) -> Path:
        """The folder of the chart's files that people write."""
        return self.root / "charts" / self.name

    @property
    def olm(self) -> Path:
        """The folder with what the bundle is generated from, beside the chart."""
        return self.built / "olm"

    @property
    def has_olm(self) -> bool:
        """Whether it is packed for OLM, too."""
        if self.adopted is None:
            return (self.root / "olm" / "csv.yaml").is_file()
        return self.adopted.olm

    @property
    def icon(self) -> Path:
        """The picture that catalogs show: the project's own, or else the one of all operators."""
        icon = self.root / "docs" / "icon.svg"
        return icon if icon.is_file() else paths.KIT / "reference" / "icon.svg"

    @property
    def deploy(self) -> Path:
        """The folder of the plain manifests, which git never has: a release has them."""
        return (self.root / "build" if self.built == self.root else self.built) / "deploy"

    @property
    def version(self) -> str:
        """The current version: `__version__` of the operator's package."""
        if self.adopted:
            return self.adopted.version
        version = author_code.value(self.package, "__version__", self.sources, self.root)
        if not isinstance(version, str):
            raise KitError(f"{self.version_file}: `__version__` must be a text such as 0.1.0")
        return version

    @property
    def version_file(self) -> Path:
        """Where the version is written."""
        return self.code if self.code.is_file() else self.code / "__init__.py"

    @property
    def code(self) -> Path:
        """The operator's package, or its one module."""
        module = self.sources / f"{self.package}.py"
        return module if module.is_file() else self.sources / self.package

    @property
    def sources(self) -> Path:
        """The folder that the operator's package, or its one module, is in."""
        return paths.sources(self.root, self.package)

    def module(self, name: str) -> ModuleType:
        """Return a module of the operator's; raise KitError where it cannot be imported."""
        return author_code.module(name, self.sources, self.root)

    def declared(self, name: str) -> Any:
        """Return what the module that declares the operator has under a name."""
        return author_code.value(self.manager, name, self.sources, self.root)

    @property
    def is_the_checkouts(self) -> bool:
        """Whether it is the operator of the repository itself, not of a folder of it."""
        return self.root == paths.CHECKOUT

    @property
    def option(self) -> str:
        """What to add to a command of `make` to select it; empty for the checkout's own."""
        if self.is_the_checkouts:
            return ""
        return f" PROJECT={self.root.relative_to(paths.CHECKOUT)}"

    @property
    def many(self) -> str:
        """The kinds in the plural, as sentences have them: `Widgets`."""
        return " and ".join(kind.many for kind in self.kinds)

    @property
    def metrics(self) -> str:
        """What the names of the operator's metrics begin with."""
        return self.name.replace("-", "_") + "_"

    @property
    def alerts(self) -> str:
        """What the names of the operator's alerts begin with."""
        return "".join(part.capitalize() for part in self.name.split("-"))

    @property
    def variables(self) -> str:
        """What the operator's environment variables begin with: kopf's or kopf_runtime's rule."""
        if self.adopted:
            return "KOPF_RUN_"
        return self.name.upper().replace("-", "_") + "_"

    @property
    def environment(self) -> tuple[str, ...]:
        """The prefixes of the environment variables that concern this operator."""
        return self.variables, *(image.variable for image in self.images)


def load(root: Path) -> Project:
    """Return what the file PROJECT in a folder says; raise KitError with what is wrong in it."""
    file = paths.read(root, _File)
    plugin, adopted = file.plugins.own, file.plugins.adopted
    if adopted:
        plugin = _Plugin(adopted.package, adopted.samples)
    if not plugin:
        raise KitError(
            f"{root / 'PROJECT'}: `plugins` is missing required field `{PLUGIN}`, or `{PLAIN}` for "
            "an operator on plain kopf"
        )
    project = Project(
        root=root,
        name=file.project_name,
        domain=file.domain,
        package=plugin.package,
        kinds=file.resources,
        images=plugin.images,
        samples={
            kind: tuple(root / name for name in ([named] if isinstance(named, str) else named))
            for kind, named in plugin.samples.items()
        },
        later_samples=tuple(root / name for name in plugin.later_samples),
        manager=plugin.manager or plugin.package,
        panels=plugin.panels,
        generated=plugin.generated,
        adopted=adopted,
        accepted=adopted.accepted if adopted else plugin.accepted,
    )
    _check(project, root / "PROJECT")
    return project


def _check(project: Project, path: Path) -> None:
    """Raise KitError where two fields of the file, or a field and the code, do not fit."""
    if not project.adopted and not project.version_file.is_file():
        raise KitError(
            f"{path}: package {project.package} is not in {project.sources}; `package` names the "
            "operator's Python package or module there"
        )
    words: dict[tuple[str, str], str] = {}
    for kind in project.kinds:
        for word in {kind.kind.lower(), kind.plural}:
            other = words.setdefault((kind.qualified_group, word), kind.kind)
            if other != kind.kind:
                raise KitError(f"{path}: both {other} and {kind.kind} are called {word}")
    kinds = {kind.kind for kind in project.kinds}
    if odd := sorted(kinds ^ project.samples.keys()):
        raise KitError(
            f"{path}: {', '.join(odd)} must be both a kind in `resources` and a key of `samples`"
        )
    if not project.samples[first := project.kinds[0].kind]:
        raise KitError(f"{path}: `samples` names no file of {first}, the first kind; name one")
    for sample in itertools.chain(*project.samples.values(), project.later_samples):
        if not sample.is_file():
            raise KitError(f"{path}: the sample {sample} does not exist; `samples` names files")


#: The one that is worked on: the checkout's own, or that of the folder which the variable names.
PROJECT = load(paths.CHECKOUT / os.environ.get("PROJECT", ""))
