"""What clusters ask of Pods and do to them: OpenShift, limits, quotas, policies, meshes.

Finding M7. The API server's own admission does it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from faults.worlds import policies_served
from kopf_kit.olm import bundle
from kopf_kit.project import documents, releases
from kopf_kit.testing import calls
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World
from tests.faults.messages import why

pytestmark = pytest.mark.api

# --- admission policies, which the API server itself runs: nothing has to be installed ---

#: A Pod of this name shows whether a policy is in force: nothing else tells.
PROBE = documents.load("""
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: probe
    image: none
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
""")
#: What a mutating policy leaves on each Pod.
SEEN = "example.com/seen-by-policy"
#: The namespace's annotation in which OpenShift gives the range of its Pods' users.
UID_RANGE = "openshift.io/sa.scc.uid-range"
FIRST, SIZE = 1000680000, 10000
#: The API group that marks a cluster as OpenShift.
OPENSHIFT_KIND = documents.load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: securitycontextconstraints.security.openshift.io}
spec:
  group: security.openshift.io
  names: {kind: SecurityContextConstraints, plural: securitycontextconstraints}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""")
_RANGE = [
    {
        "name": "range",
        "expression": f"namespaceObject.metadata.annotations['{UID_RANGE}'].split('/')",
    },
    {"name": "first", "expression": "int(variables.range[0])"},
    {"name": "after", "expression": "variables.first + int(variables.range[1])"},
]
_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def assigns_users(namespace: str) -> list[Raw]:
    """Return policies that set a container's missing user, as `restricted-v2` does."""
    spec = """
            securityContext: Object.spec.securityContext{
              fsGroup: variables.first,
              seLinuxOptions: Object.spec.securityContext.seLinuxOptions{level: "s0:c26,c5"}
            },
            containers: object.spec.containers.map(c, Object.spec.containers{
              name: c.name,
              securityContext: Object.spec.containers.securityContext{
                runAsUser: has(c.securityContext) && has(c.securityContext.runAsUser)
                  ? c.securityContext.runAsUser
                  : has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser)
                    ? object.spec.securityContext.runAsUser : variables.first
              }
            })"""
    return mutating(namespace, "restricted-v2", spec, _RANGE)


def refuses_other_users(namespace: str) -> list[Raw]:
    """Return policies that refuse users outside of the range, as `restricted-v2` does."""
    return validating(
        namespace,
        "object.spec.containers.all(c, c.securityContext.runAsUser >= variables.first "
        "&& c.securityContext.runAsUser < variables.after)",
        "'unable to validate against any security context constraint: provider restricted-v2: "
        "runAsUser must be in the ranges: [' + string(variables.first) + ', ' "
        "+ string(variables.after - 1) + ']'",
        _RANGE,
    )


def requires_a_label(namespace: str, label: str) -> list[Raw]:
    """Return policies that refuse each Pod without a label, as a policy engine does."""
    has = f"has(object.metadata.labels) && '{label}' in object.metadata.labels"
    return validating(namespace, has, f"'each Pod must have the label {label}'")


def injects_and_rewrites(namespace: str) -> list[Raw]:
    """Return policies that add a sidecar to each Pod, and replace the registry of all images."""
    spec = """
            containers: object.spec.containers.map(c, Object.spec.containers{
              name: c.name, image: "mirror.example/" + c.image
            })"""
    # Plain maps: Kubernetes 1.36.4 panics if a list in the value contains an Object.
    injects = """
        [JSONPatch{
          op: "add", path: "/spec/initContainers", value: [{
            "name": dyn("mesh-proxy"), "image": dyn("mirror.example/mesh:1"),
            "restartPolicy": dyn("Always"),
            "securityContext": dyn({
              "allowPrivilegeEscalation": dyn(false), "capabilities": dyn({"drop": ["ALL"]})
            })
          }]
        }]"""
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": injects}}
    return mutating(namespace, "mesh", spec, more=[patch])


def adjusts_resources(namespace: str) -> list[Raw]:
    """Return policies that set GKE Autopilot's minimum as each container's requests and limits."""
    least = '{"cpu": "50m", "memory": "52Mi", "ephemeral-storage": "1Gi"}'
    spec = f"""
            containers: object.spec.containers.map(c, Object.spec.containers{{
              name: c.name,
              resources: Object.spec.containers.resources{{requests: {least}, limits: {least}}}
            }})"""
    return mutating(namespace, "autopilot", spec)


def mutating(
    namespace: str,
    who: str,
    spec: str,
    variables: Sequence[Raw] = (),
    more: Sequence[Raw] = (),
) -> list[Raw]:
    """Return a policy that merges a spec into each new Pod, and its binding."""
    seen = f'metadata: Object.metadata{{annotations: {{"{SEEN}": "{who}"}}}}'
    merged = {"expression": f"Object{{{seen}, spec: Object.spec{{{spec}}}}}"}
    merge = {"patchType": "ApplyConfiguration", "applyConfiguration": merged}
    policy = {"reinvocationPolicy": "Never", "mutations": [merge, *more]}
    return _bound("MutatingAdmissionPolicy", namespace, {**policy, "variables": [*variables]}, {})


