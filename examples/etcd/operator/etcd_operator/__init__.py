"""A Kubernetes operator for etcd: clusters, their backups, and restores."""

#: The version of the operator; image, chart and bundle follow. `kopf-kit bump` raises it.
__version__ = "0.1.0"
