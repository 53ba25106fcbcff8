"""The functions of examples/staticsite, and the page that builds it in steps."""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import kopf_runtime as kr
from examples.staticsite import staticsite
from examples.staticsite.staticsite import Login, Settings, StaticSite, desired
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until

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


def test_more_than_one_replica_has_a_budget() -> None:
    assert "PodDisruptionBudget" not in plan(site())
    assert "PodDisruptionBudget" in plan(site(replicas=2))


@pytest.mark.parametrize(
    "data",
    [
        {"username": "cmVhZGVy"},
        {"username": "cjpl", "password": "cA=="},
        {"username": "cmVhZGVy", "password": "YQpi"},
    ],
    ids=["no password", "a colon", "two lines"],
)
def test_a_secret_without_a_login_says_what_it_needs(data: dict[str, str]) -> None:
    raw = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1"}, "data": data}
    secret = msgspec.json.decode(msgspec.json.encode(raw), type=staticsite.Secret)

    with pytest.raises(ValueError, match="letters and digits, and its password one line"):
        staticsite.login(secret)


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


#: What its status does not ask for.
SITE: Any = None


def observed(**more: Any) -> kr.Observed:
    pods: dict[kr.Kind, list[Any]] = {kr.kinds.POD: more.pop("pods", [])}
    return kr.Observed(Settings(), descendants=pods, **more)


def told(seen: kr.Observed) -> tuple[bool, str, Any, bool | None]:
    state = staticsite.status(SITE, seen)
    assert isinstance(state.fields, staticsite.Status)
    return state.ready, state.reason, state.fields.answers, state.conditions[0].status


def test_a_site_is_ready_once_it_answers() -> None:
    job: Any = SimpleNamespace(kind=kr.kinds.JOB, unready="")

    assert told(observed(children=[job], check_result="")) == (True, "Reconciled", True, True)
    assert told(observed(children=[job], check_result="500")) == (False, "NoAnswer", False, True)


def test_what_the_job_printed_is_told_and_the_answer_is_unknown_meanwhile() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "check",
                "state": {"terminated": {"exitCode": 1, "message": "b.html\n"}},
            }
        ]
    }
    metadata = {"name": "a", "uid": "1", "resourceVersion": "1"}
    said = staticsite.complaint(
        msgspec.convert({"metadata": metadata, "status": status}, staticsite.Pod)
    )
    pod: Any = SimpleNamespace(view=said, deleting=False)
    trouble = kr.Trouble("Waiting", "Deployment one waits for Job one-check.")

    seen = observed(pods=[pod], check_result="", trouble=trouble)

    assert told(seen) == (False, "Waiting", None, False)
    assert staticsite.status(SITE, seen).conditions[0].message == "b.html"


async def test_each_trouble_of_the_page_is_told_and_ends() -> None:
    kind, status = staticsite.controller.kind, {"now": 500}
    one, other, secret = ("web", "one"), ("other", "two"), kr.kinds.SECRET

    async def answer(request: web.Request) -> web.Response:
        known = request.headers.get("Authorization") == "Basic cmVhZGVyOmdlaGVpbQ=="
        return web.Response(status=status["now"] if known else 401)

    def put(key: tuple[str, str]) -> None:
        metadata = {"namespace": key[0], "name": key[1]}
        spec = {"host": HOST, "login": "login", "pages": {"index.html": "Hello"}}
        server.put(kind, {"metadata": metadata, "spec": spec})

    def reason(key: tuple[str, str] = one) -> str:
        conditions = ((server.get(kind, key) or {}).get("status") or {}).get("conditions", ())
        return str(next((c["reason"] for c in conditions if c["type"] == "Ready"), ""))

    def ends(what: kr.Kind, key: tuple[str, str], **now: Any) -> None:
        server.edit(what, key, lambda raw: raw.update(status=now))

    app = web.Application()
    app.router.add_get("/web/one", answer)
    site_url = "http://127.0.0.1:{port}/{{namespace}}/{{name}}"
    kinds = (kind, *staticsite.controller.declaration.owned, kr.kinds.POD)
    async with TestServer(app) as there, ApiServer(*kinds).running() as server:
        settings = Settings(site_url=site_url.format(port=there.port))
        async with operating(server, *staticsite.manager.controllers, settings=settings):
            put(one)
            await until(lambda: reason() == "ReferenceMissing")
            server.put(secret, {"metadata": {"namespace": "web", "name": "login"}, "data": {}})
            await until(lambda: reason() == "ReferenceUnreadable")
            data = {"username": "cmVhZGVy", "password": "Z2VoZWlt"}
            server.edit(secret, ("web", "login"), lambda raw: raw.update(data=data))
            await until(lambda: reason() == "Waiting")  # for the Job
            put(other)
            await until(lambda: reason(other) == "HostTaken")

            done = [{"type": "Complete", "status": "True"}]
            ends(kr.kinds.JOB, ("web", "one-check"), conditions=done)
            await until(lambda: server.get(kr.kinds.DEPLOYMENT, one) is not None)
            pods = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
            ends(kr.kinds.DEPLOYMENT, one, observedGeneration=1, **pods)
            await until(lambda: reason() == "NoAnswer")
            status["now"] = 200
            await until(lambda: reason() == "Reconciled")

            server.edit(kind, one, lambda raw: raw["spec"].update(host="b.example.org"))
            await until(lambda: reason(other) == "ReferenceMissing")  # it has the host now


@pytest.mark.parametrize("language", ["", ".ko"])
def test_the_page_shows_the_code_as_it_is(language: str) -> None:
    page = (CHECKOUT / "examples" / "staticsite" / f"README{language}.md").read_text()
    shown = re.findall(r"```python title=\"staticsite.py\"\n(.*?)```", page, re.DOTALL)

    assert shown
    assert [part for part in shown if part not in SOURCE] == []
