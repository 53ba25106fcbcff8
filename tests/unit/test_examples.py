"""Each example with a pyproject.toml is what `kopf-kit new` writes, with its author's edits.

Of the others, the functions and the pages are tested here, too.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from examples.staticsite import staticsite
from examples.staticsite.staticsite import Login, Settings, StaticSite, desired
from kopf_kit.rig import paths
from kopf_kit.scaffold import repository

EXAMPLES = sorted(file.parent for file in paths.CHECKOUT.glob("examples/*/pyproject.toml"))
#: What an author edits; all else that the template writes stays as it is.
EDITED = (
    *("PROJECT", "README.md", "README.ko.md", "pyproject.toml", "examples/sample.yaml"),
    *("charts/NAME/Chart.yaml", "charts/NAME/README.md", "charts/NAME/templates/_operator.tpl"),
    *("olm/csv.yaml", "olm/description.md"),
    *("operator/PACKAGE/__init__.py", "operator/PACKAGE/operator.py"),
    *(f"tests/{tier}/test_operator.py" for tier in ("unit", "faults", "e2e")),
)
#: What one author edits beside that: etcd's images come to a cluster without a registry, too, and
#: its page's first command resolves the packages.
EDITED_BY = {"etcd": {".gitignore", "Makefile"}}
#: Where an example takes the packages from, because they are beside it.
SOURCES = re.compile(
    r"\[tool\.uv\.sources\]\n"
    r"(?:(kopf-\w+) = \{ path = \"../../packages/\1\", editable = true \}\n)+\n"
)

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


def test_there_are_examples() -> None:
    assert {"flightticket", "memcached"} <= {example.name for example in EXAMPLES}


def test_the_pages_of_the_runtime_show_the_examples_as_they_are() -> None:
    texts = (
        (paths.CHECKOUT / "docs" / f"{page}.md").read_text() for page in ("runtime", "external")
    )
    shown = [part for text in texts for part in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    memcacheds, flight_tickets = (
        (paths.CHECKOUT / "examples" / file).read_text()
        for file in (
            "memcached/operator/memcached_operator/operator.py",
            "flightticket/operator/flightticket_operator/operator.py",
        )
    )

    assert len([part for part in shown if part in memcacheds]) == 1
    assert [part for part in shown if "async def book(" in part and part in flight_tickets]


@each_example
def test_all_that_the_template_writes_is_there_and_the_author_edited_a_few_files(
    example: Path,
) -> None:
    answers, *_ = repository.read(example).kinds
    edited = {
        path.replace("NAME", answers.name).replace("PACKAGE", answers.package) for path in EDITED
    } | EDITED_BY.get(example.name, set())

    texts = repository.files(answers)

    # Those of this repository hold for its examples, and GitHub runs no workflow of a subfolder.
    for name in ("LICENSE", "AGENTS.md", ".devcontainer/devcontainer.json"):
        del texts[Path(name)]
    texts = {path: text for path, text in texts.items() if ".github" not in path.parts}
    assert [path for path in texts if not (example / path).is_file()] == []
    changed = {str(path) for path, text in texts.items() if (example / path).read_text() != text}
    assert changed - edited == set(), "the example follows its template: change these, too"


@each_example
def test_its_pyproject_has_the_template_s_lines(example: Path) -> None:
    answers, *_ = repository.read(example).kinds
    ours = (example / "pyproject.toml").read_text()

    assert len(SOURCES.findall(ours)) == 1
    lines = repository.files(answers)[Path("pyproject.toml")].splitlines()
    missing = set(lines) - set(ours.splitlines())
    assert {line.partition(" = ")[0] for line in missing} <= {"description", "files"}


@each_example
def test_it_knows_nothing_else_of_this_repository(example: Path) -> None:
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=example, text=True)
    siblings = "|".join(path.name for path in example.parent.iterdir() if path.is_dir())
    ours = re.compile(rf"message.operator|\.\./\.\.|examples[/.]({siblings})|tests\.support")

    for name in filter(None, listed.split("\0")):
        if (example / name).is_file():
            text = SOURCES.sub("", (example / name).read_text())
            assert not ours.search(text), f"{name}: {ours.search(text)}"


def test_each_operator_of_the_gallery_fits_a_screen_and_is_tested() -> None:
    tested = (paths.CHECKOUT / "tests" / "faults" / "test_gallery.py").read_text()
    files = list(paths.CHECKOUT.glob("examples/gallery/*.py"))

    pages = [page.read_text() for page in (paths.CHECKOUT / "examples/gallery").glob("*.md")]

    assert len(files) == 10
    for file in files:
        lines = len(file.read_text().splitlines())
        assert lines <= 60
        row = rf"\| \[{file.stem}\]\({file.name}\) \| .+ \| {lines} \| (\d+) \| .+ \|"
        assert len({re.findall(row, page)[0] for page in pages}) == 1
        assert f"({file.stem})" in tested or f"{file.stem}.manager" in tested


# --- examples/staticsite ----------------------------------------------------------------------

SOURCE = Path(staticsite.__file__).read_text()
SECRETS = {kr.kinds.SECRET: {("web", "login"): Login("reader", "geheim", "7")}}


def site(**more: Any) -> StaticSite:
    metadata = {"name": "one", "namespace": "web", "uid": "1", "resourceVersion": "1"}
    spec = {"host": "a.example.org", "login": "login", "pages": {"index.html": "Hello"}, **more}
    return msgspec.convert({"metadata": metadata, "spec": spec}, StaticSite)


def plan(one: StaticSite) -> dict[str, dict[str, Any]]:
    context = kr.Context(Settings(), namespace="web", reads=SECRETS)
    return {child["kind"]: child for child in desired(one, context)}


def test_job_and_deployment_have_the_pages_and_another_name_for_others() -> None:
    def folders(one: StaticSite) -> list[str]:
        children = plan(one)
        parts = (children[kind]["spec"]["template"]["spec"] for kind in ("Job", "Deployment"))
        names = [part["volumes"][0]["configMap"]["name"] for part in parts]
        assert set(names) == {children["ConfigMap"]["metadata"]["name"]}
        return names

    assert folders(site()) == folders(site(replicas=2))
    assert folders(site()) != folders(site(pages={"index.html": "Bye"}))


def test_the_check_of_the_pages_names_those_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="about.html">a</a> <a href="b.html">b</a>')
    (tmp_path / "about.html").write_text('<a href="index.html">i</a>')

    def checked() -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", staticsite.CHECK], cwd=tmp_path, capture_output=True, text=True
        )
        return done.returncode, done.stdout.strip()

    assert checked() == (1, "These pages are linked, but do not exist: b.html")
    (tmp_path / "b.html").touch()
    assert checked() == (0, "")


@pytest.mark.parametrize("language", ["", ".ko"])
def test_the_page_shows_the_code_as_it_is(language: str) -> None:
    page = (paths.CHECKOUT / "examples" / "staticsite" / f"README{language}.md").read_text()
    shown = re.findall(r"```python title=\"staticsite.py\"\n(.*?)```", page, re.DOTALL)

    assert shown
    assert [part for part in shown if part not in SOURCE] == []
