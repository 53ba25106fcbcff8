"""kopf-kit's conformance suite over dask's operator: the workers' group of a DaskCluster."""

from typing import Any, ClassVar

from described import (  # beside this file, where it runs
    ALTERED,
    CREDENTIALS,
    LOST,
    NO_RESYNC,
    ONE,
    REFUSED,
    REPLICAS,
    SAMPLE,
    SILENT,
    Released,
)

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403
from kopf_kit.testing.requests import Raw
from kopf_runtime.declaring.kinds import Kind

_OWNER = "after a kill, the workers' group stays without an owner"
_WORKERS = {"하나": 1, "둘": 2, "셋": 3, "넷": 4}


class Clusters(Released):
    """A text is a number of workers: no other edit of a DaskCluster reaches anything."""

    kind = Kind("kubernetes.dask.org", "v1", "daskclusters", "DaskCluster")
    child = Kind("kubernetes.dask.org", "v1", "daskworkergroups", "DaskWorkerGroup")
    writes: ClassVar = {
        "create": 6,
        "edit": 2,
        "burst": 2,
        "delete": 1,
        "recreate": 6,
        "heal": 0,
        "alter": 0,
    }

    def spec(self, text: str) -> Raw:
        return {"worker": {**SAMPLE["worker"], "replicas": _WORKERS.get(text, 5)}}

    def plan(self, found: Raw, text: str) -> list[Raw]:
        cluster = found["metadata"]["name"]
        workers = {"replicas": self.spec(text)["worker"]["replicas"]}
        group: dict[str, Any] = {
            "apiVersion": self.child.api_version,
            "kind": self.child.kind,
            "metadata": {"name": f"{cluster}-default"},
            "spec": {"cluster": cluster, "worker": workers},
        }
        return [group]

    fails: ClassVar = {
        **dict.fromkeys(REPLICAS, ONE),
        "test_killed_after_every_single_write[DaskCluster-recreate]": _OWNER,
        "test_a_fault_at_every_single_write[DaskCluster-create]": SILENT,
        "test_a_fault_at_every_single_write[DaskCluster-edit]": REFUSED,
        "test_a_fault_at_every_single_write[DaskCluster-burst]": SILENT,
        "test_a_fault_at_every_single_write[DaskCluster-delete]": REFUSED,
        "test_a_fault_at_every_single_write[DaskCluster-recreate]": SILENT,
        "test_a_fault_at_every_single_write[DaskCluster-heal]": LOST,
        "test_a_fault_at_every_single_write[DaskCluster-alter]": ALTERED,
        "test_any_sequence_ends_as_a_fresh_start_does": LOST,
        "test_410_hides_a_deletion_and_the_resync_finds_the_ghost": LOST,
        "test_events_that_never_come_are_found_by_the_resync": NO_RESYNC,
        "test_a_token_that_is_refused_is_found_anew": CREDENTIALS,
    }


SUBJECTS = (Clusters(),)
