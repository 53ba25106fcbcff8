"""OLM's own validators, which the pipeline also runs on every bundle.

The pipeline's rules `check_osdk_bundle_validate_operatorhub` and `…_operator_framework` are these:
`operator-sdk bundle validate` has no others (hack/rig/go/olm-validate).
"""

from collections.abc import Mapping
from pathlib import Path

from hack.rig import golang
from hack.rig.run import output


def findings(bundle: Path, *container_tool: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each error or warning of theirs about a bundle.

    One of them inspects the images, and runs only with a container tool that pulls them.
    """
    program = golang.program("olm-validate")
    return output([program, bundle, *container_tool], timeout=300, env=env).splitlines()
