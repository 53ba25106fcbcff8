"""A Kubernetes operator, on kopf, that turns every ``Message`` into a Pod that prints it."""

#: The project's version, which is written only here.
#: `make bump VERSION=x.y.z` changes it; image, chart, bundle, catalog and documents follow.
__version__ = "0.1.0"
