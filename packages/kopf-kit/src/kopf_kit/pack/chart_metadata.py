"""What Chart.yaml says, of which the other chart, the image and the bundle say the same."""

from pathlib import Path
from typing import Any

import yaml

from kopf_kit.pack.project import PROJECT
from kopf_kit.rig.run import HackError


class _Said(dict[str, Any]):
    """The fields of a file that people write: one that is missing is told in a sentence."""

    def __init__(self, file: Path, where: str, fields: dict[str, Any] | None) -> None:
        super().__init__(fields or {})
        self._place = f"{file} has no `{where}"

    def __missing__(self, field: str) -> Any:
        raise HackError(f"{self._place}{field}`, which is shown to users; add it there")


def read(chart: Path = PROJECT.chart, written: Path = PROJECT.written_chart) -> dict[str, Any]:
    """Return what Chart.yaml says; asked for what is missing, it names the one that is written.

    It raises HackError then.
    """
    fields: dict[str, Any] = yaml.safe_load((chart / "Chart.yaml").read_text())
    file = written / "Chart.yaml"
    annotations = _Said(file, "annotations: ", fields.get("annotations"))
    return _Said(file, "", fields | {"annotations": annotations})
