"""The advice is there in both languages, and a file that is wrong is refused."""

import re
import string
from pathlib import Path

import pytest

from kopf_kit.kubectl import advice, client, subject, text
from kopf_kit.kubectl.subject import Entry
from kopf_kit.kubectl.text import Text
from kopf_kit.release import krew
from kopf_kit.rig.run import KitError
from kubectl.clusters import ALERTS, SUBJECT

subject.use(SUBJECT)
KNOWN = SUBJECT.advice
#: Particles whose form depends on how the word before them ends, right behind a value.
PARTICLE = re.compile(
    r"\}[`'\")]*\(?(이|가|은|는|을|를|과|와|으?로|이?라는|이?라고|이?나|이?며|이?고)(?![가-힣])"
)


def sentences() -> list[Text]:
    """Return all sentences that are advised, and those about kubectl."""
    entries = [*KNOWN.pods, *KNOWN.reasons, *KNOWN.events]
    said = [part for entry in entries for part in (entry.do, entry.means) if part.en]
    refusals = (*client.REFUSALS, client.MISSING, client.SLOW)
    return [*said, *(part for refusal in refusals for part in (refusal.says, refusal.todo))]


def test_everything_is_said_in_both_languages() -> None:
    for sentence in sentences():
        assert re.search("[가-힣]", sentence.ko), sentence
        assert not re.search("[가-힣]", sentence.en), sentence
        commands = [set(re.findall("`(kubectl[^`]+)`", it)) for it in sentence]
        assert commands[0] == commands[1], sentence


def test_no_sentence_has_a_particle_that_depends_on_a_name() -> None:
    folder = Path(text.__file__).parent
    written = [file.read_text() for file in folder.iterdir() if file.suffix in (".py", ".yaml")]

    assert PARTICLE.search("파드 {pod}가 출력합니다")
    assert [found[0] for it in written for found in PARTICLE.finditer(it)] == []


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
        ("Teapot", "short and stout", ""),
    ],
)
def test_the_message_tells_the_causes_of_a_reason_apart(
    reason: str, message: str, says: str
) -> None:
    found = advice.find(reason, message, "main", "team")

    assert says in found.says.en if found else not says


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
    own.write_text(
        "alert: Down\nreasons:\n- of: [Forbidden]\n"
        "  means: {en: the sky falls, ko: 하늘이 무너집니다}\n  do: {en: Run., ko: 피하십시오.}\n"
    )

    known = krew.advice(own, krew.KNOWN, alerts=ALERTS)

    means = Text("the sky falls", "하늘이 무너집니다")
    first = Entry(("Forbidden",), Text("Run.", "피하십시오."), means, alert=ALERTS[0])
    assert known.reasons[0] == first
    assert {entry.alert for entry in known.reasons} == {ALERTS[0], "WidgetOperatorForbidden"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{of: [A]}", "missing required field `do`"),
        ("{of: [], do: {en: a, ko: b}}", "length >= 1"),
        ("{of: [A], do: {en: a}}", "missing required field `ko`"),
        ("{of: [A], do: {en: a, ko: b}, todo: c}", "unknown field `todo`"),
        ("{of: [A], do: {en: 'a {pod}', ko: b}}", "the entry of A: a sentence may contain"),
        ("{of: [A], do: {en: 'a {', ko: b}}", "the entry of A: "),
        ("{of: [A], do: {en: a, ko: b}, message: '('}", "the entry of A: "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(
    entry: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "advice.yaml"
    file.write_text(f"reasons: [{entry}]\n")

    with pytest.raises(KitError, match=re.escape(str(file))) as error:
        krew.advice(file, alerts=())

    assert said in str(error.value)


def test_the_fields_of_a_sentence_are_those_that_are_filled_in() -> None:
    for entry in (*KNOWN.reasons, *KNOWN.events):
        for part in (*entry.do, *entry.means):
            assert {field[1] for field in string.Formatter().parse(part)} <= krew.WORDS | {None}


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
