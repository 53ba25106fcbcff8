"""A recording as a picture: it can be read without moving, and loads nothing."""

import re
from xml.etree import ElementTree

from hack.pack import recording
from hack.pack.recording import Line

SVG = "{http://www.w3.org/2000/svg}"
DEMO = (
    Line(0.0, "$ make demo"),
    Line(30.0, "==> kind cluster"),
    Line(30.5, '$ kubectl patch message hello -p \'{"a": "<&>"}\''),
    Line(30.55, "patched"),
    *(Line(31.0, f"line {number}") for number in range(40)),
)


def drawn() -> str:
    return recording.draw("A <demo>", DEMO)


def test_every_line_is_in_the_picture_as_text() -> None:
    picture = ElementTree.fromstring(drawn())  # noqa: S314 (our own)

    shown = [text.text for text in picture.iter(f"{SVG}text")]
    assert shown == [line.text for line in DEMO]
    assert picture.findtext(f"{SVG}title") == "A <demo>"


def test_a_picture_has_no_script_and_loads_nothing() -> None:
    picture = ElementTree.fromstring(drawn())  # noqa: S314 (our own)

    assert {part.tag.removeprefix(SVG) for part in picture.iter()} == {
        "svg", "title", "style", "rect", "circle", "g", "text"
    }  # fmt: skip
    assert not [name for part in picture.iter() for name in part.attrib if "href" in name]
    assert "url(" not in drawn()
    assert "@import" not in drawn()


def test_who_asks_for_reduced_motion_sees_the_last_lines_at_rest() -> None:
    rest = re.search(r"\.screen { transform: translateY\(-(\d+)px\) }", drawn())
    moves = re.findall(r"translateY\(-(\d+)px\)", drawn())

    assert rest is not None
    assert rest[1] == moves[-1] == str((len(DEMO) - 24) * 19)
    assert "@media (prefers-reduced-motion: reduce) { .screen, .screen g { animation: none } }" in (
        drawn()
    )


def test_only_the_waiting_is_shortened() -> None:
    """Half a minute for a cluster becomes seconds; what comes at once can still be read."""
    (whole,) = re.findall(r"animation: ([\d.]+)s", drawn())
    begins = [float(share) / 100 * float(whole)
              for share in re.findall(r"([\d.]+)% { opacity: 1 }", drawn())]  # fmt: skip
    stays = [after - before for before, after in zip([0.0, *begins], begins, strict=False)]

    assert [round(seconds, 1) for seconds in stays] == [2.5, 0.7, 0.7]
