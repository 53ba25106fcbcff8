"""Generates the Dockerfile of an operator from the reference's, with the operator's own code.

Its build context is the checkout, because it copies the runtime from there.
"""

import re
from pathlib import Path

import yaml

from kopf_kit.pack import documents
from kopf_kit.pack.project import PROJECT, load
from kopf_kit.rig import paths

FILE = PROJECT.built / "Dockerfile"
#: The Dockerfile from which it is generated.
FORMER = paths.CHECKOUT / "Dockerfile"


def files() -> dict[Path, str]:
    """Return the text of the Dockerfile, by path; nothing for the checkout's own."""
    return {} if PROJECT.is_the_checkouts else {FILE: _dockerfile()}


def _dockerfile() -> str:
    text = FORMER.read_text()
    chart = yaml.safe_load((PROJECT.chart / "Chart.yaml").read_text())
    theirs = load(paths.CHECKOUT)
    code, former = PROJECT.code.relative_to(paths.CHECKOUT), theirs.code.name
    text = text.replace(
        f"COPY operator/{former} /source/operator/{former}\n",
        f"COPY {code} /source/operator/{code.name}\n",
    )
    text = text.replace(f'"{former}"]', f'"{PROJECT.package}"]')
    text = text.replace(f'image.title="{theirs.name}"', f'image.title="{PROJECT.name}"')
    text = re.sub(r'(image\.source)=".*"', rf'\1="{chart["home"]}"', text)
    text = re.sub(r'(image\.description)=".*"', rf'\1="{chart["description"]}"', text)
    by = f"kopf_kit/pack/dockerfile.py of {FORMER.relative_to(paths.CHECKOUT)}"
    return f"{documents.header(by)}{text}"
