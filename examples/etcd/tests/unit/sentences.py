"""Whether what a user reads of an EtcdCluster is true, and in sentences."""

import re

import kopf_runtime as kr

from etcd_operator import clusters
from etcd_operator.clusters import Look
from etcd_operator.decide import Seen, Step, quorum
from etcd_operator.kinds import EtcdCluster, Spec, Storage

MEMBER = r"[a-z]+(?:-[a-z]+)*-\d+"
#: What no message has, and why.
WRONG = {
    r"\b[a-z]+_[a-z_]+\b|\b[A-Z]+_[A-Z]+\b|\bNone\b(?! of)": "an identifier",
    r"\b1 (?:members|voters|revisions|volumes)\b(?! )|\b1 (?:members|voters|revisions) are\b": "1",
    rf"(?:, | and ){MEMBER} (?:is|does|ends|has|starts)\b": "a singular of several",
    rf"(?:^|\. ){MEMBER} (?:are|do|end|have|start)\b": "a plural of one",
    r"(?:^|\. )(?:It|Its|They)\b": "no subject",
    r"\.\.|: \.|  |, \.|\{|\}|\(\)": "a gap",
}


def judge(text: str) -> None:
    """Fail if a message cannot be true, or is none."""
    if not text:
        return
    assert text.endswith("."), text
    for pattern, why in WRONG.items():
        assert not re.search(pattern, text), f"{why}: {text}"
    for sentence in re.split(r"(?<!\d)\. (?=\S)", text):
        assert re.match(rf"[A-Z0-9]|{MEMBER}\b|etcd's ", sentence), f"how it begins: {sentence}"
    for some, whole in re.findall(r"(\d+) of (\d+)", text):
        assert 0 <= int(some) <= int(whole) != 0, text


def judge_all(s: Seen, step: Step, **errors: str) -> kr.Status:
    """Judge all messages of a look, and whether they contradict each other; return the status."""
    spec = Spec(version=s.wanted.version, size=s.wanted.size, storage=Storage(size="8Gi"))
    cluster = EtcdCluster(metadata=kr.ObjectMeta("c", "u1", "", "ns"), spec=spec)
    look = Look(s, step, errors=errors)
    status = clusters.status(cluster, kr.Observed(None, sync_result=look))
    serves = next(one for one in status.conditions if one.type == "Available")
    for text in (status.message, *(one.message for one in status.conditions)):
        judge(text)
    lost = re.match(r"Voters that answer: (\d+) of (\d+)\.", serves.message)
    if lost is not None:
        enough = int(lost[1]) >= quorum(int(lost[2]))
        through = "Through these, a quorum answers." in serves.message
        assert serves.reason == "NotReady" or (enough != through) is (serves.reason == "Serving")
    if serves.status:
        assert s.members is not None, "nobody has just answered for a quorum"
    elif serves.reason in ("QuorumLost", "Unreachable"):
        silent = [entry.name for entry in s.electorate if entry.name not in s.voices]
        assert all(re.search(rf"\b{name}\b", status.message) for name in silent), status.message
    return status
