"""What the chart and the bundle show of Chart.yaml: a field that is missing is told."""

import functools
import operator
from pathlib import Path

import pytest

from kopf_kit.chart import templates
from kopf_kit.rig.run import KitError


@pytest.mark.parametrize(
    ("text", "keys", "sentence"),
    [
        ("name: cache", ["keywords"], "charts/a/Chart.yaml has no `keywords`, which is shown"),
        ("annotations: {}", ["annotations", "links"], "has no `annotations: links`, which"),
        ("name: cache", ["annotations", "links"], "has no `annotations: links`, which"),
    ],
)
def test_what_is_missing_is_one_sentence(
    text: str, keys: list[str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "Chart.yaml").write_text(text)
    said = templates.read(tmp_path, Path("charts", "a"))

    with pytest.raises(KitError, match=sentence):
        functools.reduce(operator.getitem, keys, said)


def test_what_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("{keywords: [a], annotations: {links: here}}")

    said = templates.read(tmp_path)

    assert (said["keywords"], said["annotations"]["links"]) == (["a"], "here")
