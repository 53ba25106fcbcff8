"""What the conformance suite has to know of each adopted operator: PROJECT says most of it."""

from pathlib import Path

import yaml

from kopf_kit.testing.api_server import granted
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Plain

HERE = Path(__file__).parent
(PROJECT,) = yaml.safe_load((HERE / "PROJECT").read_text())["plugins"].values()
SAMPLE: Raw = yaml.safe_load((HERE / "sample.yaml").read_text())["spec"]
_EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
# Why tests fail, where several operators have it in common.
ONE = "it elects no leader, so there can be only one replica"
LOST = "nothing watches the children, so a lost one stays lost"
ALTERED = "nothing watches the children, so an altered one stays altered"
NO_RESYNC = "kopf does not list again by itself"
SILENT = "if no response comes, the client waits forever"
REFUSED = "a write of kopf's own, such as that of its finalizer, is refused, and not sent again"
CREDENTIALS = "kopf ends when its only credentials are refused"
#: The tests of leader election.
REPLICAS = (
    "test_the_standby_is_ready_and_writes_nothing",
    "test_the_leader_ends_and_the_other_goes_on",
    "test_the_leader_is_killed_after_a_write_and_the_other_takes_over",
    "test_the_leader_is_frozen_and_thawed",
    "test_a_thawed_leader_sends_nothing_more",
    "test_the_leader_is_frozen_for_a_minute",
    "test_the_leader_is_cut_off_and_stops_before_the_other_begins",
    "test_the_clocks_are_moved_by_an_hour",
    "test_the_lease_is_stolen_and_comes_back",
    "test_the_lease_is_deleted",
)


class Released(Plain):
    """An operator as it was released, in its own Python, with a spec like that of our sample."""

    program = (str(HERE / ".venv" / "bin" / "python"), "-m", "kopf")
    module = PROJECT["module"]
    crds = tuple(HERE / crd for crd in PROJECT["crds"])
    patience = 100.0  # seconds; kopf tries again after a minute

    def manifest(self, text: str, name: str) -> Raw:
        manifest = super().manifest(text, name)
        return {**manifest, "spec": {**SAMPLE, **manifest["spec"]}}

    def install(self) -> list[Raw]:
        """Return the CRDs, and a role with all rights: the suite is about faults."""
        return [*super().install(), *granted("released", [_EVERYTHING], self.user, None)]

    def rights(self, namespace: str | None) -> list[Raw]:
        return []
