"""What is made from a child's template, such as a Deployment's Pods, is seen by `status`."""

from collections.abc import Iterable

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import DEPLOYMENT, POD
from kopf_runtime.declaring.records import MANAGED_BY
from runtime.support.api_server import ApiServer
from runtime.support.running import NAME, caches, operating
from runtime.support.waiting import until
from runtime.widgets import UID, WIDGET, Raw, Widget, otherwise, widget

KEY = ("ns", "one")
KINDS = (WIDGET, DEPLOYMENT)


def controller() -> Controller:
    """Return a controller of Widgets that tells the names of their Pods, and which are ready."""
    widgets = Controller(WIDGET, Widget, None)
    widgets.owns(DEPLOYMENT)
    widgets.descendants(POD, kr.Conditioned, transform=lambda pod: pod.holds("Ready"))

    @widgets.desired
    def desired(one: Widget, _: object) -> Iterable[Raw]:
        template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": []}}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"w-{one.metadata.name}"},
            "spec": {"template": template},
        }

    @widgets.status
    def status(_: object, seen: kr.Observed) -> kr.Status:
        pods = seen.descendants[POD]
        names = {"pods": [pod.key[1] for pod in pods], "ready": sum(pod.view for pod in pods)}
        return kr.Status(True, "Seen", "They are seen.", names)

    return widgets


def said(server: ApiServer, name: str = "one") -> tuple[list[str], int]:
    """Return the names that a Widget's status has, and how many are ready."""
    status = (server.get(WIDGET, ("ns", name)) or {}).get("status") or {}
    return status.get("pods", []), status.get("ready", 0)


def make_pod(
    server: ApiServer, name: str, widget: str = "one", ready: str = "True", namespace: str = "ns"
) -> None:
    """Make a Pod as a ReplicaSet does: with the metadata of the template."""
    deployment = server.get(DEPLOYMENT, ("ns", f"w-{widget}")) or {}
    meta = {**deployment["spec"]["template"]["metadata"], "namespace": namespace, "name": name}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    server.put(POD, {"metadata": meta, "spec": {"containers": []}, "status": status})


async def test_status_sees_the_pods_of_its_own_deployment_by_name(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    server.put(WIDGET, widget("two"))
    async with operating(server, controller()):
        await until(lambda: server.get(DEPLOYMENT, ("ns", "w-two")))
        await until(lambda: server.get(DEPLOYMENT, ("ns", "w-one")))
        make_pod(server, "b")
        make_pod(server, "a", ready="False")
        make_pod(server, "c", "two")
        make_pod(server, "copied", namespace="elsewhere")  # which counts for nobody

        await until(lambda: said(server) == (["a", "b"], 1))
        await until(lambda: said(server, "two") == (["c"], 1))
        server.delete(POD, ("ns", "b"))
        await until(lambda: said(server) == (["a"], 0))

    deployment = server.get(DEPLOYMENT, ("ns", "w-one")) or {}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    uid = (server.get(WIDGET, KEY) or {})["metadata"]["uid"]
    assert (labels["app"], labels[UID]) == ("w", uid)


async def test_the_name_that_a_pod_claims_is_kept_if_it_can_be_one(server: ApiServer) -> None:
    widgets = controller()
    async with operating(server, widgets):
        meta = {
            "namespace": "ns",
            "name": "forged",
            "labels": {MANAGED_BY: NAME, UID: "u"},
            "annotations": {"example.dev/widget-name": "n" * 250_000},
        }
        server.put(POD, {"metadata": meta, "spec": {"containers": []}})

        pods = caches(widgets).descendants[POD].cache
        await until(lambda: pods.get(("ns", "forged")))
        assert [pod.parent for pod in pods] == [""]


async def test_a_template_without_metadata_gets_the_marks_too(server: ApiServer) -> None:
    widgets = otherwise(controller())

    @widgets.desired
    def desired(one: Widget, _: object) -> Iterable[Raw]:
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"w-{one.metadata.name}"},
            "spec": {"template": {"spec": {"containers": []}}},
        }

    server.put(WIDGET, widget())
    async with operating(server, widgets):
        await until(lambda: server.get(DEPLOYMENT, ("ns", "w-one")))
        make_pod(server, "own")

        await until(lambda: said(server) == (["own"], 1))
