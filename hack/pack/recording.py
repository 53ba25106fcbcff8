"""A recording of a terminal as an SVG picture that moves by CSS alone, with no script in it.

`make recording` draws the demo with it. GitHub shows such a picture in a page, and so does every
browser. With reduced motion, it shows the last screen at rest. The best-known program for this,
svg-term-cli, seems abandoned: its issue 96 asks so since 2023, without an answer of its author.
Films and GIFs have no text that can be read out, searched or compared.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

#: The size of the screen, in lines, and in units of the picture.
_ROWS, _WIDTH, _LINE, _MARGIN, _BAR = 24, 1050, 19, 16, 30
_HEIGHT = _BAR + _ROWS * _LINE + _MARGIN
#: Seconds that a frame stays: a reader can follow, and nobody waits for a cluster.
_SHORTEST, _LONGEST, _LAST = 0.7, 2.5, 10.0
#: Lines that come within so many seconds are one frame.
_TOGETHER = 0.1


@dataclass(frozen=True)
class Line:
    """A line, and the seconds from the start until it was printed."""

    at: float
    text: str


def draw(title: str, lines: Sequence[Line]) -> str:
    """Return the picture of what was printed."""
    frames = list(_frames(lines))
    begins = list(_begins(frames))
    whole = begins[-1] + _LAST
    moves, texts, above = [], [], 0
    for number, (frame, begin) in enumerate(zip(frames, begins, strict=True)):
        top = max(0, above + len(frame) - _ROWS) * _LINE
        share = f"{begin / whole:.2%}"
        moves.append(f"{share} {{ transform: translateY(-{top}px) }}")
        texts.append(f'<g style="animation-name: f{number}">')
        texts += [_text(above + row, line.text) for row, line in enumerate(frame) if line.text]
        texts.append("</g>")
        if number:
            texts.append(f"<style>@keyframes f{number} {{ 0% {{ opacity: 0 }} "
                         f"{share} {{ opacity: 1 }} }}</style>")  # fmt: skip
        above += len(frame)
    top = max(0, above - _ROWS) * _LINE
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">
<title>{escape(title)}</title>
<style>
.window {{ fill: #0f172a }}
text {{ font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #cbd5e1; \
white-space: pre }}
.typed {{ fill: #fff; font-weight: bold }}
.step {{ fill: #7dd3fc }}
.screen {{ transform: translateY(-{top}px) }}
.screen, .screen g {{ animation: {whole:.1f}s step-end infinite }}
.screen {{ animation-name: scroll }}
@keyframes scroll {{ {" ".join(moves)} }}
@media (prefers-reduced-motion: reduce) {{ .screen, .screen g {{ animation: none }} }}
</style>
<rect class="window" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>
<circle cx="20" cy="16" r="6" fill="#f87171"/>
<circle cx="40" cy="16" r="6" fill="#fbbf24"/>
<circle cx="60" cy="16" r="6" fill="#4ade80"/>
<svg y="{_BAR}" width="{_WIDTH}" height="{_ROWS * _LINE}">
<g class="screen">
{chr(10).join(texts)}
</g>
</svg>
</svg>
"""


def _frames(lines: Sequence[Line]) -> Iterator[list[Line]]:
    frame: list[Line] = []
    for line in lines:
        if frame and (line.at - frame[-1].at > _TOGETHER or line.text.startswith("$ ")):
            yield frame
            frame = []
        frame.append(line)
    yield frame


def _begins(frames: Sequence[list[Line]]) -> Iterator[float]:
    """Return when each frame begins, in the picture."""
    now = 0.0
    yield now
    for former, frame in itertools.pairwise(frames):
        now += min(max(frame[0].at - former[-1].at, _SHORTEST), _LONGEST)
        yield now


def _text(row: int, text: str) -> str:
    kind = {"$ ": ' class="typed"', "==": ' class="step"'}.get(text[:2], "")
    place = f'x="{_MARGIN}" y="{row * _LINE + 14}"'
    return f'<text {place}{kind} xml:space="preserve">{escape(text, quote=False)}</text>'
