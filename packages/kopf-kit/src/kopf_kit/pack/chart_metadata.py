"""The fields of Chart.yaml, which the other chart, the image and the bundle repeat."""

from pathlib import Path
from typing import Any

from kopf_kit.pack import documents
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig.run import HackError


class _Said(dict[str, Any]):
    """The fields of a file that people write; a field that is missing raises HackError."""

    def __init__(self, file: Path, where: str, fields: dict[str, Any] | None) -> None:
        super().__init__(fields or {})
        self._place = f"{file} has no `{where}"

    def __missing__(self, field: str) -> Any:
        raise HackError(f"{self._place}{field}`, which is shown to users; add it there")


def read(chart: Path = PROJECT.chart, written: Path = PROJECT.written_chart) -> dict[str, Any]:
    """Return the fields of Chart.yaml.

    Access to a field that is missing raises HackError, which names the file that people write.
    """
    fields: dict[str, Any] = documents.load((chart / "Chart.yaml").read_text())
    file = written / "Chart.yaml"
    annotations = _Said(file, "annotations: ", fields.get("annotations"))
    return _Said(file, "", fields | {"annotations": annotations})
