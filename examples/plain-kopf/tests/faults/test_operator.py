"""kopf-kit's conformance suite over the operator in main.py, and what it is known to fail."""

from pathlib import Path
from typing import ClassVar

from kopf_kit.testing import Kind, Plain
from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403

FOLDER = Path(__file__).parents[2]
_TWICE = "the Pod already exists, so each attempt to create it is refused (409)"
_SILENT = "no response comes, and the client waits forever"
_AGAIN = "so each further attempt to create it is refused (409)"
_FAULTS = f"a response is lost although the Pod was created, {_AGAIN}; or {_SILENT}"
_REFUSED = "the API server refuses kopf's own annotation (409), and kopf does not write it again"
_EDITED = f"{_SILENT}; or {_REFUSED}"
_LOST = "no handler watches the Pods, so a lost Pod stays lost"
_ALTERED = "no handler watches the Pods, so an altered Pod stays altered"
_LISTED = "kopf does not list objects again by itself"
_SILENT_WATCH = "if a watch stays silent, kopf ends it only after 70 s"
_PATIENT = "after a refusal, kopf waits up to 21 s before it tries again"
_ONE = "this operator elects no leader, so there can be only one replica"


class Notes(Plain):
    """The operator in main.py."""

    module = FOLDER / "main.py"
    crds = (FOLDER / "crd.yaml",)
    kind = Kind("example.dev", "v1", "notes", "Note")
    child = Kind("", "v1", "pods", "Pod")

    def spec(self, text):
        return {"text": text}

    def plan(self, found, text):
        name = f"note-{found['metadata']['name']}"
        metadata = {"name": name, "annotations": {"text": text}}
        return [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}]

    #: How often a creation is refused until the former Pod is gone depends on the machine.
    #: So the kill, which each refused one survives, is not tried there.
    writes: ClassVar = {**Plain.writes, "recreate": 0}
    patience = 45.0  # seconds instead of 120, because each test that fails takes this long
    fails: ClassVar = {
        "test_killed_after_every_single_write[Note-create]": _TWICE,
        "test_a_fault_at_every_single_write[Note-create]": _FAULTS,
        "test_a_fault_at_every_single_write[Note-edit]": _EDITED,
        "test_a_fault_at_every_single_write[Note-burst]": _EDITED,
        "test_a_fault_at_every_single_write[Note-recreate]": _FAULTS,
        "test_a_fault_at_every_single_write[Note-heal]": _LOST,
        "test_a_fault_at_every_single_write[Note-alter]": _ALTERED,
        "test_429_waits_as_long_as_it_is_told": "the client does not read Retry-After",
        "test_the_standby_is_ready_and_writes_nothing": _ONE,
        "test_the_leader_ends_and_the_other_goes_on": _ONE,
        "test_the_leader_is_killed_after_a_write_and_the_other_takes_over": _ONE,
        "test_the_leader_is_frozen_and_thawed": _ONE,
        "test_a_thawed_leader_sends_nothing_more": _ONE,
        "test_the_leader_is_frozen_for_a_minute": _ONE,
        "test_the_leader_is_cut_off_and_stops_before_the_other_begins": _ONE,
        "test_the_clocks_are_moved_by_an_hour": _ONE,
        "test_the_lease_is_stolen_and_comes_back": _ONE,
        "test_the_lease_is_deleted": _ONE,
        "test_any_sequence_ends_as_a_fresh_start_does": _LOST,
        "test_410_hides_a_deletion_and_the_resync_finds_the_ghost": _LOST,
        "test_events_that_never_come_are_found_by_the_resync": _LISTED,
        "test_a_black_hole_is_left_in_time": _SILENT_WATCH,
        "test_lists_and_watches_are_refused_for_a_while": _PATIENT,
    }


SUBJECTS = (Notes(),)
