"""docs/plugin.md quotes what `why` says of a broken cluster, as the tests that break one do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kopf_kit import plugin
from kopf_kit.plugin.text import Text
from kubectl_message.why import EDITED, SENTENCES

CHECKOUT = Path(__file__).parents[3]
HEADINGS = Text("What it finds", "찾아내는 문제")
#: What a row has in the place of what differs from test to test.
PLACES = {"pod": "msg-NAME", "it": "NAMESPACE"}
NAMES = (Text("NAME", "NAME"), Text("FILE", "FILE"), EDITED.format(name="NAME"))


def said(page: str, heading: str) -> list[str]:
    """Return the sentences of a page's table, the column on the right."""
    text = (CHECKOUT / "docs" / page).read_text()
    _, _, rest = text.partition(f"\n## {heading}\n")
    return re.findall(r"^\| .+ \| (.+\.) \|$", rest.partition("\n## ")[0], re.MULTILINE)


def asserted() -> set[str]:
    """Return the texts that tests on an API server name, with `{}` for what they fill in."""
    files = [*(CHECKOUT / "tests" / "faults").glob("*.py"), *(CHECKOUT / "tests/e2e").rglob("*.py")]
    return {text for file in files for text in literals(file)}


def literals(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))


def translations() -> dict[str, str]:
    """Return every first line of `why` in English, with the Korean one."""
    return {
        sentence.en.format(name=name.en, says=filled.en): sentence.ko.format(
            name=name.ko, says=filled.ko
        )
        for says in texts()
        for filled in [Text(*(re.sub(r"{(\w+)}", place, part) for part in says))]
        for sentence in SENTENCES.values()
        for name in NAMES
    }


def place(found: re.Match[str]) -> str:
    return PLACES.get(found[1], found[0])


def texts() -> Iterator[Text]:
    """Return the texts of the plugin's code that have both languages."""
    common = Path(plugin.__file__).parent
    for file in (*(CHECKOUT / "kubectl_message").rglob("*.py"), *common.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Text":
                parts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                if len(parts) == 2:
                    yield Text(*map(str, parts))


def test_each_sentence_of_the_page_is_what_a_test_on_an_api_server_expects() -> None:
    sentences = said("plugin.md", HEADINGS.en)
    known = asserted()

    def expected(sentence: str) -> bool:
        pattern = re.sub(r"NAMESPACE|NAME|FILE", r"(?:[\\w-]+|\\{\\})", re.escape(sentence))
        return any(re.fullmatch(pattern, text) for text in known)

    assert len(sentences) >= 10
    assert [sentence for sentence in sentences if not expected(sentence)] == []


def test_the_korean_page_has_the_same_sentences() -> None:
    known = translations()

    english, korean = said("plugin.md", HEADINGS.en), said("plugin.ko.md", HEADINGS.ko)

    assert [known.get(sentence) for sentence in english] == korean
