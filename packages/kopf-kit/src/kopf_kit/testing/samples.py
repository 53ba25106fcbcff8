"""What `kopf-kit e2e` tests where there is no folder tests/e2e: an operator serves its samples."""

from pathlib import Path

import pytest

from kopf_kit.pack.project import PROJECT
from kopf_kit.testing.installed import Kubectl
from kopf_kit.testing.waiting import wait_until

_SAMPLES = [file for kind in PROJECT.kinds for file in PROJECT.samples[kind.kind]]


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda file: file.stem)
def test_the_operator_takes_up_a_sample_and_lets_it_go(kubectl: Kubectl, sample: Path) -> None:
    """Wait until somebody else than kubectl has written the object; delete it."""
    named = f"--filename={sample}"
    kubectl("apply", named)

    def writers() -> set[str]:
        manifest = kubectl.get(named, "--show-managed-fields")
        return {
            entry["manager"].partition("-")[0] for entry in manifest["metadata"]["managedFields"]
        }

    wait_until("the operator to write it", writers, lambda names: names - {"kubectl"})
    kubectl("delete", named, "--timeout=120s")
