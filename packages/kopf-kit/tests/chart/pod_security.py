"""The Pod Security Standard "restricted", as the admission of an API server has it."""

from collections.abc import Mapping

import pytest

from chart.helm import Manifest
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.api_server import kubectl, running

_HOME = {"name": "home", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
_BARE = {"containers": [{"name": "main", "image": "i"}]}


def check(pods: Mapping[str, Manifest]) -> None:
    """Fail where such a namespace refuses one of these Pod specifications, given by name."""
    # Whatever else they name need not be there.
    with running("--disable-admission-plugins=ServiceAccount,Priority,RuntimeClass") as plane:
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": _HOME}
        kubectl(plane, "create", "--filename=-", stdin=[home])
        with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
            _create(plane, {"bare": _BARE})

        _create(plane, pods)


def _create(plane: ControlPlane, pods: Mapping[str, Manifest]) -> None:
    kubectl(
        plane,
        *("create", "--dry-run=server", "--namespace=home", "--filename=-"),
        stdin=[
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            for name, spec in pods.items()
        ],
    )
