"""Why kubectl fails, according to its output, and what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

from kopf_kit.plugin import subject
from kopf_kit.plugin.text import Text


class Refusal(NamedTuple):
    """One way in which kubectl fails."""

    key: str
    #: A pattern of kubectl's output.
    pattern: str
    says: Text
    todo: Text


MISSING = Refusal(
    "missing",
    r"^$",
    Text("kubectl is not installed.", "kubectl이 설치되어 있지 않습니다."),
    Text(
        "Install it, or put it on the PATH: https://kubernetes.io/docs/tasks/tools/",
        "kubectl을 설치하거나 PATH에 추가하십시오: https://kubernetes.io/ko/docs/tasks/tools/",
    ),
)
SLOW = Refusal(
    "unreachable",
    r"^$",
    Text("kubectl has not answered in time.", "kubectl이 제때 응답하지 않았습니다."),
    Text(
        "Is the cluster reachable? Try: kubectl get --raw /readyz",
        "클러스터에 연결할 수 있는지 확인하십시오: kubectl get --raw /readyz",
    ),
)
OTHER = Refusal(
    "other",
    r"",
    Text("kubectl has failed.", "kubectl이 실패했습니다."),
    Text("What it says is below.", "kubectl의 출력은 아래에 있습니다."),
)
#: What the API server says if a webhook or a policy refuses an object.
ADMISSION = r"admission webhook .* denied|ValidatingAdmissionPolicy"
#: Why a file cannot be tried: kubectl does not ask its API server, or the user lacks the right.
FILES = (
    Refusal(
        "unreadable",
        r"(?m)^error: .*(the path .* does not exist|permission denied|unable to read URL"
        r"|error reading \[)",
        Text("The file {file} cannot be read.", "{file} 파일을 읽을 수 없습니다."),
        Text(
            "Check the path, and whether you may read it. In a folder, only .yaml, .yml and .json "
            "files count.",
            "경로와 읽기 권한을 확인하십시오. 폴더를 지정했다면 .yaml, .yml, .json 파일만 "
            "읽습니다.",
        ),
    ),
    Refusal(
        "no-manifest",
        r"(?m)^error: .*(error parsing |invalid object to validate|(apiVersion|kind) not set"
        r"|no objects passed to apply|unable to decode)",
        Text("The file {file} is not a manifest.", "{file} 파일은 매니페스트가 아닙니다."),
        Text(
            "It must be YAML or JSON with apiVersion, kind, metadata and spec; "
            "`kubectl explain {crd}` lists the fields.",
            "apiVersion, kind, metadata, spec이 있는 YAML이나 JSON이어야 합니다. "
            "필드는 `kubectl explain {crd}` 명령으로 확인하십시오.",
        ),
    ),
    Refusal(
        "no-right",
        rf'(?s)^(?!.*({ADMISSION})).*is forbidden: User "[^"]*" cannot ',
        Text("You may not create what is in {file}.", "{file}의 오브젝트를 만들 권한이 없습니다."),
        Text(
            "Ask an administrator for the ClusterRole {crd}-edit in your namespace, or name a "
            "namespace that you may write in: -n NAMESPACE",
            "관리자에게 네임스페이스의 ClusterRole {crd}-edit을 요청하거나, 쓸 수 있는 "
            "네임스페이스를 지정하십시오: -n NAMESPACE",
        ),
    ),
)
#: The first one whose pattern matches is used.
REFUSALS = (
    Refusal(
        "no-kind",
        r"doesn't have a resource type|no matches for kind|could not find the requested resource",
        Text(
            "The cluster does not know the kind {kind}: its CRD is missing.",
            "클러스터에 {kind} 종류(kind)가 없습니다. CRD가 설치되어 있지 않습니다.",
        ),
        Text(
            "Install the operator's chart with crds.install=true, or apply crds.yaml of a release. "
            "Is it the right cluster? kubectl config current-context",
            "오퍼레이터의 차트를 crds.install=true로 설치하거나 릴리스의 crds.yaml을 적용하십시오. "
            "클러스터가 맞는지도 확인하십시오: kubectl config current-context",
        ),
    ),
    Refusal(
        "forbidden",
        r"\(Forbidden\)",
        Text("The cluster does not allow you to look.", "클러스터에서 조회할 권한이 없습니다."),
        Text(
            "Ask an administrator for the ClusterRole {crd}-view in your namespace, "
            "or name a namespace that you may read: -n NAMESPACE",
            "관리자에게 네임스페이스의 ClusterRole {crd}-view를 요청하거나, "
            "조회할 수 있는 네임스페이스를 지정하십시오: -n NAMESPACE",
        ),
    ),
    Refusal(
        "login",
        r"\(?Unauthorized\)?|must be logged in|getting credentials|asked for the client to provide",
        Text("The cluster does not accept your login.", "클러스터가 로그인 정보를 거부했습니다."),
        Text(
            "Log in again as your cluster asks for it; `kubectl auth whoami` tells if it worked.",
            "클러스터에 다시 로그인하십시오. `kubectl auth whoami`로 확인할 수 있습니다.",
        ),
    ),
    Refusal(
        "not-found",
        r"\(NotFound\)",
        Text("What you asked for is not there.", "찾는 것이 없습니다."),
        Text("Check the name and the namespace.", "이름과 네임스페이스를 확인하십시오."),
    ),
    Refusal(
        "config",
        r"Error in configuration|context .* does not exist|no context exists"
        r"|no configuration has been provided|error loading config"
        r"|stat .*: no such file|invalid configuration"
        r"|cluster .* does not exist|auth info .* does not exist|localhost:8080",
        Text(
            "The kubeconfig does not say which cluster to ask.",
            "kubeconfig에서 클러스터를 찾을 수 없습니다.",
        ),
        Text(
            "List what there is with `kubectl config get-contexts`; choose one with --context, "
            "or another file with --kubeconfig.",
            "`kubectl config get-contexts`로 목록을 보고 --context로 고르거나, --kubeconfig로 다른 "
            "파일을 지정하십시오.",
        ),
    ),
    Refusal(
        "old",
        r"unknown flag|unknown shorthand flag|unknown command",
        Text("This kubectl is too old.", "kubectl이 너무 오래되었습니다."),
        Text(
            "Install one of the cluster's version: https://kubernetes.io/docs/tasks/tools/",
            "클러스터와 같은 버전을 설치하십시오: https://kubernetes.io/ko/docs/tasks/tools/",
        ),
    ),
    Refusal(
        "unreachable",
        r"Unable to connect|was refused|dial tcp|i/o timeout|no such host|TLS handshake|x509"
        r"|deadline exceeded|Client\.Timeout|request canceled|ServiceUnavailable"
        r"|EOF|connection reset|unable to handle the request",
        Text("The cluster does not answer.", "클러스터가 응답하지 않습니다."),
        Text(
            "Is it up, and are network, VPN and proxy as they should be? "
            "Try: kubectl get --raw /readyz",
            "클러스터가 켜져 있는지, 네트워크와 VPN, 프록시를 확인하십시오: kubectl get --raw "
            "/readyz",
        ),
    ),
)


def refusal(message: str) -> Refusal:
    """Return the cause of a failure of kubectl with this output."""
    return _filled(next((case for case in REFUSALS if re.search(case.pattern, message)), OTHER))


def of_file(message: str) -> Refusal | None:
    """Return why a file cannot be tried, or None if the API server says what is wrong with it."""
    cases = (case for case in FILES if re.search(case.pattern, message))
    return next(map(_filled, cases), None)


def _filled(refusal: Refusal) -> Refusal:
    """Return a refusal whose sentences name the kind."""
    kind = subject.current().kinds[0]
    words = {"kind": kind.kind, "crd": kind.resource, "file": "{file}"}
    return refusal._replace(says=refusal.says.format(**words), todo=refusal.todo.format(**words))
