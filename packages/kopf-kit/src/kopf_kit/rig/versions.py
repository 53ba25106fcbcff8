"""Every version that the project pins for its cluster, in one place.

kopf_offline/derived.py has the hash of what each set of Go modules is made of. To raise one here,
build one of its programs: what is refused then names the right hash. Not every patch is served;
take another one if it is not.
"""

#: The Go modules whose programs are built. Renovate reads these lines.
MODULES = {
    "github.com/coredns/coredns": "v1.15.0",
    "github.com/grpc-ecosystem/grpc-health-probe": "v0.4.53",
    "github.com/operator-framework/api": "v0.45.0",
    "github.com/operator-framework/operator-controller": "v1.11.0",
    "github.com/operator-framework/operator-lifecycle-manager": "v0.46.0",
    "github.com/operator-framework/operator-registry": "v1.73.0",
    "github.com/operator-framework/operator-sdk": "v1.42.3",
    "github.com/rhysd/actionlint": "v1.7.12",
    "go.etcd.io/etcd/server/v3": "v3.7.3",
    "helm.sh/helm/v3": "v3.22.0",
    "helm.sh/helm/v4": "v4.3.1",
    "k8s.io/kubernetes": "v1.37.2",
    "sigs.k8s.io/kind": "v0.33.0",
    "sigs.k8s.io/kwok": "v0.8.0",
    "github.com/zegl/kube-score": "v1.20.0",
    "github.com/yannh/kubeconform": "v0.8.0",
    "github.com/anishathalye/porcupine": "v1.3.1",
    "github.com/google/go-containerregistry": "v0.22.1",
    "github.com/sigstore/cosign/v3": "v3.1.3",
    "github.com/versity/versitygw": "v1.8.0",
}
#: Each older Kubernetes that the operator is proved on, by its minor version.
OLDER = {
    "1.29": "v1.29.15",
    "1.30": "v1.30.14",
    "1.31": "v1.31.4",
    "1.32": "v1.32.9",
    "1.33": "v1.33.5",
    "1.34": "v1.34.4",
    "1.35": "v1.35.8",
    "1.36": "v1.36.4",
}
#: Each etcd that is built, by its minor version; the newest is the control plane's.
ETCDS = {"3.5": "v3.5.35", "3.6": "v3.6.16", "3.7": "v3.7.3"}


def minor(version: str) -> str:
    """Return a Kubernetes version without its patch: 1.37 for v1.37.2."""
    return ".".join(version.removeprefix("v").split(".")[:2])


#: The cluster's Kubernetes if the node image is built here. Otherwise kind chooses it, unless the
#: variable KUBERNETES does.
KUBERNETES = MODULES["k8s.io/kubernetes"]
#: The Kubernetes versions that the operator is proved on, by their minor version, the oldest
#: first. Charts, bundles and tests take their range from here.
PROVED = {**OLDER, minor(KUBERNETES): KUBERNETES}
OLDEST, *_, NEWEST = PROVED
#: Programs of Kubernetes that are built as one file, and those that are also built from an older
#: Kubernetes, such as kube-apiserver-1.35.
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
IN_ONE_FILE = (*CONTROL_PLANE, "kube-proxy", "kubeadm", "kubelet")
KIND = MODULES["sigs.k8s.io/kind"]
#: kind's node images, from the notes of that release of kind, which has none for older ones.
NODES = {
    "1.34": "docker.io/kindest/node:v1.34.11@sha256:"
    "44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
    "1.35": "docker.io/kindest/node:v1.35.8@sha256:"
    "07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
    "1.36": "docker.io/kindest/node:v1.36.4@sha256:"
    "099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
    "1.37": "docker.io/kindest/node:v1.37.0@sha256:"
    "a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
}
HELM = MODULES["helm.sh/helm/v3"]
HELM4 = MODULES["helm.sh/helm/v4"]
ETCD = MODULES["go.etcd.io/etcd/server/v3"]
ETCD_PARTS = ("etcd", "etcdutl")
NEWEST_ETCD = minor(ETCD)
#: Those that are built beside it, such as etcd-3.6 and etcdutl-3.6, for an operator's tests.
OLDER_ETCD = {old: version for old, version in ETCDS.items() if old != NEWEST_ETCD}
KWOK = MODULES["sigs.k8s.io/kwok"]
#: The Operator Lifecycle Manager, its `opm`, and OLM v1's catalogd.
OLM = MODULES["github.com/operator-framework/operator-lifecycle-manager"]
OPM = MODULES["github.com/operator-framework/operator-registry"]
CATALOGD = MODULES["github.com/operator-framework/operator-controller"]
#: The scorecard's tests.
SCORECARD = MODULES["github.com/operator-framework/operator-sdk"]

