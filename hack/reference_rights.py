"""The part of `reference` about rights: each rule of the chart's roles, with its reason."""

import re
from collections.abc import Iterator

from hack.reference_tables import Say, row, table, translated
from kopf_kit.pack import documents
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rendered import NAME, Manifest, text
from kopf_kit.plugin.text import Text
from kopf_kit.rig.run import HackError

#: Values with which the chart creates every role that it has.
_EVERYTHING = (
    *("--set", "watchNamespaceSelector=messages=enabled", "--set", "metrics.secure.enabled=true"),
    *("--set", "metrics.secure.certManager.enabled=true"),
)
_USERS = PROJECT.kinds[0].crd
#: Titles of the sections, and who has the role where, by the roles' names.
_ROLES = {
    f"{NAME}.{NAME}": (
        Text("The operator, where it serves Messages", "Message를 처리하는 오퍼레이터"),
        Text(
            "A ClusterRole; with `watchNamespaces`, a Role with the same rules in each listed "
            "namespace.",
            "클러스터롤입니다. `watchNamespaces`를 지정하면 목록의 네임스페이스마다 같은 규칙의 "
            "롤을 만듭니다.",
        ),
    ),
    f"{NAME}-leader-election": (
        Text("The operator, in its own namespace", "자신의 네임스페이스에 있는 오퍼레이터"),
        Text(
            "A Role, with `leaderElection.enabled`, for the Lease.",
            "리스(Lease)를 위한 롤입니다. `leaderElection.enabled`를 지정하면 만듭니다.",
        ),
    ),
    f"{NAME}.{NAME}-metrics-reader": (
        Text("Who may read protected metrics", "보호된 메트릭을 읽는 사용자"),
        Text(
            "A ClusterRole, with `metrics.secure.enabled`, for you to bind to your Prometheus. "
            "The operator itself is then bound to Kubernetes' own role `system:auth-delegator`, "
            "so that it may ask the API server whose token a scraper has and what its owner may "
            "do.",
            "`metrics.secure.enabled`를 지정하면 만드는 클러스터롤입니다. 직접 프로메테우스에 "
            "바인딩하십시오. 이때 오퍼레이터는 쿠버네티스의 기본 롤 `system:auth-delegator`에 "
            "바인딩되어, 토큰의 소유자와 권한을 API 서버에 물을 수 있습니다.",
        ),
    ),
    f"{_USERS}-view": (
        Text("Who may view Messages", "Message를 조회하는 사용자"),
        Text(
            "A ClusterRole that becomes part of `view`, `edit` and `admin` "
            "(`crds.aggregateRoles`).",
            "`view`, `edit`, `admin`에 포함되는 클러스터롤입니다(`crds.aggregateRoles`).",
        ),
    ),
    f"{_USERS}-edit": (
        Text("Who may edit Messages", "Message를 수정하는 사용자"),
        Text(
            "A ClusterRole that becomes part of `edit` and `admin`.",
            "`edit`와 `admin`에 포함되는 클러스터롤입니다.",
        ),
    ),
    f"{_USERS}-admin": (
        Text("Who may install an operator", "오퍼레이터를 설치하는 사용자"),
        Text("A ClusterRole that becomes part of `admin`.", "`admin`에 포함되는 클러스터롤입니다."),
    ),
}


def roles(say: Say) -> Iterator[str]:
    """Yield a section for each role."""
    others = tuple(f"{kind.crd}-" for kind in PROJECT.kinds[1:])  # whose roles are the same
    rendered = {name: rules for name, rules in _rendered() if not name.startswith(others)}
    if odd := rendered.keys() ^ _ROLES.keys():
        raise HackError(
            f"hack/reference_rights.py and the chart have different roles: {', '.join(odd)}"
        )
    for name, (title, about) in _ROLES.items():
        yield f"\n## {say(*title)}"
        yield ""
        yield f"`{name}`. {say(*about)}"
        yield from table(say, "may", "what", "API group", "why")
        for rule, why in rendered[name]:
            named = f" `{', '.join(names)}`" if (names := rule.get("resourceNames")) else ""
            targets = rule.get("resources") or rule["nonResourceURLs"]
            what = ", ".join(f"`{target}`" for target in targets)
            groups = ", ".join(f"`{group or 'core'}`" for group in rule.get("apiGroups", []))
            yield row(", ".join(rule["verbs"]), what + named, groups, translated(say, why))


def _rendered() -> Iterator[tuple[str, list[tuple[Manifest, str]]]]:
    """Yield each role's name, and its rules with the comments above them."""
    for part in text(*_EVERYTHING).split("\n---\n"):
        manifest = documents.load(part)
        if manifest and manifest["kind"] in ("Role", "ClusterRole"):
            name, rules = manifest["metadata"]["name"], manifest["rules"]
            reasons = [*_comments(part.partition("\nrules:\n")[2])]
            if len(reasons) != len(rules) or "" in reasons:
                raise HackError(
                    f"a rule of the role {name} in {PROJECT.chart}/templates has no reason; "
                    "write a comment above it"
                )
            yield name, [*zip(rules, reasons, strict=True)]


def _comments(rules: str) -> Iterator[str]:
    """Yield the comment above each rule, or an empty text."""
    rule = r"((?:^ *# .*\n)*)^ *- (?:apiGroups|nonResourceURLs):"
    for comment in re.findall(rule, rules, re.MULTILINE):
        yield " ".join(line.strip("# ") for line in comment.splitlines())
