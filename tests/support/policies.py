"""Admission policies for one namespace that treat Pods as certain clusters do.

The API server itself runs them, so nothing has to be installed. tests/faults and tests/e2e use
them to simulate a platform's admission, a policy engine's rules, and a mesh that injects sidecars.
"""

from collections.abc import Sequence
from typing import Any

Raw = dict[str, Any]

VERSION = "admissionregistration.k8s.io/v1"
ROOT = f"/apis/{VERSION}"
#: A Pod of this name shows whether a policy is in force: nothing else tells.
PROBE = "probe"
#: What a mutating policy leaves on each Pod.
SEEN = "example.com/seen-by-policy"

#: The namespace's annotation in which OpenShift gives the range of its Pods' users.
UID_RANGE = "openshift.io/sa.scc.uid-range"
FIRST, SIZE = 1000680000, 10000

#: The API group that marks a cluster as OpenShift.
OPENSHIFT_KIND: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "securitycontextconstraints.security.openshift.io"},
    "spec": {
        "group": "security.openshift.io",
        "names": {
            "kind": "SecurityContextConstraints",
            "plural": "securitycontextconstraints",
            "singular": "securitycontextconstraints",
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}

_RANGE = [
    {
        "name": "range",
        "expression": f"namespaceObject.metadata.annotations['{UID_RANGE}'].split('/')",
    },
    {"name": "first", "expression": "int(variables.range[0])"},
    {"name": "after", "expression": "variables.first + int(variables.range[1])"},
]


def assigns_users(namespace: str) -> list[Raw]:
    """Return policies that set a container's missing user, as `restricted-v2` does."""
    expression = f"""
        Object{{
          metadata: Object.metadata{{annotations: {{"{SEEN}": "restricted-v2"}}}},
          spec: Object.spec{{
            securityContext: Object.spec.securityContext{{
              fsGroup: variables.first,
              seLinuxOptions: Object.spec.securityContext.seLinuxOptions{{level: "s0:c26,c5"}}
            }},
            containers: object.spec.containers.map(c, Object.spec.containers{{
              name: c.name,
              securityContext: Object.spec.containers.securityContext{{
                runAsUser: has(c.securityContext) && has(c.securityContext.runAsUser)
                  ? c.securityContext.runAsUser
                  : has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser)
                    ? object.spec.securityContext.runAsUser : variables.first
              }}
            }})
          }}
        }}"""
    return mutating(f"{namespace}-users", namespace, expression, _RANGE)


def refuses_other_users(namespace: str) -> list[Raw]:
    """Return policies that refuse users outside of the range, as `restricted-v2` does."""
    return validating(
        f"{namespace}-range",
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
    return validating(
        f"{namespace}-label",
        namespace,
        f"has(object.metadata.labels) && '{label}' in object.metadata.labels",
        f"'each Pod must have the label {label}'",
    )


def injects_and_rewrites(namespace: str, registry: str = "mirror.example") -> list[Raw]:
    """Return policies that add a sidecar to each Pod, and replace the registry of all images."""
    rewrites = f"""
        Object{{
          metadata: Object.metadata{{annotations: {{"{SEEN}": "mesh"}}}},
          spec: Object.spec{{
            containers: object.spec.containers.map(c, Object.spec.containers{{
              name: c.name, image: "{registry}/" + c.image
            }})
          }}
        }}"""
    # Plain maps: Kubernetes 1.36.4 panics if a list in the value contains an Object.
    injects = f"""
        [JSONPatch{{
          op: "add", path: "/spec/initContainers", value: [{{
            "name": dyn("mesh-proxy"), "image": dyn("{registry}/mesh:1"),
            "restartPolicy": dyn("Always"),
            "securityContext": dyn({{
              "allowPrivilegeEscalation": dyn(false), "capabilities": dyn({{"drop": ["ALL"]}})
            }})
          }}]
        }}]"""
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": injects}}
    return mutating(f"{namespace}-mesh", namespace, rewrites, more=[patch])


def adjusts_resources(namespace: str) -> list[Raw]:
    """Return policies that set GKE Autopilot's minimum as each container's requests and limits."""
    merged = f"""
        Object{{
          metadata: Object.metadata{{annotations: {{"{SEEN}": "autopilot"}}}},
          spec: Object.spec{{
            containers: object.spec.containers.map(c, Object.spec.containers{{
              name: c.name,
              resources: Object.spec.containers.resources{{
                requests: {{"cpu": "50m", "memory": "52Mi", "ephemeral-storage": "1Gi"}},
                limits: {{"cpu": "50m", "memory": "52Mi", "ephemeral-storage": "1Gi"}}
              }}
            }})
          }}
        }}"""
    return mutating(f"{namespace}-resources", namespace, merged)


def mutating(
    name: str, namespace: str, merged: str, variables: Sequence[Raw] = (), more: Sequence[Raw] = ()
) -> list[Raw]:
    """Return a policy that merges an expression's object into each new Pod, and its binding."""
    merge = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": merged}}
    spec = {
        "matchConstraints": {"resourceRules": [_PODS]},
        "variables": [*variables],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [merge, *more],
    }
    return _bound("MutatingAdmissionPolicy", name, namespace, spec, {})


def validating(
    name: str, namespace: str, expression: str, message: str, variables: Sequence[Raw] = ()
) -> list[Raw]:
    """Return a policy that refuses new Pods with an expression's message, and its binding."""
    spec = {
        "matchConstraints": {"resourceRules": [_PODS]},
        "variables": [*variables],
        "failurePolicy": "Fail",
        "validations": [
            {
                "expression": f"object.metadata.name != '{PROBE}' && ({expression})",
                "messageExpression": message,
                "reason": "Forbidden",
            }
        ],
    }
    actions = {"validationActions": ["Deny"]}
    return _bound("ValidatingAdmissionPolicy", name, namespace, spec, actions)


_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def _bound(kind: str, name: str, namespace: str, spec: Raw, actions: Raw) -> list[Raw]:
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {"policyName": name, **actions, "matchResources": {"namespaceSelector": here}}
    return [
        {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": VERSION,
            "kind": f"{kind}Binding",
            "metadata": {"name": name},
            "spec": binding,
        },
    ]


def probe() -> Raw:
    """Return a Pod whose dry run shows whether a policy is in force."""
    container = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": PROBE},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "probe", "image": "none", "securityContext": container}],
        },
    }
