"""kopf-kit's conformance suite over baler's operator: the Deployment of a Haystack's pipeline."""

from typing import ClassVar

from described import (  # beside this file, where it runs
    ALTERED,
    CREDENTIALS,
    LOST,
    NO_RESYNC,
    ONE,
    REPLICAS,
    SAMPLE,
    SILENT,
    Released,
)

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403
from kopf_kit.testing.requests import Cluster, Raw
from kopf_runtime.declaring.kinds import Kind

_VARIABLES = [{"name": "PIPELINE_YAML_PATH", "value": "/mnt/pipeline.yaml"}]
# Or else each deletion asks six times to delete a store of documents, which nobody has made.
_KEPT = {"preserve-documentstore.pipelines.baler.gatecastle.com/enabled": "true"}
_ANSWERS = f"{SILENT}; an answer to an Event that is no JSON ends kopf"
_DEAF = "an event that is no JSON ends the watch, and no other one begins"


class Haystacks(Released):
    """A text is a variable of the container; a Haystack has a pipeline of its own name."""

    kind = Kind("pipelines.baler.gatecastle.com", "v1", "haystack", "Haystack")
    child = Kind("apps", "v1", "deployments", "Deployment")
    writes: ClassVar = {
        "create": 5,
        "edit": 7,
        "burst": 7,
        "delete": 4,
        "recreate": 9,
        "heal": 0,
        "alter": 0,
    }

    def spec(self, text: str) -> Raw:
        return {"env": [{"name": "TEXT", "value": text}]}

    def manifest(self, text: str, name: str) -> Raw:
        manifest = super().manifest(text, name)
        (pipeline,) = SAMPLE["pipelines"]
        manifest["spec"]["pipelines"] = [{**pipeline, "name": name}]
        manifest["metadata"]["annotations"] = _KEPT
        return manifest

    def plan(self, found: Raw, text: str) -> list[Raw]:
        container = {"name": "haystack", "env": [*self.spec(text)["env"], *_VARIABLES]}
        return [
            {
                "apiVersion": self.child.api_version,
                "kind": self.child.kind,
                "metadata": {"name": found["metadata"]["name"]},
                "spec": {"template": {"spec": {"containers": [container]}}},
            }
        ]

    async def alter(self, cluster: Cluster, child: str) -> None:
        """Change the text in the container."""
        containers = (await cluster.ask("GET", child))["spec"]["template"]["spec"]["containers"]
        containers[0]["env"][0]["value"] = "둘"
        await cluster.patch(child, {"spec": {"template": {"spec": {"containers": containers}}}})

    def wrong(self, found: Raw, child: Raw, text: str) -> list[str]:
        return super().wrong(found, _owned(child, found["metadata"]["uid"]), text)

    def essence(self, child: Raw) -> Raw:
        return super().essence(_owned(child, "its-own"))

    fails: ClassVar = {
        **dict.fromkeys(REPLICAS, ONE),
        "test_a_fault_at_every_single_write[Haystack-create]": _ANSWERS,
        "test_a_fault_at_every_single_write[Haystack-edit]": _ANSWERS,
        "test_a_fault_at_every_single_write[Haystack-burst]": _ANSWERS,
        "test_a_fault_at_every_single_write[Haystack-delete]": _ANSWERS,
        "test_a_fault_at_every_single_write[Haystack-recreate]": _ANSWERS,
        "test_a_fault_at_every_single_write[Haystack-heal]": LOST,
        "test_a_fault_at_every_single_write[Haystack-alter]": ALTERED,
        "test_429_waits_as_long_as_it_is_told": "kopf does not read Retry-After",
        "test_any_sequence_ends_as_a_fresh_start_does": LOST,
        "test_a_watch_breaks_in_mid_event[Haystack-half_an_event]": _DEAF,
        "test_a_watch_breaks_in_mid_event[Haystack-no_json]": _DEAF,
        "test_410_hides_a_deletion_and_the_resync_finds_the_ghost": LOST,
        "test_events_that_never_come_are_found_by_the_resync": NO_RESYNC,
        "test_a_black_hole_is_left_in_time": "kopf never gives up a silent watch",
        "test_a_token_that_is_refused_is_found_anew": CREDENTIALS,
    }


def _owned(child: Raw, uid: str) -> Raw:
    """Return a child as if it had an owner: baler's have a label, and go when a handler says so."""
    owner = {"uid": uid, "name": child["metadata"]["name"]}
    return {**child, "metadata": {**child["metadata"], "ownerReferences": [owner]}}


SUBJECTS = (Haystacks(),)
