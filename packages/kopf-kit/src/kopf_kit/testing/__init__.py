"""Tests operators against a real API server: a pytest plugin and a conformance suite.

Install it with `pip install "kopf-kit[testing]"`; pytest loads the plugin by itself. An operator is
described once, by a subclass of `Parent` if its objects have children, of `Plain` if it is written
on kopf alone, and otherwise of `Subject`. The fixtures of `kopf_kit.testing.plugin` start it, and
the suite in `kopf_kit.testing.conformance` kills it and disturbs its requests.

Importing this package loads nothing: each name below is imported when it is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a name that is Any cannot be subclassed in strict code
    from kopf_kit.rig.cluster import Cluster as Cluster
    from kopf_kit.rig.run import KitError as KitError
    from kopf_kit.testing import calls as calls
    from kopf_kit.testing.calls import Proxy as Faults  # noqa: F401
    from kopf_kit.testing.installed import Installed as Installed
    from kopf_kit.testing.installed import Kubectl as Kubectl
    from kopf_kit.testing.installed import cluster_up as cluster_up
    from kopf_kit.testing.installed import in_node as in_node
    from kopf_kit.testing.installed import push_image as push_image
    from kopf_kit.testing.installed import stand_in as stand_in
    from kopf_kit.testing.process import Operator as Operator
    from kopf_kit.testing.requests import Cluster as ApiServer  # noqa: F401
    from kopf_kit.testing.under_test import Parent as Parent
    from kopf_kit.testing.under_test import Subject as Subject
    from kopf_kit.testing.world import World as World

_NAMES = {
    "ApiServer": "requests:Cluster",
    "Cluster": "installed:Cluster",
    "Faults": "calls:Proxy",
    "KitError": "installed:KitError",
    "Installed": "installed:Installed",
    "Kind": "under_test:Kind",
    "Kubectl": "installed:Kubectl",
    "Operator": "process:Operator",
    "Parent": "under_test:Parent",
    "Plain": "under_test:Plain",
    "Subject": "under_test:Subject",
    "World": "world:World",
    "calls": "calls:",
    "cluster_up": "installed:cluster_up",
    "in_node": "installed:in_node",
    "push_image": "installed:push_image",
    "stand_in": "installed:stand_in",
}
__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _NAMES[name].partition(":")
    imported = importlib.import_module(f"{__name__}.{module}")
    return getattr(imported, attribute) if attribute else imported
