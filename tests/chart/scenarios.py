"""Named sets of values: those of the chart's own folder, and every value of any chart changed."""

from typing import Any

from chart.helm import CHART
from chart.unusual import REFERENCE
from kopf_kit.project import documents

#: The scenarios that tests/e2e installs, too.
CI: dict[str, dict[str, Any]] = {
    file.name.removesuffix("-values.yaml"): documents.load(file.read_text())
    for file in sorted((CHART / "ci").glob("*-values.yaml"))
}
SCENARIOS = CI | {"unusual": REFERENCE}
