"""docs/versions.md: its example is what it says."""

import re
from typing import Any

from kopf_kit.rig.paths import CHECKOUT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_declares_two_versions_and_loses_nothing() -> None:
    names: dict[str, Any] = {"__name__": "versions"}
    for block in BLOCK.findall((CHECKOUT / "docs" / "versions.md").read_text()):
        exec(block, names)  # noqa: S102

    names["test_no_version_loses_anything"]()

    metadata = {"name": "one", "namespace": "ns"}
    large = {
        "apiVersion": "cache.example.com/v1beta1", "kind": "Memcached", "metadata": metadata,
        "spec": {"nodes": 3, "memoryMb": 128},
    }  # fmt: skip
    versions = names["controller"].versions
    old = versions.convert(large, "cache.example.com/v1alpha1")
    assert old["spec"] == {"size": 3}
    old["spec"]["size"] = 5
    assert versions.convert(old, large["apiVersion"])["spec"] == {"nodes": 5, "memoryMb": 128}
