"""What the parts of all controllers of a process share."""

from dataclasses import dataclass
from typing import Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.reporting.events import Recorder


@dataclass
class Deps:
    """The client, the metrics, the recorder of Events, and the settings."""

    client: Client
    metrics: Metrics
    recorder: Recorder
    #: An author's own class; `manager` replaces them once, by what `adapt` returns.
    settings: Any
