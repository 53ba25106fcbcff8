"""The operator of the classic tutorial: a Memcached is a number of nodes, kept by a Deployment."""

#: The version of the operator; image, chart and bundle follow. `kopf-kit bump` raises it.
__version__ = "0.1.0"
