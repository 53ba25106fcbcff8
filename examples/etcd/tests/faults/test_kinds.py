"""What the API server says of the manifests that people write."""

from pathlib import Path

import pytest
import yaml
from kopf_kit.testing.cluster import RefusedError
from kopf_kit.testing.world import World

from tests.faults.test_operator import SUBJECTS

__all__ = ["SUBJECTS"]
PAGE = Path(__file__).parents[2] / "docs" / "classic.md"


async def test_the_classic_example_is_taken_unless_its_version_corrupts_data(here: World) -> None:
    _, _, rest = PAGE.read_text().partition("```yaml\n")
    manifest = yaml.safe_load(rest.partition("```")[0])

    taken = await here.cluster.ask("POST", f"{here.objects}?dryRun=All", manifest)
    manifest["spec"]["version"] = "3.5.0"
    with pytest.raises(RefusedError) as refusal:
        await here.cluster.ask("POST", f"{here.objects}?dryRun=All", manifest)

    assert (taken["metadata"]["name"], taken["spec"]["size"]) == ("example-etcd-cluster", 3)
    assert (
        "use etcd 3.5.11 or later: 3.5.0 to 3.5.2 may corrupt data, and other earlier versions "
        "lack what the operator needs"
    ) in str(refusal.value)
