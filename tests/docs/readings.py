"""Which pages are read on which cluster; every other console block says why it is not run."""

from dataclasses import dataclass, field
from pathlib import Path

from hack import home
from kopf_kit.rig import registry
from message_operator import __version__
from tests.support.console import Block, blocks

CHECKOUT = Path(__file__).parents[2]
#: The first page, the tutorial, the guides, the runbooks, and what charts and OLM tell.
#: Korean pages have the same commands; the examples have the pages of every author.
PAGES = sorted(
    str(page.relative_to(CHECKOUT))
    for pattern in ("*.md", "docs/*.md", "charts/*/*.md", "olm/*.md")
    for page in CHECKOUT.glob(pattern)
    if not page.name.endswith(".ko.md")
)


def _blocks(page: str) -> list[Block]:
    return list(blocks((CHECKOUT / page).read_text()))


@dataclass(frozen=True)
class Reading:
    """Somebody reads a page from top to bottom, or these sections of it."""

    page: str
    sections: tuple[str, ...] = ()
    #: What the reader puts in the place of words of the page.
    words: dict[str, str] = field(default_factory=dict)
    #: Commands that make the situation which the page is about, and those that end or check it.
    given: tuple[str, ...] = ()
    afterwards: tuple[str, ...] = ()

    def blocks(self) -> list[Block]:
        """Return the blocks that are run."""
        return [
            block
            for block in _blocks(self.page)
            if not block.reason
            and (not self.sections or {block.section, block.heading} & {*self.sections})
        ]

    def __str__(self) -> str:
        """Return the page, and its sections."""
        return ": ".join((self.page, *self.sections[:1]))


#: A team whose quota has room for one Pod, which it has, so that a second Message fails.
_TEAM = """\
kubectl create namespace team
kubectl -n team create quota small --hard=pods=1
kubectl -n team apply -f examples/hello.yaml
kubectl -n team wait --for=condition=Ready message/hello-msg
kubectl -n team apply -f - <<'EOF'
apiVersion: myorg.dev/v1
kind: Message
metadata: {name: broken}
spec: {text: another text}
EOF
kubectl -n team wait --for=jsonpath='{.status.phase}'=Failed message/broken"""
_NO_TEAM = "kubectl delete namespace team --ignore-not-found"
#: A user of the team, with a home folder of their own and a kubeconfig for the team's namespace.
_USER = """\
XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache} YOURS=$(mktemp -d -t home-of-you.XXXXXX)
cp "$KUBECONFIG" "$YOURS/config"
HOME=$YOURS
export HOME XDG_CACHE_HOME PATH="$PATH:$HOME/.local/bin" KUBECONFIG="$HOME/config"
kubectl config set-context --current --namespace=team"""
_NO_USER = 'rm -r "$YOURS"'
#: No node takes a Pod: a Message waits.
_CORDON = """\
kubectl cordon --selector=kubernetes.io/os=linux
kubectl create namespace team
kubectl -n team apply -f examples/hello.yaml
kubectl -n team wait --for=jsonpath='{.status.phase}'=Pending message/hello-msg"""
_UNCORDON = "kubectl uncordon --selector=kubernetes.io/os=linux"
#: An operator's container that was started again.
_RESTART = """\
kubectl -n message-operator exec deployment/message-operator -- \\
    python3 -c 'import os, signal; os.kill(1, signal.SIGTERM)'
until kubectl -n message-operator logs deployment/message-operator --previous --tail=1
do sleep 1; done
kubectl -n message-operator rollout status deployment/message-operator --timeout=5m"""

#: Of the runbooks, as they explain them.
_WORDS = {
    "NAMESPACE": "message-operator",
    "OPERATOR": "message-operator",
    "TEAM": "team",
    "NAME": "broken",
    "POD": "$(kubectl -n message-operator get pods -o name | head -n 1)",
}
_IMAGE = "make docker-build docker-push"
_OF_IMAGE = f"--set image.registry={registry.ADDRESS},image.repository=message-operator --wait"
_INSTALL = f"""\
{_IMAGE}
helm install message-operator charts/message-operator --timeout=5m \\
    --namespace message-operator --create-namespace {_OF_IMAGE}"""
