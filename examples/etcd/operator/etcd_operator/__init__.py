"""A Kubernetes operator: a ConfigMap holds the text of each object of its kind."""

#: The version of the operator; image, chart and bundle follow. `kopf-kit bump` raises it.
__version__ = "0.1.0"
