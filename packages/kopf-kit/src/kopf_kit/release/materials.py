"""Bills of materials, in CycloneDX, of what an image holds.

The same image gives the same text. Used by `kopf_kit.release.files` and
`signatures`.
"""

import re
import tarfile
import uuid
from collections.abc import Iterable
from datetime import datetime
from email.message import Message
from email.parser import Parser
from pathlib import Path

from kopf_kit.rig.run import KitError

try:
    from cyclonedx.factory.license import LicenseFactory
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import License
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL
except ModuleNotFoundError as error:
    raise KitError(
        f"a release needs {error.name}, which is not installed; install kopf-kit[release]"
    ) from error

#: Where Debian keeps what is installed; an image without `dpkg` has a file for each package.
_DPKG = re.compile(r"^(?:\./)?var/lib/dpkg/(?:status|status\.d/[^/]+)$")
_WHEEL = re.compile(r"\.dist-info/METADATA$")
_TEXT = 100  # characters: some packages give the whole text of their licence as its name


def of_image(exported: Path, subject: Component, date: datetime) -> str:
    """Return the materials of an image, given as the tar archive of its files.

    They are the packages that Debian's files and the wheels' say are installed.
    """
    components: dict[str, Component] = {}
    with tarfile.open(exported) as files:
        for entry in files:
            kind = _DPKG.search(entry.name) or _WHEEL.search(entry.name)
            if kind is None or (content := files.extractfile(entry)) is None:
                continue
            text = content.read().decode(errors="replace")
            for component in _packages(text) if kind.re is _DPKG else [_wheel(text)]:
                components[str(component.bom_ref.value)] = component
    return _text(subject, components.values(), date)


def subject(name: str, version: str, purl: str) -> Component:
    """Return the subject of a bill of materials."""
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        purl=PackageURL.from_string(purl),
        bom_ref=purl,
    )


def _packages(text: str) -> Iterable[Component]:
    """Yield Debian's packages, of its file of them all or of one."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        fields = Parser().parsestr(paragraph)
        if fields["Package"] and "deinstall" not in (fields["Status"] or ""):
            qualifiers = {"arch": fields["Architecture"] or "all"}
            yield _component(
                PackageURL("deb", "debian", fields["Package"], fields["Version"], qualifiers)
            )


def _wheel(text: str) -> Component:
    fields = Parser().parsestr(text)
    return _component(PackageURL("pypi", None, fields["Name"].lower(), fields["Version"]), fields)


def _component(purl: PackageURL, says: Message | None = None) -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[_licence(says)] if says else (),
    )


def _licence(says: Message) -> License:
    """Return a package's licence, as an expression of SPDX where it has one."""
    if expression := says["License-Expression"]:
        return LicenseFactory().make_with_expression(expression)
    if (name := says["License"]) and len(name) < _TEXT:
        return LicenseFactory().make_from_string(name)
    classified = [
        value.rpartition(" :: ")[2]
        for value in says.get_all("Classifier", [])
        if value.startswith("License :: ")
    ]
    return LicenseFactory().make_with_name(", ".join(classified) or "unknown")


def _text(subject: Component, components: Iterable[Component], date: datetime) -> str:
    purl = str(subject.purl)
    bom = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, purl),
        metadata=BomMetaData(component=subject, timestamp=date),
    )
    bom.register_dependency(subject, bom.components)
    return str(JsonV1Dot6(bom).output_as_string(indent=2)) + "\n"
