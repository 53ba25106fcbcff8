"""What PROJECT says of an operator on plain kopf; `kopf_kit.project.definition` reads it."""

from typing import Annotated

import msgspec

#: The name of a kind, as the API server takes it.
KindName = Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
_ModuleName = Annotated[str, msgspec.Meta(pattern=r"^[\w-]+(\.[\w-]+)*$")]
_Home = Annotated[str, msgspec.Meta(pattern=r"^https://[^/\s]+(/[^/\s]+){2,}$")]


class Adopted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
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
    crds: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    samples: dict[KindName, str | tuple[str, ...]]
    #: What the image installs; without it, the repository's Dockerfile or its lock of uv's says so.
    requirements: str = ""
    #: Files with roles of what the handlers do beyond what kopf itself does, and their bindings.
    rights: str | tuple[str, ...] = ()
    #: What it watches unless its users say otherwise, as in the chart's values.
    watch_namespaces: tuple[str, ...] = ()
    #: The variables that its code reads, with their values.
    environment: dict[str, str] = {}
    #: How its image starts it, if not by `kopf run`.
    command: tuple[str, ...] = ()
    #: What its own way of being started listens on.
    ports: tuple[int, ...] = ()
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
