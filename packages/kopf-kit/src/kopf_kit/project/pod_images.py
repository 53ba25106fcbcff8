"""Generates the flags, checks and values of the images that PROJECT lists, for a chart.

The operator's code declares each image as a setting, whose default becomes the chart's. Used by
`kopf_kit.crd.declared` and `kopf_kit.chart.templates`.
"""

import dataclasses
from collections.abc import Collection

from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT, Image
from kopf_kit.rig.run import KitError

_BY = "kopf_kit/project/pod_images.py of PROJECT"

_TEMPLATE = """\
{{{{- /* The flags of the images of the operator's Pods, and what cannot be such an image.
{header}*/}}}}
{{{{- define "{chart}.imageArguments" -}}}}
{flags}{{{{- end }}}}
{{{{- define "{chart}.validateImages" -}}}}
{checks}{{{{- end }}}}
"""

_VALUES = """\
{indent}# -- Registry of the {name} image; empty if the repository contains it
{indent}registry: {registry}
{indent}# -- Repository of the {name} image
{indent}# @schema {{minLength: 1}}
{indent}repository: {repository}
{indent}# -- Tag of the {name} image
{indent}# @schema tag
{indent}tag: "{tag}"
{indent}# -- Digest of the {name} image (sha256:…), which is pulled whatever the tag is
{indent}# @schema digest
{indent}digest: "{digest}"
"""


def template() -> str:
    """Return the chart's template `_images.tpl`."""
    chart, flags, checks = PROJECT.name, "", ""
    for image in PROJECT.images:
        given = f'"image" .Values.{image.values} "root" .'
        flags += f'- --{image.flag}={{{{ include "{chart}.image" (dict {given}) }}}}\n'
        check = f'include "{chart}.validateImage" (dict "value" "{image.values}" {given})'
        checks += f"{{{{- {check} }}}}\n"
    header = documents.header(_BY).strip("# ")
    return _TEMPLATE.format(chart=chart, header=header, flags=flags, checks=checks)


def values(written: Collection[str]) -> str:
    """Return the values of the images, except those under a key that the author has written."""
    blocks = []
    for image in PROJECT.images:
        first, *others = image.values.split(".")
        if first not in written:
            keys = [f"{'  ' * level}{key}:\n" for level, key in enumerate([first, *others])]
            blocks.append("".join(keys) + _values(image, "  " * len(keys)))
    return "\n".join(blocks)


def _values(image: Image, indent: str) -> str:
    """Return the values of an image: those that the operator has by default."""
    name, _, digest = _default(image).partition("@")
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.partition(":")
    return _VALUES.format(
        indent=indent,
        name=image.name,
        registry=registry,
        repository=repository,
        tag=tag,
        digest=digest,
    )


def _default(image: Image) -> str:
    """Return an image's default in the operator's code; raise KitError if it declares none."""
    field = image.flag.replace("-", "_")
    settings = PROJECT.declared("Settings")
    defaults = {attribute.name: attribute.default for attribute in dataclasses.fields(settings)}
    if field not in defaults:
        raise KitError(
            f"PROJECT lists the image {image.name}, but Settings in {PROJECT.manager} has no field "
            f"{field}; declare it as kr.flag(…, parse=kr.image), or take the image out of PROJECT"
        )
    return str(defaults[field])
