"""What is advised about a reason, and a file that is wrong is refused."""

import re
from pathlib import Path

import pytest

from kopf_kit.kubectl import advice, client, subject
from kopf_kit.kubectl.subject import Entry
from kopf_kit.kubectl.text import Text
from kopf_kit.release import packed
from kopf_kit.rig.run import KitError
from kubectl.clusters import ALERTS, SUBJECT

subject.use(SUBJECT)
KNOWN = SUBJECT.advice


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        # As API servers of Kubernetes 1.36 say it.
        ("Forbidden", 'pods "a" is forbidden: exceeded quota: none, requested: pods=1', "no room"),
        ("Forbidden", 'violates PodSecurity "restricted:latest": x', "Pod Security"),
        ("Forbidden", 'User "system:serviceaccount:a:b" cannot create resource "pods"', "no right"),
        ("Forbidden", "something new", "does not admit"),
        ("Teapot", 'admission webhook "a.b" denied the request: no', "webhook refuses"),
        ("InternalError", 'Internal error: failed calling webhook "a.b"', "does not answer"),
        ("ConfigMapStuckTerminating", "held by the finalizer a/b.", "finalizer"),
        ("HostTaken", "", "another object has the value"),
        ("Refused", "EtcdRestore later has begun first.", "EtcdRestore later has begun first"),
        ("Teapot", "short and stout", ""),
    ],
)
def test_the_message_tells_the_causes_of_a_reason_apart(
    reason: str, message: str, says: str
) -> None:
    found = advice.find(reason, message, "main", "team")

    assert says in f"{found.says} {found.means}" if found else not says


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("forbidden", 0, "a quota of the namespace leaves no room"),
        ("HEALED", 0, "created it again"),
        ("widgetoperatornoleader", 0, "runbooks.md#widgetoperatornoleader"),
        ("forbiden", 2, "Did you mean Forbidden?"),
        ("zzz", 2, "`kubectl widget explain` lists them."),
    ],
)
def test_explain_knows_a_word_in_any_case(
    word: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advice.explain(word) == code

    assert said in "".join(capsys.readouterr())


def test_explain_without_a_word_lists_every_reason_and_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert advice.everything() == 0

    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {name for part in KNOWN[1:] for entry in part for name in entry.of} <= listed


def test_a_repositorys_own_entries_come_first(tmp_path: Path) -> None:
    own = tmp_path / "advice.yaml"
    own.write_text("alert: Down\nreasons:\n- of: [Forbidden]\n  means: the sky falls\n  do: Run.\n")

    known = packed.advice(own, packed.KNOWN, alerts=ALERTS)

    first = Entry(("Forbidden",), Text("Run."), Text("the sky falls"), alert=ALERTS[0])
    assert known.reasons[0] == first
    assert {entry.alert for entry in known.reasons} == {ALERTS[0], "WidgetOperatorForbidden"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{of: [A]}", "missing required field `do`"),
        ("{of: [], do: a}", "length >= 1"),
        ("{of: [A], do: a, todo: c}", "unknown field `todo`"),
        ("{of: [A], do: 'a {pod}'}", "the entry of A: a sentence may contain"),
        ("{of: [A], do: 'a {'}", "the entry of A: "),
        ("{of: [A], do: a, message: '('}", "the entry of A: "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(
    entry: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "advice.yaml"
    file.write_text(f"reasons: [{entry}]\n")

    with pytest.raises(KitError, match=re.escape(str(file))) as error:
        packed.advice(file, alerts=())

    assert said in str(error.value)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        # As kubectl 1.36 says it.
        ('error: the server doesn\'t have a resource type "messages"', "no-kind"),
        (
            "Error from server (NotFound): the server could not find the requested resource",
            "no-kind",
        ),
        ('Error from server (Forbidden): messages.myorg.dev is forbidden: User "a"', "forbidden"),
        ('Error from server (NotFound): pods "msg-a" not found', "not-found"),
        ("error: You must be logged in to the server (Unauthorized)", "other"),
    ],
)
def test_what_kubectl_prints_when_it_fails_is_recognized(said: str, key: str) -> None:
    assert client.refusal(said).key == key
