"""The reference pages say why each right is there, and say it in Korean, too."""

import pytest

from hack import reference, reference_korean, reference_rights
from kopf_kit.rig.run import HackError

ROLE = """\
kind: Role
metadata:
  name: message-operator-leader-election
rules:
  # Why it is there,
  # on two lines.
  - apiGroups: [""]
    resources: [pods]
    verbs: [get]
"""


def test_a_reason_is_the_comment_above_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_rights, "text", lambda *_: ROLE)

    [(_, [(_, reason)])] = reference_rights._rendered()

    assert reason == "Why it is there, on two lines."


def test_a_rule_without_a_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "  - apiGroups: [apps]\n    resources: [deployments]\n    verbs: [get]\n"
    monkeypatch.setattr(reference_rights, "text", lambda *_: ROLE + rule)

    with pytest.raises(HackError, match="write a comment above it"):
        [*reference_rights._rendered()]


def test_the_korean_pages_have_all_sentences_in_korean_and_no_others() -> None:
    assert reference.files()

    assert reference_korean.missing() == set()
    assert reference_korean.unused() == set()
