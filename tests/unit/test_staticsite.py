"""The functions of examples/staticsite, and the page that builds it in steps."""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from examples.staticsite import staticsite
from examples.staticsite.staticsite import Login, Settings, StaticSite, desired

CHECKOUT = Path(__file__).parents[2]
SOURCE = Path(staticsite.__file__).read_text()
HOST, KEY = "a.example.org", ("web", "one")
SECRETS = {kr.kinds.SECRET: {("web", "login"): Login("reader", "geheim", "7")}}


def site(**more: Any) -> StaticSite:
    metadata = {"name": "one", "namespace": "web", "uid": "1", "resourceVersion": "1"}
    spec = {"host": HOST, "login": "login", "pages": {"index.html": "Hello"}, **more}
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
    page = (CHECKOUT / "examples" / "staticsite" / f"README{language}.md").read_text()
    shown = re.findall(r"```python title=\"staticsite.py\"\n(.*?)```", page, re.DOTALL)

    assert shown
    assert [part for part in shown if part not in SOURCE] == []
