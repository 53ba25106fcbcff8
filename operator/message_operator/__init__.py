"""A Kubernetes operator, on kopf, that turns every ``Message`` into a Pod that prints it."""

#: The project's version: the one place it is written.
#: `make bump VERSION=x.y.z` raises it; image, chart, bundle, catalog and documents follow.
__version__ = "0.1.0"