#: The chart as it is here, with the image that is built here.
_OURS = home.declared()
_CHARTS = {
    f"oci://{_OURS.registry}/charts/message-operator": f"charts/message-operator {_OF_IMAGE}",
}
_ARGOCD = "kubectl create namespace argocd && kubectl -n argocd create configmap argocd-cm"
_SCRAPERS = "message-operator.message-operator-metrics-reader"
_RUNS = "kubectl -n message-operator rollout status deployment/message-operator --timeout=5m"
#: The same sources make the same image. The kubelet remembers by its digest what it pulled itself,
#: and would pull it again under another name, so the one that is loaded has to be another one.
_BUILD_DEV = "make docker-build IMG=message-operator:dev"
_RELABEL = """\
made=$(docker create message-operator:dev) \\
    && docker commit --change 'LABEL of=docs-test' "$made" message-operator:dev \\
    && docker rm "$made\""""
#: The files of a release, as they are generated here.
FILES = {
    f"{_OURS.page}/releases/{path}": "build/deploy"
    for path in (f"download/v{__version__}", "latest/download")
}
_REGISTRY = {"registry.example.com": registry.ADDRESS}


_RUNBOOKS = "docs/runbooks.md"


def _runbook(alert: str) -> Reading:
    page, sections = _RUNBOOKS, (alert,)
    match alert.removeprefix("MessageOperator"):
        case "Forbidden" | "MessagesFailed" | "Unserved":
            return Reading(page, sections, _WORDS, (_TEAM,), (_NO_TEAM,))
        case "MessagesPending":
            return Reading(
                page, sections, {**_WORDS, "NAME": "hello-msg"}, (_CORDON,), (_UNCORDON, _NO_TEAM)
            )
        case "Down" | "Restarting":
            return Reading(page, sections, _WORDS, (_RESTART,))
        case _:
            return Reading(page, sections, _WORDS)


#: On a cluster without the operator.
WITHOUT_OPERATOR = (
    Reading("README.md", ("Install it",), _REGISTRY, afterwards=(_RUNS,)),
    Reading("docs/install.md", ("With Helm",), _REGISTRY),
    Reading("docs/install.md", ("Without Helm",), FILES, ("make generate",)),
    Reading(
        "docs/install.md",
        ("On your platform",),
        {"--name kind": '--name "$KIND_CLUSTER_NAME"', _BUILD_DEV: f"{_BUILD_DEV} && {_RELABEL}"},
        afterwards=(_RUNS,),
    ),
    Reading("docs/operate.md", ("Upgrade and roll back",), given=(_INSTALL,)),
    Reading("docs/operate.md", ("Tenants and watched namespaces",), given=(_INSTALL,)),
    Reading("docs/operate.md", ("Uninstall with Helm",), given=(_INSTALL,)),
    Reading(
        "docs/operate.md",
        ("Uninstall without Helm",),
        given=("make generate", "kubectl apply -f build/deploy/install.yaml"),
        afterwards=("kubectl delete crd messages.myorg.dev",),
    ),
    Reading(
        "charts/message-operator/README.md",
        ("Install", "Upgrade", "Uninstall"),
        _CHARTS,
        (_IMAGE, "kubectl create namespace other"),
    ),
    Reading(
        "charts/message-operator/README.md",
        ("GitOps", "Metrics that only some may read", "Namespaces that come and go"),
        _CHARTS,
        (_INSTALL, _ARGOCD, "kubectl create namespace team-a"),
        (f"kubectl delete clusterrolebinding {_SCRAPERS}",),
    ),
)
#: On the cluster of `make demo`.
AFTER_DEMO = (
    Reading("docs/messages.md", (), FILES, ("make generate",)),
    Reading("docs/monitoring.md"),
    Reading("docs/install.md", ("GitOps and Terraform",)),
    Reading("docs/plugin.md", (), {}, (_TEAM, _USER), (_NO_TEAM, _NO_USER)),
    *map(_runbook, dict.fromkeys(block.section for block in _blocks(_RUNBOOKS))),
    Reading(
        "olm/description.md",
        (),
        {"logs -f": "logs --tail=1"},
        ("kubectl apply -f examples/hello.yaml",),
    ),
    Reading("docs/tutorial.md"),
)


def not_run() -> list[tuple[str, Block]]:
    """Return the blocks that are not run, with their pages; each says why."""
    return [(page, block) for page in PAGES for block in _blocks(page) if block.reason]


def unread() -> list[str]:
    """Return the places of the blocks that nobody reads, and that do not say why."""
    readings = (*WITHOUT_OPERATOR, *AFTER_DEMO)
    read = {(reading.page, block.line) for reading in readings for block in reading.blocks()}
    return [
        f"{page}:{block.line}"
        for page in PAGES
        for block in _blocks(page)
        if not block.reason and (page, block.line) not in read
    ]
