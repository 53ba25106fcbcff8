"""The operator: what its modules declare, on one manager.

`make generate` derives the CustomResourceDefinition and the RBAC rules from what is declared there.
"""

from etcd_operator import backups, clusters, metrics, restores
from etcd_operator.settings import Settings, manager

__all__ = ["Settings", "backups", "clusters", "manager", "metrics", "restores"]
