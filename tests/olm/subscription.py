"""What an administrator does with OLM, and sees of it, so that tests read like the guide."""

import json
from collections.abc import Callable
from typing import Any

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import olm
from kopf_kit.testing.requests import wait_until
from tests.e2e.kube import CommandError, Kube, Object
from tests.e2e.messages import Namespace, ready

NAME = PROJECT.name
CRD = PROJECT.kinds[0].crd
#: OLM and a cold cluster: pulling, unpacking, installing. Only what never comes runs into it.
BOUND = 600.0

#: The kinds of what OLM makes for a CSV, and the metadata by which it belongs to it.
_MADE = ("Deployment", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


_OWNED = ("labels", "ownerReferences")


class Catalog:
    """A CatalogSource: in OLM's own namespace for the whole cluster, else for one namespace."""

    def __init__(self, kube: Kube, name: str, namespace: str = olm.NAMESPACE) -> None:
        self.kube = kube
        self.name = name
        self.namespace = namespace

    def make(self, image: str) -> None:
        """Offer the catalog of an image, and wait until OLM can ask it."""
        restricted = {"securityContextConfig": "restricted"}
        self.kube.create(
            {
                "kind": "CatalogSource",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {"sourceType": "grpc", "image": image, "grpcPodConfig": restricted},
            },
            self.namespace,
        )
        self._wait(image)

    def offer(self, image: str, newest: str) -> None:
        """Have another image, as when a new release came; wait until it is there for all to see."""
        spec = {"spec": {"image": image}}
        self.kube.patch("CatalogSource", self.name, spec, self.namespace)
        wait_until(
            f"the catalog to offer {newest}",
            self.newest,
            lambda seen: seen == csv_name(newest),
            bound=BOUND,
        )

    def newest(self) -> str:
        """Return the CSV that the channel `stable` offers."""
        channel = '{.items[*].status.channels[?(@.name=="stable")].currentCSV}'
        labels = f"catalog={self.name}"
        ask = ("get", "packagemanifests", "-n", self.namespace, "-l", labels)
        return self.kube.output(*ask, "-o", f"jsonpath={channel}").decode()

    def remove(self) -> None:
        """Delete it."""
        self.kube.delete("CatalogSource", self.name, self.namespace)

    def _wait(self, image: str) -> None:
        def state() -> str:
            found = self.kube.get("CatalogSource", self.name, self.namespace) or {}
            connection = (found.get("status") or {}).get("connectionState") or {}
            return str(connection.get("lastObservedState"))

        wait_until(f"OLM to reach the catalog {image}", state, lambda s: s == "READY", bound=BOUND)


class Subscription:
    """A Subscription, and what OLM installs for it into its namespace."""

    def __init__(self, namespace: Namespace, catalog: Catalog) -> None:
        self.namespace = namespace
        self.kube = namespace.kube
        self.catalog = catalog

    # --- what an administrator does -----------------------------------------------------------

    def group(self, *targets: str, name: str = "group") -> None:
        """Say which namespaces operators that are installed here serve; none: all."""
        spec = {"targetNamespaces": list(targets)} if targets else {}
        metadata = {"name": name, "namespace": self.namespace.name}
        self.kube.create(
            {"kind": "OperatorGroup", "metadata": metadata, "spec": spec}, self.namespace.name
        )

    def subscribe(
        self,
        *,
        starting: str | None = None,
        approval: str = "Automatic",
        channel: str = "stable",
        config: Object | None = None,
    ) -> None:
        """Ask OLM for the operator, from version `starting` on, else the newest."""
        spec: Object = {
            "name": NAME,
            "channel": channel,
            "source": self.catalog.name,
            "sourceNamespace": self.catalog.namespace,
            "installPlanApproval": approval,
        }
        if starting:
            spec["startingCSV"] = csv_name(starting)
        if config:
            spec["config"] = config
        metadata = {"name": NAME, "namespace": self.namespace.name}
        self.kube.create(
            {"kind": "Subscription", "metadata": metadata, "spec": spec}, self.namespace.name
        )

    def change(self, **spec: Any) -> None:
        """Change fields of the Subscription."""
        self.kube.patch("Subscription", NAME, {"spec": spec}, self.namespace.name)

    def approve(self, version: str) -> None:
        """Approve the plan for a version, and wait until OLM follows it.

        OLM may make a plan twice, and forget the first: it is the last one that counts.
        """

        def look() -> bool:
            plan = self.wait_for_plan(version)
            if not plan["spec"]["approved"]:
                name = plan["metadata"]["name"]
                approved = {"spec": {"approved": True}}
                self.kube.patch("InstallPlan", name, approved, self.namespace.name)
            return csv_name(version) in self.csvs()

        wait_until(f"{csv_name(version)}, approved, to be there", look, bool, bound=BOUND)

    def refuse(self, version: str) -> None:
        """Delete the plan for a version: OLM makes another, for what is then the newest."""
        plan = self.wait_for_plan(version)
        self.kube.delete("InstallPlan", plan["metadata"]["name"], self.namespace.name)

    def unsubscribe(self) -> None:
        """Delete the Subscription; what it installed stays."""
        self.kube.delete("Subscription", NAME, self.namespace.name)

    def uninstall(self) -> None:
        """Delete the Subscription and every CSV of the operator; wait until all of it is gone.

        OLM may be at a plan still, and then makes the CSV once more.
        """
        self.unsubscribe()

        def look() -> bool:
            for name in self.csvs():
                self.kube.delete("ClusterServiceVersion", name, self.namespace.name)
            return not self.csvs() and not self.pods()

        wait_until("the CSV and the operator's Pods to be gone", look, bool, bound=BOUND)

    # --- what an administrator sees -----------------------------------------------------------

    def get(self) -> Object:
        """Return the Subscription as it is, empty if it is gone."""
        return self.kube.get("Subscription", NAME, self.namespace.name) or {}

    def conditions(self) -> dict[str, Object]:
        """Return the conditions of the Subscription, by type."""
        found = (self.get().get("status") or {}).get("conditions") or []
        return {condition["type"]: condition for condition in found}

    def csvs(self) -> dict[str, Object]:
        """Return the operator's CSVs, by name."""
        found, _ = self.kube.objects("ClusterServiceVersion", self.namespace.name)
        named = {csv["metadata"]["name"]: csv for csv in found}
        return {name: csv for name, csv in named.items() if name.startswith(f"{NAME}.v")}

    def plan(self) -> Object:
        """Return the InstallPlan that the Subscription is at, empty if there is none."""
        name = ((self.get().get("status") or {}).get("installPlanRef") or {}).get("name")
        return (name and self.kube.get("InstallPlan", name, self.namespace.name)) or {}

    def pods(self) -> list[Object]:
        """Return the operator's Pods, those that are about to end included."""
        labels = f"app.kubernetes.io/name={NAME}"
        return self.kube.objects("Pod", self.namespace.name, labels=labels)[0]

    def log(self) -> str:
        """Return the log of all its Pods."""
        labels = f"app.kubernetes.io/name={NAME}"
        try:
            return self.namespace.kubectl("logs", "-l", labels, "--tail=-1", "--ignore-errors")
        except CommandError as error:
            return str(error)

    def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Tell whether the operator is allowed something in a namespace."""
        user = f"system:serviceaccount:{self.namespace.name}:{NAME}"
        asked = ("auth", "can-i", verb, resource, f"--as={user}", "-n", namespace)
        return self.kube.output(*asked).strip() == b"yes"

    def made(self) -> list[str]:
        """Return what there is of OLM's making for the operator in the whole cluster."""
        objects = [(kind, made) for kind in _MADE for made in self.kube.objects(kind)[0]]
        names = [
            f"{kind} {made['metadata']['name']} in {made['metadata'].get('namespace')}"
            for kind, made in objects
            if f"{NAME}." in json.dumps([made["metadata"].get(key) for key in _OWNED])
        ]
        copied, _ = self.kube.objects("ClusterServiceVersion")
        return names + [
            f"CSV {csv['metadata']['name']} in {csv['metadata']['namespace']}"
            for csv in copied
            if csv["metadata"]["name"].startswith(f"{NAME}.v")
        ]

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

        def look() -> dict[str, str]:
            return {name: _phase(csv) for name, csv in self.csvs().items()}

        try:
            wait_until(
                f"{csv_name(version)} to be the one that is installed",
                look,
                lambda seen: seen == {csv_name(version): "Succeeded"},
                bound=BOUND,
            )
        except AssertionError as error:
            conditions = json.dumps(self.conditions(), indent=1)
            raise AssertionError(f"{error}\nThe Subscription says: {conditions}") from None

    def wait_for_plan(self, version: str) -> Object:
        """Wait until the Subscription is at the InstallPlan of a version; return it."""
        return wait_until(
            f"a plan for {csv_name(version)}",
            self.plan,
            lambda plan: plan and csv_name(version) in plan["spec"]["clusterServiceVersionNames"],
            bound=BOUND,
        )


def csv_name(version: str) -> str:
    """Return what a version's CSV is called."""
    return f"{NAME}.v{version}"


def _phase(csv: Object) -> str:
    return str((csv.get("status") or {}).get("phase"))


def is_up(pod: Object) -> bool:
    """Tell whether a Pod is ready and not about to end."""
    return "deletionTimestamp" not in pod["metadata"] and (
        ready(pod["status"]).get("status") == "True"
    )