def validating(
    namespace: str, expression: str, message: str, variables: Sequence[Raw] = ()
) -> list[Raw]:
    """Return a policy that refuses new Pods with an expression's message, and its binding."""
    rule = {
        "expression": f"object.metadata.name != 'probe' && ({expression})",
        "messageExpression": message,
        "reason": "Forbidden",
    }
    policy = {"validations": [rule], "variables": [*variables]}
    actions = {"validationActions": ["Deny"]}
    return _bound("ValidatingAdmissionPolicy", namespace, policy, actions)


def _bound(kind: str, namespace: str, policy: Raw, actions: Raw) -> list[Raw]:
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    name = f"{namespace}-{kind[:5].lower()}"
    spec = {"matchConstraints": {"resourceRules": [_PODS]}, "failurePolicy": "Fail", **policy}
    binding = {"policyName": name, **actions, "matchResources": {"namespaceSelector": here}}
    return [
        {"kind": kind, "metadata": {"name": name}, "spec": spec},
        {"kind": f"{kind}Binding", "metadata": {"name": name}, "spec": binding},
    ]


@asynccontextmanager
async def held_to(here: World, manifests: list[Raw]) -> AsyncIterator[None]:
    """Have a policy, in force, while the block lasts."""
    paths: list[str] = []
    try:
        for manifest in manifests:
            version, path = await policies_served(here.cluster, manifest["kind"])
            await here.cluster.ask("POST", path, {**manifest, "apiVersion": version})
            paths.append(f"{path}/{manifest['metadata']['name']}")
        async with here.within(60, f"{manifests[0]['metadata']['name']} is in force"):
            while not await _in_force(here, manifests[0]["kind"]):
                await asyncio.sleep(0.1)
        yield
    finally:
        for path in reversed(paths):
            await here.cluster.remove(path)


async def _in_force(here: World, kind: str) -> bool:
    path = f"{here.children}?dryRun=All"
    try:
        pod = await here.cluster.ask("POST", path, PROBE)
    except RefusedError as error:
        if "ValidatingAdmissionPolicy" not in error.message:
            raise
        return kind == "ValidatingAdmissionPolicy"
    seen = SEEN in pod["metadata"].get("annotations", {})
    return seen and kind == "MutatingAdmissionPolicy"


async def start_again(here: World, *flags: str, **template: Any) -> None:
    """Replace the operator by one with these flags, and this template of the Pods."""
    for operator in here.operators:
        if operator.supervised:
            here.frozen.add(operator)
            await operator.stop()
    await here.start(*flags, *([f"--message-pod={json.dumps(template)}"] if template else []))


async def uid_of_pod(here: World, name: str = "hello") -> str:
    pod = await here.cluster.ask("GET", here.child(name))
    return str(pod["metadata"]["uid"])


# --- OpenShift ----------------------------------------------------------------------------------


def example_of_the_bundle() -> Raw:
    """Return the Message that the console offers to create."""
    file = bundle.BUNDLE / "manifests" / f"{releases.NAME}.clusterserviceversion.yaml"
    csv = documents.load(file.read_text())
    example: Raw = json.loads(csv["metadata"]["annotations"]["alm-examples"])[0]
    return example


async def user_of_pod(here: World, name: str) -> int:
    spec = (await here.cluster.ask("GET", here.child(name)))["spec"]
    return int(spec["containers"][0]["securityContext"]["runAsUser"])


async def test_on_openshift_nothing_has_to_be_set(own_world: World) -> None:
    here = own_world
    example = example_of_the_bundle()
    name = example["metadata"]["name"]
    await here.cluster.put(OPENSHIFT_KIND)
    async with here.within(60, "the group is served"):
        while await here.cluster.find("/apis/security.openshift.io") is None:
            await asyncio.sleep(0.1)
    said = {UID_RANGE: f"{FIRST}/{SIZE}"}
    await here.cluster.patch(
        f"/api/v1/namespaces/{here.namespace}", {"metadata": {"annotations": said}}
    )
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(held_to(here, assigns_users(here.namespace)))
        await stack.enter_async_context(held_to(here, refuses_other_users(here.namespace)))

        # The API server does not answer at first.
        await here.start(
            harm=lambda one: one.arm(
                lambda call: "openshift" in call.path, calls.refuse(503, "ServiceUnavailable"), 2
            )
        )
        await here.cluster.ask("POST", here.objects, example)
        await here.wait_until_ready(name)
        before = await uid_of_pod(here, name)
        await here.restart()
        await here.quiet()

        assert await user_of_pod(here, name) == FIRST
        assert await uid_of_pod(here, name) == before, "what the platform adds is no alteration"

        await start_again(here, "--message-user=65532")
        told = await here.until_reason("Forbidden", name)
        assert "restricted-v2" in told["message"]

        await start_again(here, f"--message-user={FIRST + 1}")
        await here.wait_until_ready(name)
        assert await user_of_pod(here, name) == FIRST + 1, "what is said is not questioned"