#: Every program that kopf-offline builds, with its version.
PROGRAMS = {
    **dict.fromkeys(("kubernetes", "kubectl", *IN_ONE_FILE), KUBERNETES),
    **{f"{name}-{old}": version for old, version in OLDER.items() for name in CONTROL_PLANE},
    "kind": KIND,
    "helm": HELM,
    "helm4": HELM4,
    **dict.fromkeys((*ETCD_PARTS, "etcdctl"), ETCD),
    **{f"{name}-{old}": version for old, version in OLDER_ETCD.items() for name in ETCD_PARTS},
    "coredns": MODULES["github.com/coredns/coredns"],
    "pause": "v1",
    "kwok": KWOK,
    **dict.fromkeys(("olm", "catalog", "package-server", "copy-content", "cpb"), OLM),
    "opm": OPM,
    "olm-validate": MODULES["github.com/operator-framework/api"],
    "scorecard-test": SCORECARD,
    "grpc_health_probe": MODULES["github.com/grpc-ecosystem/grpc-health-probe"],
    **dict.fromkeys(("olmv1-render", "catalogd"), CATALOGD),
    "actionlint": MODULES["github.com/rhysd/actionlint"],
    "cosign": MODULES["github.com/sigstore/cosign/v3"],
    "crane": MODULES["github.com/google/go-containerregistry"],
    "kube-score": MODULES["github.com/zegl/kube-score"],
    "kubeconform": MODULES["github.com/yannh/kubeconform"],
    "linearizable": MODULES["github.com/anishathalye/porcupine"],
    "versitygw": MODULES["github.com/versity/versitygw"],
}

#: The oldest usable Go on the PATH; if it is older, the one in requirements.txt is used.
GO_MINIMUM = (1, 26, 3)

#: Public images, which are pulled if a registry can be reached.
BUSYBOX = "1.37"
REGISTRY = "3"
PYTHON = "3.13"

#: Debian releases: the node's containerd, and the images' Python and BusyBox, come from them.
DEBIAN_NODE = "bookworm"
DEBIAN_IMAGES = "trixie"

#: The usable versions of tools on the PATH, as (at least, below).
FITTING = {
    # kind: the configuration that kopf_kit/rig/kind.py writes, and the node image's way to boot.
    "kind": ((0, 31), (1, 0)),
    # kubectl: Kubernetes supports one minor version either side of the server's, and the
    # server is v1.37 where it is built here, and from v1.34 on in the node images of these kinds.
    "kubectl": ((1, 35), (1, 39)),
    # helm: 3.17 is the first with --take-ownership, 3.18 with the sentences in which bad values are
    # refused. Its next major version serves as well; what depends on one of them names it.
    "helm": ((3, 18), (5, 0)),
    "helm3": ((3, 18), (4, 0)),
    "helm4": ((4, 0), (5, 0)),
    # crane and cosign: those that are pinned here, and newer ones; older ones were not tried.
    "crane": ((0, 22), (1, 0)),
    "cosign": ((3, 1), (4, 0)),
}
