"""What somebody who learns about operators looks for has its place, in English and in Korean."""

import re
from pathlib import Path
from typing import Any

import pytest
from flightticket_operator.operator import FlightTicket

from kopf_kit.crd.generated import definition
from kopf_kit.project import documents
from kopf_runtime.declaring.declaration import declared

CHECKOUT = Path(__file__).parents[2]
TICKETS = "examples/flightticket/README"
#: A concept's page without its ending, and the words for it there in English and in Korean.
PLACES = [
    ("docs/tutorial", "reconciling", "조정.{1,3}reconcile, 리컨실"),
    ("docs/tutorial", "control loop", "컨트롤 루프"),
    ("docs/tutorial", "stores each object in .etcd", "etcd.에 저장"),
    ("docs/tutorial", "ReplicaSet", "레플리카셋"),
    ("docs/tutorial", "CronJob", "크론잡"),
    ("docs/tutorial", "StatefulSet", "스테이트풀셋"),
    ("docs/tutorial", "shortNames", "shortNames"),
    ("docs/tutorial", "maxLength`, `minimum`, `maximum", "maxLength`, `minimum`, `maximum"),
    ("docs/tutorial", "storage. version", "storage.로 지정한 버전"),
    ("docs/tutorial", "Do you need one. .Helm", "꼭 필요할까요. .Helm"),
    ("docs/tutorial", "not a state machine", r"상태 머신\(state machine\)이 아닙니다"),
    ("docs/tutorial", "KUDO", "KUDO"),
    ("docs/tutorial", "Metacontroller", "Metacontroller"),
    ("docs/tutorial", "Operator SDK", "Operator SDK"),
    ("docs/tutorial", "level-triggered", "레벨 트리거"),
    ("docs/tutorial", "finalizer", "파이널라이저"),
    ("docs/architecture", "work queue .*워크큐", "워크큐 .*work queue"),
    ("docs/architecture", "rate limiter .*레이트 리미터", "레이트 리미터 .*rate limiter"),
    ("docs/architecture", "informer .*인포머", r"인포머 .*\(shared\) informer"),
    ("docs/architecture", "idempotent .*멱등성", "멱등성 .*idempotency"),
    ("docs/architecture", "least privilege .*최소 권한", "최소 권한 .*least privilege"),
    ("docs/architecture", "10. .Kill it", "10. 테스트에서"),
    ("docs/in-go", "sample-controller", "sample-controller"),
    ("docs/in-go", "MaxConcurrentReconciles: 2.*--workers=2", "MaxConcurrentReconciles: 2.*--work"),
    ("docs/in-go", "Experiment 3", "실험 3"),
    ("docs/in-go", "deploy IMG=", "deploy IMG="),
    (TICKETS, "kind: CustomResourceDefinition", "kind: CustomResourceDefinition"),
    ("examples/etcd/README", "EtcdBackup", "EtcdBackup"),
]


@pytest.mark.parametrize(("page", "english", "korean"), PLACES)
def test_each_concept_has_its_place(page: str, english: str, korean: str) -> None:
    for ending, word in ((".md", english), (".ko.md", korean)):
        text = (CHECKOUT / f"{page}{ending}").read_text()
        assert re.search(word.replace(" ", r"\s+"), text), f"{page}{ending} lacks {word}"


@pytest.mark.parametrize("ending", [".md", ".ko.md"])
def test_the_page_shows_the_definition_that_the_class_declares(ending: str) -> None:
    text = (CHECKOUT / f"{TICKETS}{ending}").read_text()
    found = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = (block for block in found if "kind: CustomResourceDefinition" in block)

    assert _is_part(documents.load(shown), definition(declared(FlightTicket)))


def _is_part(some: Any, whole: Any) -> bool:
    """Tell whether a document has nothing but what another one has, too."""
    if isinstance(some, dict):
        return all(key in whole and _is_part(value, whole[key]) for key, value in some.items())
    if isinstance(some, list):
        return len(some) == len(whole) and all(map(_is_part, some, whole))
    return bool(some == whole)
