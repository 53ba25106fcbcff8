"""Every version that the project pins for its cluster, in one place.

The Go modules below hack/go/ repeat theirs with the sums of everything they are built from;
a unit test holds the two together. To move one: change it here, then in its folder below
hack/go/ run `go get <module>@<version> && go mod tidy`.
"""

#: The cluster's Kubernetes where the node image is built here; else kind chooses it.
KUBERNETES = "v1.34.4"
KIND = "v0.33.0"
HELM = "v3.22.0"
HELM4 = "v4.3.1"
ETCD = "v3.6.16"
COREDNS = "v1.15.0"
KWOK = "v0.8.0"
#: The Operator Lifecycle Manager, its `opm`, the probe that its catalogs are asked with, and
#: the catalogd of its next generation: of one module, so that what they share is built once.
OLM = "v0.46.0"
OPM = "v1.73.0"
GRPC_HEALTH_PROBE = "v0.4.53"
CATALOGD = "v1.11.0"
#: The validators of OLM's bundles, and the scorecard's tests: of the same module, too.
OPERATOR_API = "v0.45.0"
SCORECARD = "v1.42.3"

#: A Go on the PATH must be at least this; else the one of requirements/go.txt is used.
GO_MINIMUM = (1, 26, 3)

#: Images, as they are pulled where a registry is reached.
BUSYBOX = "1.37"
REGISTRY = "3"
PYTHON = "3.13"

#: Debian releases: the node's containerd, and the images' Python and BusyBox, come from them.
DEBIAN_NODE = "bookworm"
DEBIAN_IMAGES = "trixie"

#: Which versions found on the PATH are good enough, as (at least, below).
FITTING = {
    # kind: the configuration that hack/cluster.py writes, and the node image's way to boot.
    "kind": ((0, 31), (1, 0)),
    # kubectl: Kubernetes supports one minor version either side of the server's, and the
    # server is v1.34 where it is built here, v1.36 in kind's own node image.
    "kubectl": ((1, 33), (1, 38)),
    # helm: 3.17 is the first with --take-ownership, 3.18 with the sentences in which bad values are
    # refused. Its next major version serves as well; what depends on one of them names it.
    "helm": ((3, 18), (5, 0)),
    "helm3": ((3, 18), (4, 0)),
    "helm4": ((4, 0), (5, 0)),
}
