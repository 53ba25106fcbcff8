"""The Memcached's operator with a function that validates; `reviews` measures it."""

from memcached_operator.operator import Memcached, Settings, controller, manager

import kopf_runtime as kr

#: What all nodes of a Memcached may cache, in megabytes; the peer in Go has the same.
MOST = 1024


@controller.validate(operations=("create", "update"))
def affordable(memcached: Memcached, _: kr.ReviewContext[Settings]) -> None:
    """Refuse a Memcached that caches too much."""
    wanted = memcached.spec.replicas * memcached.spec.limits.memory
    if wanted > MOST:
        raise kr.Denied(f"All nodes may cache {MOST} MB, and these {wanted}.")


if __name__ == "__main__":
    raise SystemExit(manager.run())
