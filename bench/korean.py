"""The labels of the tables in Korean; used by `report`."""

LABELS = {
    # Operators
    "controller-runtime, 1 worker": "controller-runtime, 워커 1개",
    "controller-runtime, 10 workers": "controller-runtime, 워커 10개",
    "kopf as in tutorials": "튜토리얼 방식의 kopf",
    "plain kopf": "kopf만",
    "the floor: a bare client": "하한: 단순 클라이언트",
    "the tutorial's operator in Go": "튜토리얼의 Go 오퍼레이터",
    # Speed, and one create
    "backlog of {messages:,} Messages: last Pod": "밀린 Message {messages:,}개: 마지막 파드",
    "backlog of {messages:,} Messages: last status": "밀린 Message {messages:,}개: 마지막 상태",
    "{messages:,} edits: last correct Pod": "수정 {messages:,}건: 마지막 올바른 파드",
    "{messages:,} edits: last status": "수정 {messages:,}건: 마지막 상태",
    "one create, p50": "하나 생성, p50",
    "one create, p99": "하나 생성, p99",
    # Memory and start
    "memory, no Message": "메모리, Message 없음",
    "memory, 1,000 Messages": "메모리, Message 1,000개",
    "memory, 10,000 Messages": "메모리, Message 10,000개",
    "memory, 100,000 Messages": "메모리, Message 100,000개",
    "memory for each Message beyond 10,000, relative to those before": "Message 하나가 차지하는 메모리, 10,000개를 넘은 뒤와 그 전의 비율",
    "start with 10,000 Messages: a new Pod": "Message 10,000개로 시작: 새 Message의 파드",
    "start with 10,000 Messages: ready": "Message 10,000개로 시작: 준비됨",
    "start with 10,000 Messages: writes": "Message 10,000개로 시작: 쓰기 수",
    "start with 100,000 Messages: a new Pod": "Message 100,000개로 시작: 새 Message의 파드",
    "start with 10,000 Messages: once ready, the last Pod of two new ones": "Message 10,000개로 시작: 준비된 뒤 새 Message 두 개의 마지막 파드까지",
    "start with 100,000 Messages: once ready, the last Pod of two new ones": "Message 100,000개로 시작: 준비된 뒤 새 Message 두 개의 마지막 파드까지",
    "start with 100,000 Messages: CPU": "Message 100,000개로 시작: CPU",
    "start time for each Message beyond 10,000, relative to those before": "시작할 때 Message 하나에 걸리는 시간, 10,000개를 넘은 뒤와 그 전의 비율",
    # CPU and writes
    "CPU of the start and the backlog": "시작과 밀린 작업의 CPU",
    "CPU of the edits": "수정의 CPU",
    "CPU of the busier of two releases, relative to one": "릴리스 두 개 중 더 바쁜 쪽의 CPU, 하나일 때와 비교",
    "CPU of two releases together, relative to one": "릴리스 두 개의 CPU 합계, 하나일 때와 비교",
    "CPU of a backlog with traces, relative to one without": "트레이스를 켠 밀린 작업의 CPU, 껐을 때와 비교",
    "CPU of traces that are off, relative to a backlog's": "꺼 둔 트레이스의 CPU, 밀린 작업의 CPU와 비교",
    "writes per create": "생성 하나의 쓰기 수",
    "writes per edit": "수정 하나의 쓰기 수",
    "writes per deletion": "삭제 하나의 쓰기 수",
    "writes in {idle:g} idle seconds, except the Lease": "할 일이 없는 {idle:g}초 동안의 쓰기 수(리스 제외)",
    # In trouble
    "backlog, 1% of the answers lost: last Pod": "밀린 작업, 응답의 1% 유실: 마지막 파드",
    "backlog, 1% of the answers lost: last status": "밀린 작업, 응답의 1% 유실: 마지막 상태",
    "CPU of edits and a rest with answers 10 s late, relative to usual": "응답이 10초 늦을 때 수정과 대기에 쓴 CPU, 평소 대비",
    "one create while a webhook hangs for {stuck} others, relative to usual": "웹훅이 다른 {stuck}개의 요청에 응답하지 않을 때의 생성 시간, 평소 대비",
    "failover after SIGTERM": "SIGTERM 뒤의 장애 조치",
    "failover after SIGKILL": "SIGKILL 뒤의 장애 조치",
    "memory after {churn:g} min of churn, relative to before": "{churn:g}분 동안 계속 변경한 뒤의 메모리, 이전과 비교",
    # Memcached
    "backlog of {memcacheds:,}: last Deployment": "밀린 {memcacheds:,}개: 마지막 디플로이먼트",
    "backlog of {memcacheds:,}: last status": "밀린 {memcacheds:,}개: 마지막 상태",
    "memory": "메모리",
    "writes per Memcached": "Memcached 하나의 쓰기 수",
    "conversion of 100 objects, p99": "오브젝트 100개의 변환, p99",
    "{reviews:,} conversions of 100 objects": "오브젝트 100개의 변환 {reviews:,}번",
    "admission, p99": "어드미션 요청, p99",
    "{reviews:,} admissions": "어드미션 요청 {reviews:,}번",
    # Around the rows
    "the peer": "비교 대상",
    "never": "없음",
    "Not measured.": "측정하지 않았습니다.",
    "{met} of {all} measured goals are met: with a peer by the median, else in each run.": "측정한 목표 {all}개 가운데 {met}개를 달성했습니다. 비교 대상이 있는 목표는 중앙값으로, 나머지는 모든 회차로 판정합니다.",
    "not met": "미달",
    "goal: at most": "목표(이하)",
    "median (spread)": "중앙값(범위)",
    "{repeats} repeats, from {first} to {last}, on {processors} processors ({cpu}), {memory}, "
    "{system}; the load average was at most {load:.1f} before a measurement.": "{first}부터 {last}까지 {repeats}번씩, 프로세서 {processors}개({cpu}), {memory}, {system}에서 "
    "측정했습니다. 측정을 시작할 때의 부하 평균은 {load:.1f} 이하였습니다.",
}


def said(label: str) -> str:
    """Return a label in Korean, or as it is where both languages write the same."""
    return LABELS.get(label, label)
