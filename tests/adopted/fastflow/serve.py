"""What fastflow registers, for one replica: by its own settings it would wait for its peers."""

import fastflow  # noqa: F401 (its handlers)
import kopf


@kopf.on.startup()
def serve_alone(settings: kopf.OperatorSettings, **_: object) -> None:
    """Let kopf begin without peers, as `--standalone` alone does not."""
    settings.peering.mandatory = False
