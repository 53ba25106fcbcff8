"""The images of etcd and the volumes that the end-to-end tests have, too."""

from tests.e2e.conftest import provided

__all__ = ["provided"]
