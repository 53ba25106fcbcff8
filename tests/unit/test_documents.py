"""Documents name and lead to what there is, and say the same in both languages."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kopf_kit.__main__ import PROGRAM
from message_operator.settings import Settings
from tests.docs import readings
from tests.support.console import commands, typed

CHECKOUT = Path(__file__).parents[2]
#: Those that people write or read: not what tools keep beside them.
DOCUMENTS = sorted(
    file
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "charts/*/*.md",
        "examples/*/*.md",
        "examples/*/docs/*.md",
        ".github/*.md",
        "tests/*/README.md",
    )
    for file in CHECKOUT.glob(pattern)
)
KOREAN = [file for file in DOCUMENTS if file.name.endswith(".ko.md")]

EXAMPLES = [file for file in DOCUMENTS if file.match("examples/*/README.md")]
#: The READMEs of all charts, and that of a new operator's.
CHARTS = sorted(
    file
    for pattern in (
        "charts/*/README.md",
        "examples/*/charts/*/README.md",
        "packages/kopf-kit/src/kopf_kit/scaffold/templates/charts/*/README.md.in",
    )
    for file in CHECKOUT.glob(pattern)
)

#: What people read in their own language; everything else in a block is for a machine.
_COMMENT = re.compile(r"[ \t]+#.*|^#.*\n", re.MULTILINE)
_CODE = re.compile(r"^ *```(?!console|mermaid)(\w+)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"`((?:[\w/-]+\.py::)?test_\w+(?:\[\w+\])?)`")
_BLOCK = re.MULTILINE | re.DOTALL
_NOT_WRITTEN = r"<!-- begin: .*?<!-- end -->|^ *```.*?^ *```$|<!--.*?-->"
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")

#: The Korean pages have one term for one thing: words that they avoid, and what they say instead.
_GLOSSARY = {
    "가비지 컬렉터": "가비지 수집기",
    "객체": "오브젝트",
    "네트워크 폴리시": "네트워크폴리시",
    "도커": "Docker",
    "디폴트": "기본값",
    "라벨": "레이블",
    "릴리즈": "릴리스",
    "명령행": "명령줄",
    "서비스 어카운트": "서비스어카운트",
    "스냅숏": "스냅샷",
    "스윕": "재동기화",
    "스탠바이": "대기하는 레플리카",
    "재조정": "조정",
    "(?<![가-힣])인[수자]": "매개변수",
    "체인지로그": "변경 내역",
    "커스텀 리소스 데피니션": "커스텀리소스데피니션",
    "파드디스럽션버짓": "PodDisruptionBudget",
    "파이썬": "Python",
    "할당량": "쿼터",
    "(?<!안녕)하세요": "하십시오",
}


def relative(file: Path) -> str:
    return str(file.relative_to(CHECKOUT))


def anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_links_within_the_project_lead_somewhere(document: Path) -> None:
    dead = []
    for link in _LINK.findall(document.read_text()):
        path, _, anchor = link.partition("#")
        target = document if not path else (document.parent / path).resolve()
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)

    assert dead == []


@pytest.mark.parametrize("page", EXAMPLES, ids=relative)
def test_the_page_of_each_example_is_in_korean_too(page: Path) -> None:
    assert page.with_name("README.ko.md") in KOREAN


@pytest.mark.parametrize("korean", KOREAN, ids=relative)
def test_both_languages_have_the_same_commands(korean: Path) -> None:
    english = korean.with_name(korean.name.replace(".ko.md", ".md"))

    assert typed(korean.read_text()) == typed(english.read_text())


@pytest.mark.parametrize("korean", KOREAN, ids=relative)
def test_both_languages_show_the_same_code_and_name_the_same_tests(korean: Path) -> None:
    english = korean.with_name(korean.name.replace(".ko.md", ".md"))

    def shown(document: Path) -> list[tuple[str, str]]:
        listings = _CODE.findall(document.read_text())
        return [(language, _COMMENT.sub("", code)) for language, code in listings]

    assert shown(korean) == shown(english)
    assert _TEST.findall(korean.read_text()) == _TEST.findall(english.read_text())


@pytest.mark.parametrize("page", DOCUMENTS, ids=relative)
def test_each_test_that_it_names_with_its_file_is_there(page: Path) -> None:
    for name in _TEST.findall(page.read_text()):
        file, _, test = name.partition("[")[0].rpartition("::")
        paths = [at / file for at in (page.parent, CHECKOUT / "tests", CHECKOUT)]
        code = "".join(path.read_text() for path in paths if path.is_file())
        assert not file or f"def {test}(" in code, name


@pytest.mark.parametrize("page", sorted({*DOCUMENTS, *CHARTS}), ids=relative)
def test_objects_are_deleted_before_their_kind(page: Path) -> None:
    """The garbage collector may not know the kind yet, and then never deletes the children."""
    text = page.read_text()
    typed_before: list[str] = []

    for command in commands(text):
        if deleted := re.match(r"kubectl delete crd (\S+)", command):
            objects = f"kubectl delete {deleted[1]} --all --all-namespaces --cascade=foreground"
            assert any(line.startswith(objects) for line in typed_before), command
        typed_before.append(command)

    assert "`kubectl delete crd " not in text, "say in a console block what is deleted before it"


def test_each_console_block_is_run_or_says_why_not() -> None:
    assert readings.unread() == []


@pytest.mark.parametrize("page", ["tutorial.md", "tutorial.ko.md"])
def test_the_naive_operator_is_shown_as_it_is_run(page: str) -> None:
    program = (CHECKOUT / "docs" / "tutorial" / "naive.py").read_text()
    text = (CHECKOUT / "docs" / page).read_text()

    (shown,) = re.findall(r"^```python\n(.+?)^```$", text, re.MULTILINE | re.DOTALL)

    assert program.endswith(shown)


def test_what_people_wrote_can_be_read_in_an_hour() -> None:
    """Users and authors: what is generated, for contributors, code and decisions do not count."""
    others = {"runbooks.md", "development.md"}
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")]
    written = [page for page in pages if page not in KOREAN and page.name not in others]
    texts = [re.sub(_NOT_WRITTEN, "", page.read_text(), flags=_BLOCK) for page in written]
    words = sum(bool(re.search(r"\w", word)) for text in texts for word in text.split())

    assert words <= 16_000
    assert len(written) <= 20


@pytest.mark.parametrize("korean", KOREAN, ids=relative)
def test_a_korean_page_has_one_term_for_one_thing(korean: Path) -> None:
    text = korean.read_text()

    assert {term: _GLOSSARY[term] for term in _GLOSSARY if re.search(term, text)} == {}


@pytest.mark.parametrize("korean", KOREAN, ids=relative)
def test_each_language_leads_to_the_other(korean: Path) -> None:
    english = korean.with_name(korean.name.replace(".ko.md", ".md"))

    assert f"]({english.name})" in korean.read_text()
    assert f"]({korean.name})" in english.read_text()


@pytest.mark.parametrize("korean", KOREAN, ids=relative)
def test_a_korean_page_leads_to_pages_in_korean(korean: Path) -> None:
    targets = [korean.parent / link.partition("#")[0] for link in _LINK.findall(korean.read_text())]
    english = {target.resolve() for target in targets if not target.name.endswith(".ko.md")}

    own = korean.with_name(korean.name.replace(".ko.md", ".md"))
    assert {page for page in english if page.with_suffix(".ko.md").exists()} == {own}


_TEMPLATES = CHECKOUT / "packages/kopf-kit/src/kopf_kit/scaffold/templates"
#: Words of our own, for which the field has another one.
_PRIVATE = r"\b(?i:(?:the|newer) kit|told|rooms?|the rig|lanes?|surplus|walks|anew|whoever)\b"
_READ = [
    page
    for page in (
        *DOCUMENTS,
        *(CHECKOUT / "packages").glob("*/README.md"),
        *_TEMPLATES.rglob("*.md.in"),
    )
    if ".ko.md" not in page.name
    and "decisions" not in page.parts
    and page.name != "CHANGELOG.md"
    and page.parts[-2] != "faults"
]


@pytest.mark.parametrize("page", _READ, ids=relative)
def test_users_read_the_words_of_the_field(page: Path) -> None:
    text = re.sub(_NOT_WRITTEN, "", page.read_text(), flags=_BLOCK)

    assert re.findall(_PRIVATE, re.sub(r"`[^`]*`|no room|has room|make room", "", text)) == []


#: Pages whose paths, commands, flags, variables and values exist.
NAMING = sorted(
    page
    for folder in ("", "docs", "charts/*", "examples/*", "packages/*")
    for page in CHECKOUT.glob(f"{folder}/*.md".removeprefix("/"))
    if page.name != "CHANGELOG.md"  # it names what there was
)
#: Folders that paths begin in. A new operator's own repository is as examples/memcached.
ROOTS = (
    "",
    "examples/memcached",
    "charts/message-operator",
    "packages/kopf-runtime/src/kopf_runtime",
)
_FOLDERS = r"\.github|bench|charts|docs|examples|hack|operator|packages|templates|tests|working"


def sources(*files: str) -> str:
    return "\n".join((CHECKOUT / file).read_text() for file in files)


def kit_help(program: click.Group) -> Iterator[str]:
    """Yield the help of each command, and of each of its parts."""
    context = click.Context(program, resilient_parsing=True)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command
        yield command.get_help(click.Context(command, info_name=name, max_content_width=1000))
        if isinstance(command, click.Group):
            yield from kit_help(command)


KIT, PLUGIN = (
    "\n".join(kit_help(PROGRAM)),
    sources("packages/kopf-kit/src/kopf_kit/kubectl/__main__.py"),
)
FIELDS = [field.name for field in dataclasses.fields(Settings) if field.metadata]
VARIABLES = {f"MESSAGE_OPERATOR_{name.upper()}" for name in FIELDS}
FLAGS = "\n".join(f"--{name.replace('_', '-')}" for name in FIELDS)
#: What has flags of ours that are not declared as fields.
MORE = sources(
    "bench/run.py",
    "examples/flightticket/charts/flightticket-operator/templates/_operator.tpl",
    "packages/kopf-kit/src/kopf_kit/testing/plugin.py",
    "packages/kopf-runtime/src/kopf_runtime/declaring/settings.py",
)
OURS = set(re.findall(r"--[a-z][a-z-]+", FLAGS + KIT + PLUGIN + MORE))
#: Flags of other programs that a page names without the program, and one that it makes up.
OTHERS = {
    *("--all-pods", "--prune-allowlist", "--cascade", "--existing-resource-policy"),
    *("--atomic", "--force-conflicts", "--kube-version", "--reuse-values", "--rollback-on-failure"),
    *("--take-ownership", "--verify", "--key", "--insecure-ignore-tlog", "--certificate-identity"),
    *("--certificate-oidc-issuer", "--greeting"),
}
#: A command of ours, or a flag alone.
OWN = re.compile(
    r"(?:(?:`|\$ |uv run |uvx |bin/)kopf-kit|kubectl message|python -m \w+_operator|ARGS=)"
    r"[^`\n#|]*"
    r"|(?<=`)--[a-z][a-z-]+"
)
_README = sources("charts/message-operator/README.md")
VALUES = set(re.findall(r"^\| `([\w.]+)` \|", _README, re.MULTILINE))
#: A file, and names in an author's code, that look like values.
CODE = {
    "crds.yaml",
    "controller.index",
    "controller.reads",
    "controller.session",
    "controller.watches",
}

each_page = pytest.mark.parametrize(
    "page", NAMING, ids=lambda page: str(page.relative_to(CHECKOUT))
)


@each_page
def test_its_paths_exist(page: Path) -> None:
    paths = re.findall(rf"(?<![\w./:@-])(?:{_FOLDERS})/[\w./-]*\w", page.read_text())
    folders = [page.parent, *(CHECKOUT / root for root in ROOTS)]

    gone = {path for path in paths if not any((folder / path).exists() for folder in folders)}
    assert gone == set()


@each_page
def test_its_commands_and_flags_are_ours(page: Path) -> None:
    typed = OWN.findall(page.read_text().replace("\\\n", " "))
    flags = {flag for code in typed for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)}
    commands = re.findall(r"(?:`|\$ |uv run |uvx |bin/)kopf-kit ([a-z][\w-]+)", page.read_text())
    of_the_plugin = re.findall(r"(?:`|\$ )kubectl message ([a-z][\w-]+)", page.read_text())

    assert flags - OURS - OTHERS == set()
    assert {*commands} - PROGRAM.entries.keys() == set()
    assert {*of_the_plugin} - {*re.findall(r"^  ([a-z-]+) ", PLUGIN, re.MULTILINE)} == set()


@each_page
def test_its_variables_and_values_exist(page: Path) -> None:
    text = page.read_text()
    variables = set(re.findall(r"MESSAGE_OPERATOR_[A-Z_]+", text))
    tops = {value.partition(".")[0] for value in VALUES}
    values = set(re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:\.\*|[=:][^`]*)?`", text)) - CODE

    assert variables - VARIABLES == set()
    if "examples" not in page.parts:  # they have charts of their own
        gone = {value for value in values if value.partition(".")[0] in tops and not _is_one(value)}
        assert gone == set()


def _is_one(value: str) -> bool:
    """Return whether the chart has a value, values in it, or one that it is in."""
    return any(
        f"{known}.".startswith(f"{value}.") or value.startswith(f"{known}.") for known in VALUES
    )
