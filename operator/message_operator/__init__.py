"""A Kubernetes operator, on kopf, that turns every ``Message`` into a Pod that prints it."""

#: The project's version: the one place it is written.
#: The image's tag, the chart and its appVersion, the bundle and the catalog follow it.
__version__ = "0.1.0"
