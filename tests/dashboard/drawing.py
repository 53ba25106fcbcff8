"""Draws the dashboard's picture: `python -m tests.dashboard.drawing DATA.json PICTURE.png`.

`test_dashboard` starts it with a separate Python that has the plotting library
(pyproject.toml's group `bench`). The panels are placed as Grafana places them.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.picture import save

mpl.rcParams["font.size"] = 8

GRID = 24  # columns of Grafana's grid
UNITS = {"short": "", "s": "s", "ops": "in a second", "reqps": "in a second", "bytes": "MiB"}


def draw(source: Path, target: Path) -> None:
    """Draw the rows of the dashboard below each other."""
    data = json.loads(source.read_text())
    rows = [(row["title"], list(_lines(row["panels"]))) for row in data["rows"]]
    heights = [len(lines) for _, lines in rows]
    figure = plt.figure(figsize=(11, 1.9 * sum(heights)), layout="constrained")
    for part, (title, lines) in zip(
        figure.subfigures(len(rows), 1, height_ratios=heights), rows, strict=True
    ):
        part.suptitle(title, x=0.01, ha="left", weight="bold", size=10)
        grid = part.add_gridspec(len(lines), GRID)
        for number, line in enumerate(lines):
            left = 0
            for panel in line:
                axis = part.add_subplot(grid[number, left : left + panel["width"]])
                left += panel["width"]
                axis.set_title(_heading(panel), loc="left", size=8.5, pad=12)
                (_stat if panel["kind"] == "stat" else _curves)(axis, panel, data["faults"])
    save(figure, source, target)


def _lines(panels: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Return the panels line by line: a panel that does not fit begins a new one."""
    line: list[dict[str, Any]] = []
    for panel in panels:
        if line and sum(placed["width"] for placed in (*line, panel)) > GRID:
            yield line
            line = []
        line.append(panel)
    yield line


def _heading(panel: dict[str, Any]) -> str:
    unit = UNITS[panel["unit"]]
    return f"{panel['title']} ({unit})" if unit else str(panel["title"])


def _stat(axis: Any, panel: dict[str, Any], _: Any) -> None:
    """Write the last values, each with its legend."""
    axis.axis("off")
    for number, series in enumerate(panel["series"]):
        value = f"{series['points'][-1][1]:g}"
        axis.text(0.0, 0.55 - number * 0.4, value, size=22, color="#1f6feb")
        axis.text(0.2, 0.6 - number * 0.4, series["legend"], size=8, color="#57606a")


def _curves(axis: Any, panel: dict[str, Any], faults: list[float]) -> None:
    """Draw each series over the minutes of the run, with a number where each fault began."""
    factor = 2**20 if panel["unit"] == "bytes" else 1
    for series in panel["series"]:
        whole = [point for point in series["points"] if not math.isnan(point[1])]
        minutes = [minute for minute, _ in whole]
        axis.plot(minutes, [value / factor for _, value in whole], label=series["legend"], lw=1)
    for number, minute in enumerate(faults, 1):
        axis.axvline(minute, color="#8c959f", lw=0.8, ls=":")
        axis.annotate(
            str(number),
            (minute, 1),
            xycoords=("data", "axes fraction"),
            size=6.5,
            color="#57606a",
            ha="center",
            va="bottom",
        )
    axis.set_ylim(0, axis.get_ylim()[1] * 1.35)  # with room for the legend
    axis.spines[["top", "right"]].set_visible(False)
    small = len(panel["series"]) > 6
    axis.legend(
        fontsize=4.5 if small else 6, frameon=False, loc="upper left", ncols=3 if small else 2
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
