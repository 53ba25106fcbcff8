"""Named sets of values: the chart's own scenarios, and every value set to something unusual."""

from typing import Any

from chart.helm import CHART
from chart.unusual import UNUSUAL
from kopf_kit.project import documents

#: The scenarios that tests/e2e installs, too.
CI: dict[str, dict[str, Any]] = {
    file.name.removesuffix("-values.yaml"): documents.load(file.read_text())
    for file in sorted((CHART / "ci").glob("*-values.yaml"))
}

SCENARIOS = CI | {"unusual": UNUSUAL}
