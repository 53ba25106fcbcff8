"""What `kubectl message --help` prints."""

from __future__ import annotations

from kopf_kit.kubectl.text import Text

HELP = Text(
    """\
Say how Messages fare, why, and what to do about it.

Usage: kubectl message COMMAND [OPTION ...]

Commands:
  status           all Messages at a glance
    -A             of all namespaces
    -w             live, until Ctrl-C
    -o json        for scripts
  why NAME         what a Message waits for or fails at, and what to do
  why -f FILE      what the API server says of a manifest; nothing is created
  logs NAME        what its Pod prints; -f, -p, -t, --tail, --since as in kubectl logs
  doctor           is the operator installed, ready, leading, allowed; is all served
  explain REASON   what a reason, Event or alert means; without one, all of them
  support-bundle   a file for those who help you: no Secrets, no texts; -f FILE.tar.gz

Options, as in kubectl:
  -n, --namespace  where the Message is; without it, the current context's namespace
  --context, --kubeconfig, --cluster, --user, --server, --as, --as-group, --request-timeout
  --version, -h, --help

Exit codes:
  0  nothing is wrong           2  the command line is wrong
  1  something is wrong         3  it cannot be told: no kubectl, cluster, right, Message, file

The language follows the locale (LC_ALL, LANG). NO_COLOR turns the colours off.
Version {version}: https://github.com/myorg/message-operator
""",
    """\
Message의 상태와 그 이유, 할 일을 알려 줍니다.

사용법: kubectl message 명령 [옵션 ...]

명령:
  status           Message 전체를 한눈에
    -A             모든 네임스페이스
    -w             실시간으로, Ctrl-C를 누를 때까지
    -o json        스크립트용
  why NAME         Message가 기다리는 것이나 실패한 이유, 할 일
  why -f FILE      매니페스트에 대한 API 서버의 판단. 아무것도 만들지 않습니다
  logs NAME        파드의 출력. -f, -p, -t, --tail, --since는 kubectl logs와 같습니다
  doctor           오퍼레이터의 설치, 준비, 리더, 권한, 처리하는 네임스페이스 점검
  explain REASON   이유(reason)나 이벤트, 알림의 뜻. 지정하지 않으면 모두 나열합니다
  support-bundle   지원을 요청할 때 보낼 파일. 시크릿과 텍스트는 담지 않습니다. -f FILE.tar.gz

옵션 (kubectl과 같음):
  -n, --namespace  Message의 네임스페이스. 없으면 현재 컨텍스트의 네임스페이스
  --context, --kubeconfig, --cluster, --user, --server, --as, --as-group, --request-timeout
  --version, -h, --help

종료 코드:
  0  문제없음                    2  명령을 잘못 입력함
  1  문제가 있음                 3  알 수 없음: kubectl, 클러스터, 권한, Message, 파일이 없음

언어는 로케일(LC_ALL, LANG)을 따릅니다. NO_COLOR를 설정하면 색을 쓰지 않습니다.
버전 {version}: https://github.com/myorg/message-operator
""",
)
