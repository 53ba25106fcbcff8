"""Draws the picture from the data: `python -m bench.picture DATA.json PICTURE.png`.

`run` starts it with a separate Python that has the plotting library (pyproject.toml's group
`bench`).
"""

import hashlib
import io
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from PIL import Image, PngImagePlugin

mpl.use("agg")

from matplotlib import pyplot as plt

PANELS = (
    ("backlog_pod", "Backlog: start to last Pod", "s", 1),
    ("edit_pod", "Live edits: to last correct Pod", "s", 1),
    ("create_p50", "One create: to its Pod, p50", "ms", 1000),
    ("backlog_cpu", "Operator's CPU, backlog", "s", 1),
    ("rss_1000", "Memory, 1,000 Messages", "MB", 1),
    ("rss_10000", "Memory, 10,000 Messages", "MB", 1),
)
LABELS = {
    "ours": "message-operator",
    "controller-runtime-1": "controller-runtime, 1 worker",
    "controller-runtime-10": "controller-runtime, 10 workers",
    "kopf-tutorial": "kopf as in tutorials",
    "floor": "floor: bare client",
}
OURS, OTHERS = "#1f6feb", "#8c959f"


def draw(source: Path, target: Path) -> None:
    """Draw a panel for each measurement, with medians as bars and the spread as whiskers."""
    runs = json.loads(source.read_text())["runs"]
    figure, axes = plt.subplots(3, 2, figsize=(11, 8), layout="constrained")
    for axis, (name, title, unit, factor) in zip(axes.flat, PANELS, strict=True):
        found = {
            peer: [
                run["numbers"][name] * factor
                for run in runs
                if run["peer"] == peer and run["numbers"].get(name) is not None
            ]
            for peer in LABELS
        }
        shown = [peer for peer in LABELS if found[peer]]
        axis.set_visible(bool(shown))
        middles = [median(found[peer]) for peer in shown]
        spread = [
            [middle - min(found[peer]) for peer, middle in zip(shown, middles, strict=True)],
            [max(found[peer]) - middle for peer, middle in zip(shown, middles, strict=True)],
        ]
        bars = axis.barh(
            [LABELS[peer] for peer in shown],
            middles,
            xerr=spread,
            capsize=3,
            color=[OURS if peer == "ours" else OTHERS for peer in shown],
        )
        axis.bar_label(bars, fmt=lambda value: f"{value:,.3g}", padding=8, fontsize=9)
        axis.set_title(f"{title} ({unit}, less is better)", loc="left", fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, source, target)


def save(figure: Any, source: Path, target: Path) -> None:
    """Write a small PNG: few colours, and the digest of the data that it shows."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=90, format="png")
    facts = PngImagePlugin.PngInfo()
    facts.add_text("Source", f"sha256:{hashlib.sha256(source.read_bytes()).hexdigest()}")
    few = Image.open(picture).convert("RGB").quantize(32)
    few.save(target, optimize=True, pnginfo=facts)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
