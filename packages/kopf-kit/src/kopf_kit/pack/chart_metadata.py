"""The fields of Chart.yaml, which the other chart, the image and the bundle repeat."""

from pathlib import Path
from typing import Any, TypeVar

from kopf_kit.pack import written
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import HackError

_Listed = TypeVar("_Listed")


class _Said(dict[str, Any]):
    """The fields of a file that people write; a field that is missing raises HackError."""

    def __init__(self, file: Path, where: str, fields: dict[str, Any] | None) -> None:
        super().__init__(fields or {})
        self._place = f"{file} has no `{where}"

    def __missing__(self, field: str) -> Any:
        raise HackError(f"{self._place}{field}`, which is shown to users; add it there")


def read(chart: Path = PROJECT.chart, folder: Path = PROJECT.written_chart) -> dict[str, Any]:
    """Return the fields of Chart.yaml.

    Access to a field that is missing raises HackError, which names the file that people write.
    """
    fields = reading.document(chart / "Chart.yaml", written.Chart)
    file = folder / "Chart.yaml"
    annotations = _Said(file, "annotations: ", fields.get("annotations"))
    return _Said(file, "", {**fields, "annotations": annotations})


def listed(annotation: str, shape: type[_Listed]) -> _Listed:
    """Return what an annotation of Artifact Hub lists; raise HackError if it has another shape."""
    name = f"artifacthub.io/{annotation}"
    place = f"{PROJECT.written_chart / 'Chart.yaml'}: {name}"
    return reading.shaped(reading.load(read()["annotations"][name], place), shape, place)
