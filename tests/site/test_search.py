"""The search in Korean: it finds a word with whatever particles it is written and asked for."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.site.browser import Browser

#: What is asked, and a page that must be among the first ten results: those that are shown.
QUERIES = {
    "오퍼레이터를 설치하려면": "install/",
    "오퍼레이터가 제거되면": "uninstall/",
    "파드까지 삭제하면": "tutorial/",
    "파드만 복구되는": "runbooks/",
    "컨트롤러란": "tutorial/",
    "디플로이먼트에서": "beyond-a-deployment/",
    "소유자로": "tutorial/",
    "레지스트리에만": "install/",
    "벤치마크와": "benchmarks/",
    "클러스터에서도": "namespaces/",
    "취약점을": "",
    "플러그인으로": "plugin/",
    "로그까지": "plugin/",
    "알림마다": "reasons/",
    "테스트는": "testing/",
    "간격으로만": "messages/",
    "문제의 해결": "messages/",
    "권한이": "reference/rights/",
    "네임스페이스처럼": "namespaces/",
    "런북은": "runbooks/",
}

#: Finds elements in the page and in the shadow trees within.
_DEEP = """
const found = (root, selector) => [
  ...root.querySelectorAll(selector),
  ...[...root.querySelectorAll("*")].filter(e => e.shadowRoot)
    .flatMap(e => found(e.shadowRoot, selector)),
];
"""
_TYPE = """
const input = found(document, "[role=combobox]")[0];
if (!input) { document.querySelector(".md-search__button").click(); return false; }
const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
set.call(input, arguments[0]);
input.dispatchEvent(new InputEvent("input", {bubbles: true}));
return true;
"""
_RESULTS = """return found(document, "[role=option]").map(e => e.href);"""


def search(chromium: Browser, address: str, query: str) -> Iterator[list[str]]:
    """Type a query into the search of the Korean site; yield the pages found, as they come."""
    chromium.open(f"{address}ko/")
    deadline = time.monotonic() + 60
    while not chromium.run(_DEEP + _TYPE, query):
        assert time.monotonic() < deadline, "the search did not open"
        time.sleep(0.1)
    while time.monotonic() < deadline:
        yield [re.split("[?#]", result)[0] for result in chromium.run(_DEEP + _RESULTS)]
        time.sleep(0.1)


@pytest.mark.parametrize("query", QUERIES)
def test_a_word_is_found_with_its_particles(chromium: Browser, address: str, query: str) -> None:
    page = f"{address}ko/{QUERIES[query]}"
    found: list[str] = []

    for found in search(chromium, address, query):
        if page in found:
            break

    assert page in found