# --- limits, quotas and rules -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "complaint", "resources"),
    [
        (
            {"min": {"cpu": "10m", "memory": "16Mi"}},
            "minimum cpu usage per Container is 10m",
            {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}},
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "4"}},
            "cpu max limit to request ratio per Container is 4",
            {"requests": {"cpu": "25m"}, "limits": {"cpu": "100m"}},
        ),
    ],
    ids=["minimum", "ratio"],
)
async def test_what_a_limit_range_asks_for_is_told_and_can_be_given(
    here: World, limit: Raw, complaint: str, resources: Raw
) -> None:
    path = f"/api/v1/namespaces/{here.namespace}/limitranges"
    limits = {"metadata": {"name": "least"}, "spec": {"limits": [{"type": "Container", **limit}]}}
    await here.cluster.ask("POST", path, limits)
    await here.start()
    await here.create("하나")

    assert complaint in (await here.until_reason("Forbidden"))["message"]
    await start_again(here, resources=resources)

    await here.converges({"hello": "하나"})


async def test_a_quota_has_room_for_the_pods_that_say_what_they_use(here: World) -> None:
    path = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    hard = {"requests.cpu": "10m", "limits.memory": "32Mi"}
    await here.cluster.ask("POST", path, {"metadata": {"name": "little"}, "spec": {"hard": hard}})
    async with here.within(60, "the quota holds"):
        while not (await here.cluster.ask("GET", f"{path}/little")).get("status", {}).get("hard"):
            await asyncio.sleep(0.1)
    await here.start("--message-pod=" + json.dumps({"resources": {}}))
    await here.create("하나")
    assert "must specify" in (await here.until_reason("Forbidden"))["message"]

    await start_again(here)  # by default a Pod asks for 1m and 16Mi
    await here.create("둘", "second")
    await here.converges({"hello": "하나", "second": "둘"})

    await here.create("셋", "third")
    assert "exceeded quota: little" in (await here.until_reason("Forbidden", "third"))["message"]
    await here.delete("second")
    await here.converges({"hello": "하나", "third": "셋"})


async def test_a_template_that_pod_security_refuses_is_told_in_its_words(here: World) -> None:
    loose = {"securityContext": {"allowPrivilegeEscalation": True}}
    await here.start(f"--message-pod={json.dumps(loose)}")
    await here.create("하나")

    told = (await here.until_reason("Forbidden"))["message"]
    assert 'violates PodSecurity "restricted' in told
    assert "allowPrivilegeEscalation" in told
    said = await why(here)
    assert said.first == (
        "Message hello: the Pod Security level of the namespace does not admit its Pod."
    )
    await start_again(here)

    await here.converges({"hello": "하나"})


async def test_a_label_that_a_policy_asks_for_is_told_and_can_be_given(here: World) -> None:
    async with held_to(here, requires_a_label(here.namespace, "cost-center")):
        await here.start()
        await here.create("하나")
        told = await here.until_reason("Forbidden")
        assert "must have the label cost-center" in told["message"]
        assert (await why(here)).first == (
            "Message hello: a policy of the cluster refuses what it needs."
        )

        await start_again(here, labels={"cost-center": "1234"})
        await here.converges({"hello": "하나"})


@pytest.mark.parametrize(
    ("rule", "shows"),
    [
        (injects_and_rewrites, ["mesh-proxy", "mirror.example/docker.io/library/busybox"]),
        (adjusts_resources, ["52Mi", "1Gi"]),
    ],
    ids=["mesh", "autopilot"],
)
async def test_what_admission_adds_and_rewrites_is_left_alone(
    here: World, rule: Callable[[str], list[Raw]], shows: list[str]
) -> None:
    async with held_to(here, rule(here.namespace)):
        await here.start()
        await here.create("하나")
        await here.wait_until_ready()
        before = await uid_of_pod(here)
        await here.restart()
        await here.quiet()

        pod = await here.cluster.ask("GET", here.child())
        assert pod["metadata"]["uid"] == before
        assert [word for word in shows if word not in json.dumps(pod["spec"])] == []

        await here.edit("둘")
        async with here.within(120, "an edit still replaces the Pod"):
            while pod["metadata"]["uid"] == before:
                await asyncio.sleep(0.05)
                pod = await here.cluster.find(here.child()) or pod
