"""What an administrator does with OLM, and sees of it, so that tests read like the guide."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import olm
from kopf_kit.rig.run import answer
from kopf_kit.testing import Installed, Kubectl
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import Object, is_up

NAME = PROJECT.name
CRD = PROJECT.kinds[0].crd
#: OLM and a cold cluster: pulling, unpacking, installing. Only what never comes runs into it.
BOUND = 600.0
_SUBSCRIPTIONS = "subscriptions.operators.coreos.com"
_GONE = ("--ignore-not-found", "--wait=false")
#: The kinds of what OLM makes for a CSV, and the metadata by which it belongs to it.
_MADE = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
_OWNED = ("labels", "ownerReferences")


@dataclass(frozen=True)
class Catalog:
    """A CatalogSource: in OLM's own namespace for the whole cluster, else for one namespace."""

    kubectl: Kubectl
    name: str = NAME

    def make(self, image: str) -> None:
        """Offer the catalog of an image, and wait until OLM can ask it."""
        restricted = {"securityContextConfig": "restricted"}
        spec = {"sourceType": "grpc", "image": image, "grpcPodConfig": restricted}
        self.kubectl.apply(_manifest("CatalogSource", self.name, spec))
        state = "-o=jsonpath={.status.connectionState.lastObservedState}"
        wait_until(
            f"OLM to reach the catalog {image}",
            lambda: self.kubectl("get", "catalogsource", self.name, state),
            "READY".__eq__,
            bound=BOUND,
        )

    def offer(self, image: str, newest: str) -> None:
        """Have another image, as when a new release came; wait until it is there for all to see."""
        patch = json.dumps({"spec": {"image": image}})
        self.kubectl("patch", "catalogsource", self.name, "--type=merge", "-p", patch)
        channel = '{.items[*].status.channels[?(@.name=="stable")].currentCSV}'
        ask = ("get", "packagemanifests", "-l", f"catalog={self.name}", "-o", f"jsonpath={channel}")
        wait_until(
            f"the catalog to offer {newest}",
            lambda: answer(self.kubectl.command(*ask)),  # its API may be away for a moment
            lambda seen: seen == csv_name(newest),
            bound=BOUND,
        )


