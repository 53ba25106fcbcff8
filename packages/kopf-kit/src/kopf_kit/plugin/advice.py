"""Advice about an operator, and a warning about what only looks like one."""

from __future__ import annotations

from kopf_kit.plugin.findings import NOTE, Finding
from kopf_kit.plugin.operators import Operator
from kopf_kit.plugin.text import Text, some

#: What the administrators of a namespace installed, they could have made to be misunderstood: a
#: `helm upgrade` or `helm rollback` by somebody else would give it what they ask for.
THEIRS = Text(
    "Leave it to the administrators of {which}: they alone vouch for this operator. Unless you "
    "installed it yourself, grant it nothing, and run no helm command for it.",
    "{which} 네임스페이스의 관리자에게 맡기십시오. 이 오퍼레이터는 그 관리자만 보증합니다. 직접 "
    "설치한 것이 아니라면 권한을 부여하거나 helm 명령을 실행하지 마십시오.",
)
IGNORED = Text(
    "ignored: {which}. Whoever may edit a namespace can make what looks like an operator there",
    "무시함: {which}. 네임스페이스를 편집할 수 있는 사용자는 오퍼레이터처럼 보이는 것을 만들 수 "
    "있습니다",
)
YOURS = Text(
    "If you installed one of them yourself, install it again from your own chart or manifests: no "
    "role or binding of the cluster names it.",
    "직접 설치한 것이 있으면 가지고 있는 차트나 매니페스트로 다시 설치하십시오. 그것을 가리키는 "
    "클러스터의 롤이나 바인딩이 없습니다.",
)


def about(operator: Operator, finding: Finding) -> Finding:
    """Return a finding that names its operator, with advice that is safe to follow."""
    if operator.only is not None and finding.todo is not None:
        finding = finding._replace(todo=THEIRS.format(which=some(operator.only)))
    return finding._replace(about=operator.title)


def ignored(alike: list[str]) -> Finding:
    """Return what is said of Deployments that only look like an operator."""
    return Finding(NOTE, IGNORED.format(which=some(alike)), YOURS)
