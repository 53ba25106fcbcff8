"""The pages of the documentation site, as they are laid out for its generator."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import site, site_text
from hack.site import Page
from kopf_kit.rig import paths
from kubectl_message.knowledge.entry import HOME

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one document of the site, which is translated."""
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(site, "pages", lambda: dict(documents(tmp_path)))
    (tmp_path / "docs").mkdir()
    git(tmp_path, "init", "--quiet")
    for name in ("install.md", "install.ko.md"):
        commit(tmp_path, name, "# Install\n")
    return tmp_path


def documents(folder: Path) -> Iterator[tuple[str, Page]]:
    for file in (folder / "docs").glob("*.md"):
        if not file.name.endswith(".ko.md"):
            yield f"docs/{file.name}", Page(f"docs/{file.name}")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, timeout=300)


def commit(folder: Path, name: str, text: str) -> None:
    (folder / "docs" / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", name)


def rendered(folder: Path, name: str = "docs/install.md") -> str:
    return site.rendered(Page(name), "ko")


def test_every_document_is_on_the_site() -> None:
    written = {
        file.relative_to(CHECKOUT).as_posix()
        for pattern in ("*.md", "docs/**/*.md", "charts/*/*.md")
        for file in CHECKOUT.glob(pattern)
        if not file.name.endswith(".ko.md")
    }

    assert written - site.pages().keys() == set()


def test_a_translation_that_is_older_than_its_original_says_so(repository: Path) -> None:
    assert "!!!" not in rendered(repository)

    commit(repository, "install.md", "# Install\n\nMore.\n")
    assert '!!! warning ""' in rendered(repository)
    assert "/commits/main/docs/install.md" in rendered(repository)

    commit(repository, "install.ko.md", "# 설치하기\n\n더.\n")
    assert "!!!" not in rendered(repository)


def test_a_comment_in_the_original_makes_no_translation_old(repository: Path) -> None:
    commit(repository, "install.md", "# Install\n\nAll.\n")
    commit(repository, "install.ko.md", "# 설치하기\n\n전부.\n")
    commit(repository, "install.md", "# Install\n\n<!-- not run: why -->\n\nAll.\n")

    assert "!!!" not in rendered(repository)


def test_where_nothing_is_translated_the_original_stands_and_says_so(repository: Path) -> None:
    commit(repository, "olm.md", "# OLM\n\nText.\n")

    text = rendered(repository, "docs/olm.md")

    assert text.endswith(
        f'# OLM\n\n!!! note ""\n    {site.site().languages["ko"].untranslated}\n\nText.\n'
    )


def test_a_link_leads_to_the_page_of_its_language_or_to_the_repository(repository: Path) -> None:
    commit(repository, "messages.md", "# Messages\n\n## When it is wrong\n")
    commit(repository, "messages.ko.md", "# Message\n\n## 문제 해결\n")
    (repository / "deploy").mkdir()
    links = ("messages.md#when-it-is-wrong", "messages.ko.md#문제-해결", "../deploy", "../LICENSE")
    commit(repository, "install.ko.md", "".join(f"[a]({link})\n" for link in links))

    found = re.findall(r"\]\((.+?)\)", rendered(repository))

    assert found == [
        "messages.md#문제-해결",
        "messages.md#문제-해결",
        f"{HOME}/tree/main/deploy",
        f"{HOME}/blob/main/LICENSE",
    ]


def test_what_looks_like_html_in_a_description_is_shown() -> None:
    assert "msg-&lt;name>" in (CHECKOUT / "docs" / "reference" / "message-api.md").read_text()


def test_the_navigation_lists_every_page_with_its_section() -> None:
    text = site.configuration("ko", CHECKOUT / "build" / "docs" / "ko")
    [reference] = [part["레퍼런스"] for part in json.loads(text)["nav"] if "레퍼런스" in part]

    assert {"오퍼레이터 차트": "charts/message-operator.md"} in reference
    assert "reference/values.md" in reference


def test_a_page_names_the_file_to_edit(repository: Path) -> None:
    assert f"edit: {HOME}/edit/main/docs/install.ko.md\n" in rendered(repository)


def test_lists_are_indented_as_the_generator_reads_them() -> None:
    text = "1. One\n   more:\n\n   ```console\n   $ x\n   ```\n\n   - within\n2. Two\n\nAfter\n"

    assert site_text.with_lists(text) == (
        "1. One\n    more:\n\n    ```console\n    $ x\n    ```\n\n    - within\n2. Two\n\nAfter\n"
    )


def test_code_keeps_what_looks_like_a_link() -> None:
    text = "[a](b) `[a](b)`\n```python\nx[0](b)\n```\n"

    assert site_text.with_links(text, str.upper) == "[a](B) `[a](b)`\n```python\nx[0](b)\n```\n"


@pytest.mark.parametrize(
    "words",
    [
        "파드 파드가 파드를 파드에서 파드에서는 파드들에게만",
        "네임스페이스 네임스페이스의 네임스페이스에서만",
        "게이트웨이 게이트웨이에 게이트웨이로부터",
        "삭제 삭제하면 삭제합니다 삭제되었습니다",
        "Message Message를 Message에",
    ],
)
def test_a_search_sees_a_korean_word_without_its_endings(words: str) -> None:
    # JavaScript, where it is used, knows lookbehinds of several lengths; Python does not.
    python = site.separator().replace(
        "(?<=[가-힣]{2}|[A-Za-z0-9])", "(?:(?<=[가-힣]{2})|(?<=[A-Za-z0-9]))"
    )

    assert len({re.split(python, word)[0] for word in words.split()}) == 1