@dataclass(frozen=True)
class Subscription(Installed):
    """A Subscription, and what OLM installs for it into its namespace."""

    catalog: Catalog

    # --- what an administrator does -----------------------------------------------------------

    def group(self, *targets: str, name: str = "group") -> None:
        """Say which namespaces operators that are installed here serve; none: all."""
        spec = {"targetNamespaces": list(targets)} if targets else {}
        self.kubectl.apply(_manifest("OperatorGroup", name, spec))

    def subscribe(
        self, *, starting: str = "", approval: str = "Automatic", config: Object | None = None
    ) -> None:
        """Ask OLM for the operator, from version `starting` on, else the newest."""
        spec: Object = {
            "name": NAME,
            "channel": "stable",
            "source": self.catalog.name,
            "sourceNamespace": self.catalog.kubectl.namespace,
            "installPlanApproval": approval,
            **({"startingCSV": csv_name(starting)} if starting else {}),
            **({"config": config} if config else {}),
        }
        self.kubectl.apply(_manifest("Subscription", NAME, spec))

    def change(self, **spec: Any) -> None:
        """Change fields of the Subscription."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", _SUBSCRIPTIONS, NAME, "--type=merge", "-p", patch)

    def approve(self, version: str) -> None:
        """Approve the plan for a version, and wait until OLM follows it.

        OLM may make a plan twice, and forget the first: it is the last one that counts.
        """

        def look() -> bool:
            plan = self.wait_for_plan(version)["metadata"]["name"]
            approved = ("--type=merge", "-p", '{"spec": {"approved": true}}')
            self.kubectl("patch", "installplan", plan, *approved)
            return csv_name(version) in self.csvs()

        wait_until(f"{csv_name(version)}, approved, to be there", look, bool, bound=BOUND)

    def refuse(self, version: str) -> None:
        """Delete the plan for a version: OLM makes another, for what is then the newest."""
        plan = self.wait_for_plan(version)["metadata"]["name"]
        self.kubectl("delete", "installplan", plan, *_GONE)

    def unsubscribe(self) -> None:
        """Delete the Subscription; what it installed stays."""
        self.kubectl("delete", _SUBSCRIPTIONS, NAME, *_GONE)

    def uninstall(self) -> None:
        """Delete the Subscription and every CSV of the operator; wait until all of it is gone.

        OLM may be at a plan still, and then makes the CSV once more.
        """
        self.unsubscribe()

        def look() -> bool:
            if csvs := self.csvs():
                self.kubectl("delete", "csv", *csvs, *_GONE)
            return not csvs and not self.pods()

        wait_until("the CSV and the operator's Pods to be gone", look, bool, bound=BOUND)

    # --- what an administrator sees -----------------------------------------------------------

    def get(self) -> Any:
        """Return the Subscription as it is, empty if it is gone."""
        return self.kubectl.find(_SUBSCRIPTIONS, NAME) or {}

    def conditions(self) -> dict[str, Object]:
        """Return the conditions of the Subscription, by type."""
        found = (self.get().get("status") or {}).get("conditions") or []
        return {condition["type"]: condition for condition in found}

    def csvs(self) -> dict[str, Object]:
        """Return the operator's CSVs, by name."""
        named = {csv["metadata"]["name"]: csv for csv in self.kubectl.get("csv")["items"]}
        return {name: csv for name, csv in named.items() if name.startswith(f"{NAME}.v")}

    def plan(self) -> Any:
        """Return the InstallPlan that the Subscription is at, empty if there is none."""
        name = ((self.get().get("status") or {}).get("installPlanRef") or {}).get("name")
        return (name and self.kubectl.find("installplan", name)) or {}

    def pods(self) -> list[Any]:
        """Return the operator's Pods, those that are about to end included."""
        pods: list[Any] = self.kubectl.get("pods", f"-l=app.kubernetes.io/name={NAME}")["items"]
        return pods

    def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Tell whether the operator is allowed something in a namespace."""
        user = f"--as=system:serviceaccount:{self.namespace}:{NAME}"
        asked = self.kubectl.command("auth", "can-i", verb, resource, user, "-n", namespace)
        return answer(asked) == "yes"

    def made(self) -> list[str]:
        """Return what there is of OLM's making for the operator in the whole cluster."""
        objects = self.kubectl.get(_MADE, "--all-namespaces")["items"]
        found = [
            made
            for made in objects
            if f"{NAME}." in json.dumps([made["metadata"].get(key) for key in _OWNED])
        ]
        copied = self.kubectl.get("csv", "--all-namespaces")["items"]
        found += [csv for csv in copied if csv["metadata"]["name"].startswith(f"{NAME}.v")]
        return [f"{made['kind']} {made['metadata']['name']}" for made in found]

    # --- waiting ------------------------------------------------------------------------------

    def wait_for_pod(self, what: str, holds: Callable[[Object], bool]) -> None:
        """Wait until just one operator runs, ready, and its container is as wanted.

        OLM may install before it has seen the Subscription's `config`, and again when it has.
        """
        wait_until(
            f"one operator {what}",
            self.pods,
            lambda pods: (
                len(pods) == 1 and is_up(pods[0]) and holds(pods[0]["spec"]["containers"][0])
            ),
        )

    def wait_until_installed(self, version: str) -> None:
        """Wait until a version, and no other, is installed and its operator ready."""

        def look() -> tuple[dict[str, Any], Any]:
            csvs = self.csvs().items()
            phases = {name: (csv.get("status") or {}).get("phase") for name, csv in csvs}
            return phases, self.conditions()

        wait_until(
            f"{csv_name(version)} to be the one that is installed",
            look,
            lambda seen: seen[0] == {csv_name(version): "Succeeded"},
            bound=BOUND,
        )

    def wait_for_plan(self, version: str) -> Any:
        """Wait until the Subscription is at the InstallPlan of a version; return it."""
        return wait_until(
            f"a plan for {csv_name(version)}",
            self.plan,
            lambda plan: plan and csv_name(version) in plan["spec"]["clusterServiceVersionNames"],
            bound=BOUND,
        )


def _manifest(kind: str, name: str, spec: Object) -> Object:
    version = "v1" if kind == "OperatorGroup" else "v1alpha1"
    head = {"apiVersion": f"operators.coreos.com/{version}", "kind": kind}
    return {**head, "metadata": {"name": name}, "spec": spec}


def remove(kubectl: Kubectl) -> None:
    """Delete Subscriptions and CSVs of a namespace, and the catalogs for the whole cluster."""
    kubectl("delete", f"{_SUBSCRIPTIONS},csv", "--all")
    kubectl("delete", "catalogsource", NAME, "-n", olm.NAMESPACE, "--ignore-not-found")
    kubectl("delete", "clustercatalog", NAME, "--ignore-not-found")


def csv_name(version: str) -> str:
    """Return what a version's CSV is called."""
    return f"{NAME}.v{version}"
