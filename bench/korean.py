"""The labels of the tables in Korean; used by `report`."""

_LABELS = {
    "Six measures: this operator and its peers": "여섯 가지 측정: 이 오퍼레이터와 비교 대상",
    # When and where
    "Measured by `make bench`, {repeats} repeats, on {processors} processors ({cpu}), {memory}, "
    "{system}: {taken}.":
        "`make bench`로 {repeats}번씩, 프로세서 {processors}개({cpu}), {memory}, {system}에서 "
        "측정했습니다. 측정한 때: {taken}.",
    "{name} on {when}": "{name} {when}",
    "{name} on {when} (load average {load})": "{name} {when}(부하 평균 {load})",
    "Versions": "버전",
    # Operators
    "controller-runtime, 1 worker": "controller-runtime, 워커 1개",
    "controller-runtime, 10 workers": "controller-runtime, 워커 10개",
    "kopf as in tutorials": "튜토리얼 방식의 kopf",
    "the floor: a bare client": "하한: 단순 클라이언트",
    "the tutorial's operator in Go": "튜토리얼의 Go 오퍼레이터",
    # Goals
    "measure": "항목",
    "goal: at most": "목표(이하)",
    "median (spread)": "중앙값(범위)",
    "verdict": "판정",
    "met": "달성",
    "**missed**": "**미달**",
    "not measured": "측정하지 않음",
    "backlog, to the last Pod": "밀린 작업, 마지막 파드까지",
    "backlog, to the last status": "밀린 작업, 마지막 상태까지",
    "live edits, to the last correct Pod": "실행 중 수정, 마지막 올바른 파드까지",
    "live edits, to the last status": "실행 중 수정, 마지막 상태까지",
    "one create, p50": "Message 하나 생성, p50",
    "one create, p99": "Message 하나 생성, p99",
    "backlog with 1% of the answers lost, to the last Pod":
        "응답의 1%가 유실될 때 밀린 작업, 마지막 파드까지",
    "one create while a webhook hangs for other Messages, p50":
        "다른 Message에서 웹훅이 멈춘 동안 하나 생성, p50",
    " × the usual": " × 평소",
    "writes per create (Pod, status, Event)": "생성 하나의 쓰기 수(파드, 상태, 이벤트)",
    "writes per edit (DELETE, POST, status, Event)":
        "수정 하나의 쓰기 수(DELETE, POST, 상태, 이벤트)",
    "writes per deletion": "삭제 하나의 쓰기 수",
    "writes while idle, except the Lease": "할 일이 없을 때의 쓰기 수(리스 제외)",
    "CPU of the backlog, including the start": "밀린 작업의 CPU(시작 포함)",
    "CPU of the live edits": "실행 중 수정의 CPU",
    "CPU of tracing while it is off": "꺼 둔 트레이스의 CPU",
    " × the backlog's": " × 밀린 작업의 CPU",
    "CPU of the backlog while it is traced": "트레이스를 켠 밀린 작업의 CPU",
    " × that without traces": " × 트레이스를 껐을 때",
    "memory, no Message": "메모리, Message 없음",
    "memory, 1,000 Messages": "메모리, Message 1,000개",
    "memory, 10,000 Messages": "메모리, Message 10,000개",
    "memory, 100,000 Messages": "메모리, Message 100,000개",
    "memory per additional Message, from 10,000 to 100,000":
        "추가한 Message 하나의 메모리, 10,000개에서 100,000개까지",
    "start time per additional Message, from 10,000 to 100,000":
        "추가한 Message 하나의 시작 시간, 10,000개에서 100,000개까지",
    "as for the first 10,000": "처음 10,000개와 같음",
    "{more:.2f} {unit} (of the first 10,000: {first:.2f} {unit})":
        "{more:.2f} {unit}(처음 10,000개: {first:.2f} {unit})",
    "memory after {churn:g} min of churn": "{churn:g}분 동안 계속 변경한 뒤의 메모리",
    "5% more than before": "이전보다 5% 증가",
    "start with 10,000 correct Messages, to ready": "올바른 Message 10,000개로 시작, 준비될 때까지",
    "writes during that start": "그렇게 시작하는 동안의 쓰기 수",
    "… to that Pod, once it is ready": "… 준비된 뒤 그 파드까지",
    "CPU of that start": "그렇게 시작할 때의 CPU",
    "failover, SIGTERM": "장애 조치, SIGTERM",
    "failover, SIGKILL (Lease of 15 s)": "장애 조치, SIGKILL(리스 15초)",
    # Figures of each operator
    "backlog of {n} Messages: start to last Pod": "밀린 Message {n}개: 시작부터 마지막 파드까지",
    "… to last status": "… 마지막 상태까지",
    "{n} live edits: to last correct Pod": "실행 중 수정 {n}건: 마지막 올바른 파드까지",
    "one create: to its Pod, p50": "Message 하나 생성: 그 파드까지, p50",
    "backlog of {n}, 1% of the answers lost: start to last Pod":
        "밀린 Message {n}개, 응답의 1% 유실: 시작부터 마지막 파드까지",
    "one create, of {beside} in a row: p50":
        "{beside}개를 연달아 만들 때 Message 하나 생성: p50",
    "… while a webhook hangs for {stuck} other Messages":
        "… 다른 Message {stuck}개에서 웹훅이 멈춘 동안",
    "operator's CPU, backlog (including the start)": "오퍼레이터의 CPU, 밀린 작업(시작 포함)",
    "operator's CPU, live edits": "오퍼레이터의 CPU, 실행 중 수정",
    "writes per create": "생성 하나의 쓰기 수",
    "writes per edit": "수정 하나의 쓰기 수",
    "writes while idle for {idle:g} s": "할 일이 없는 {idle:g}초 동안의 쓰기 수",
    "start with 10,000 correct Messages: to a new one's Pod":
        "올바른 Message 10,000개로 시작: 새 Message의 파드까지",
    "start with 100,000 correct Messages: to a new one's Pod":
        "올바른 Message 100,000개로 시작: 새 Message의 파드까지",
    "… to ready": "… 준비될 때까지",
    "… memory": "… 메모리",
    # The examples
    "backlog of {memcacheds:,} Memcacheds: start to last Deployment":
        "밀린 Memcached {memcacheds:,}개: 시작부터 마지막 디플로이먼트까지",
    "memory": "메모리",
    "writes per Memcached": "Memcached 하나의 쓰기 수",
    "backlog of {tickets:,} FlightTickets: start to last status":
        "밀린 FlightTicket {tickets:,}개: 시작부터 마지막 상태까지",
    "calls to the booking service per FlightTicket": "FlightTicket 하나의 예약 서비스 호출 수",
    "… in a second; at most {calls:g} are allowed": "… 1초 동안. {calls:g}번까지 허용됩니다",
    "bookings per FlightTicket": "FlightTicket 하나의 예약 수",
    "writes per FlightTicket, to the API server": "FlightTicket 하나의 API 서버 쓰기 수",
}  # fmt: skip


def said(label: str) -> str:
    """Return a label in Korean, or as it is where both languages write the same."""
    return _LABELS.get(label, label)
