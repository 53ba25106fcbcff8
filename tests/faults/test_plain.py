"""The operator on plain kopf: a real API server asks its handlers, as its chart has it asked.

Its pages have how it fares in the suite, which the tier `plain` runs.
"""

import asyncio
import base64
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from chart import helm
from kopf_kit.project import documents
from kopf_kit.rig import paths
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_kit.testing.under_test import Plain, prepare
from kopf_kit.testing.world import World, world
from kopf_runtime.declaring.kinds import Kind
from runtime.support.certificates import trust_in, write_certificate

NAME, SPACE = "note-webhooks", "default"
HOST = f"{NAME}.{SPACE}.svc"
_KINDS = {
    f"{kind}WebhookConfiguration": f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}"
    "webhookconfigurations"
    for kind in ("Validating", "Mutating")
}
_EXAMPLE = paths.CHECKOUT / "examples" / "plain-kopf"
_SERVER = """

@kopf.on.startup()
def serve_in_its_own_way(settings, **_):
    settings.admission.server = kopf.WebhookServer(insecure=True)
    settings.admission.managed = "its.own.example.dev"
"""
_HANDLERS = """

@kopf.on.validate("notes", operations=["CREATE", "UPDATE"])
def short_text(spec, warnings, **_):
    if len(spec["text"]) > 20:
        raise kopf.AdmissionError("Write at most 20 characters.", code=422)
    if len(spec["text"]) > 10:
        warnings.append("That is rather long.")


@kopf.on.mutate("notes", labels={"loud": "yes"})
def short_text_aloud(spec, patch, **_):
    patch.spec["text"] = spec["text"].upper()
"""


class Notes(Plain):
    """The operator of a repository, with the command of its chart."""

    module: Path | str = "main"
    kind = Kind("example.dev", "v1", "notes", "Note")
    child = Kind("", "v1", "pods", "Pod")

    def __init__(self, root: Path, command: Sequence[str], environment: dict[str, str]) -> None:
        self.crds = (root / "crd.yaml",)
        where = (
            f"import os, sys\nsys.path.insert(0, {str(root)!r})\nos.environ.update({environment})\n"
        )
        self.program = (sys.executable, "-c", where + command[2].replace("sleep(60)", "sleep(0.2)"))

    def spec(self, text: str) -> Raw:
        return {"text": text}

    def plan(self, found: Raw, text: str) -> list[Raw]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the repository of the example with webhooks, and with its chart."""
    root = tmp_path_factory.mktemp("adopted") / "notes"
    left_out = shutil.ignore_patterns("build", "tests", "__pycache__")
    shutil.copytree(_EXAMPLE, root, ignore=left_out)
    with (root / "main.py").open("a") as main:
        main.write(_SERVER + _HANDLERS)
    subprocess.run(
        [sys.executable, "-m", "kopf_kit", "generate"],
        cwd=root,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return root


def rendered(packaged: Path, **values: Any) -> list[Raw]:
    chart = packaged / "build" / "generated" / "charts" / "notes-operator"
    return helm.render(values, chart=chart)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def subject(packaged: Path, authority: trustme.CA, port: int, tmp_path: Path) -> Notes:
    (deployment,) = (each for each in rendered(packaged) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    write_certificate(tmp_path / "certificate", authority, HOST)
    given = {"KOPF_WEBHOOK_PORT": str(port), "KOPF_WEBHOOK_CERTIFICATE": "certificate"}
    assert given.keys() <= {variable["name"] for variable in container["env"]}
    given["KOPF_WEBHOOK_CERTIFICATE"] = str(tmp_path / "certificate")
    return Notes(packaged, container["command"], given)


@pytest.fixture
async def asked(
    here: World, packaged: Path, authority: trustme.CA, port: int
) -> AsyncIterator[World]:
    """Have the API server ask the operator, as soon as it runs."""
    await here.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": SPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
    )
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    configurations = [
        each
        for each in rendered(packaged, watchNamespaces=[here.namespace])
        if each["kind"] in _KINDS
    ]
    assert len(configurations) == len(_KINDS)
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            where = webhook["clientConfig"]
            where["service"] |= {"namespace": SPACE, "name": NAME, "port": port}
            where["caBundle"] = bundle
        await here.cluster.put(configuration | {"metadata": {"name": NAME}})
    await here.start()
    async with here.within(60, "asked"):
        while "Write at most" not in await tried(here, "n" * 21):
            await asyncio.sleep(0.1)
    yield here
    for path in _KINDS.values():
        await here.cluster.remove(f"{path}/{NAME}")
    await here.cluster.remove(f"/api/v1/namespaces/{SPACE}/services/{NAME}")


async def tried(here: World, text: str) -> str:
    """Return why an object with a text would be refused, or nothing."""
    manifest = here.subject.manifest(text, "tried")
    try:
        await here.cluster.ask("POST", f"{here.objects}?dryRun=All", manifest)
    except RefusedError as error:
        return error.message
    return ""


@pytest.mark.api
async def test_what_handlers_refuse_is_told_and_what_they_change_is_stored(asked: World) -> None:
    """Whatever server the operator's own code sets."""
    assert await tried(asked, "n" * 21) == (
        'admission webhook "short-text.notes.example.dev" denied the request: '
        "Write at most 20 characters."
    )
    loud = asked.subject.manifest("hello, you", "loud")
    loud["metadata"]["labels"] = {"loud": "yes"}

    made = await asked.cluster.ask("POST", asked.objects, loud)
    quiet = await asked.create("hello, you")

    assert made["spec"]["text"] == "HELLO, YOU"
    assert quiet["spec"]["text"] == "hello, you"
    async with asked.cluster.session.post(
        asked.cluster.plane.server + asked.objects, json=asked.subject.manifest("n" * 11, "long")
    ) as answer:
        assert answer.status == 201
        assert "That is rather long." in answer.headers["Warning"]


@pytest.mark.api
async def test_an_object_of_a_mebibyte_can_be_changed(asked: World) -> None:
    """The API server sends it twice."""
    await asked.create("hello", "large")
    await asked.cluster.patch(f"{asked.object('large')}/status", {"status": {"log": "n" * 2**20}})

    changed = await asked.cluster.patch(asked.object("large"), {"spec": {"text": "bye"}})

    assert changed["spec"]["text"] == "bye"


@pytest.mark.api
async def test_a_renewed_certificate_is_taken_and_no_write_is_refused_meanwhile(
    asked: World, authority: trustme.CA, port: int, tmp_path: Path
) -> None:
    async def shown() -> bytes:
        """Return the certificate that a client of today is shown."""
        context = trust_in(authority)
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=HOST
        )
        writer.close()
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found

    before, refused = await shown(), []
    write_certificate(tmp_path / "certificate", authority, HOST)
    async with asked.within(60, "renewed"):
        while await shown() == before:
            refused.append(await tried(asked, "hello"))

    refused.append(await tried(asked, "hello"))
    assert {*refused} == {""}
    assert asked.operator.exits == []


class Unasked(Notes):
    """The same operator as the conformance suite runs it."""

    program = Plain.program

    def __init__(self, root: Path) -> None:
        self.crds = (root / "crd.yaml",)
        self.module = root / "main.py"


@pytest.mark.api
async def test_it_starts_where_no_api_server_asks_it(
    packaged: Path, tmp_path: Path, api: Cluster
) -> None:
    """With the suite and `kopf-kit run`; kopf itself ends, unless there is a server."""
    (tmp_path / "main.py").write_text((_EXAMPLE / "main.py").read_text() + _HANDLERS)
    shutil.copy(packaged / "crd.yaml", tmp_path)
    subject = Unasked(tmp_path)
    await prepare(api, subject)
    async with world(api, subject) as here:
        await here.start()

        await here.create("n" * 30)
        assert here.operator.exits == []


_TESTS = _EXAMPLE / "tests" / "faults"
SUITE = runpy.run_path(str(_TESTS / "test_operator.py"))
_READMES = [_EXAMPLE / page for page in ("README.md", "README.ko.md")]


def test_the_page_has_the_reasons_that_most_of_the_failing_tests_share() -> None:
    page = " ".join(_READMES[0].read_text().lower().split())
    reasons = [SUITE[name] for name in ("_ONE", "_TWICE", "_LOST", "_SILENT")]

    failing = SUITE["Notes"].fails.values()

    assert [reason for reason in reasons if reason.lower() not in page] == []
    assert sum(any(reason in why for reason in reasons) for why in failing) > len(failing) / 2


def test_the_readmes_have_what_the_option_survived_prints() -> None:
    """Its numbers, without the quarter of an hour: each test that is in `fails` has to fail."""
    collect = ("--collect-only", "-q", "-p", "no:cacheprovider", "-m", "long or not long")
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *collect, _TESTS],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    tests = [line.rpartition("::")[2] for line in listed.stdout.splitlines() if "::" in line]
    fails = SUITE["Notes"].fails
    parts = {test: SUITE[test.partition("[")[0]].__module__.rpartition(".")[2] for test in tests}
    in_all = Counter(parts.values())
    lost = Counter(parts[test] for test in tests if {test, test.partition("[")[0]} & {*fails})

    counted = [
        (part, str(number - lost[part]), str(number)) for part, number in sorted(in_all.items())
    ]
    row = re.compile(r"^\| `(\w+)` \| (\d+) (?:of|/) (\d+) \|$", re.MULTILINE)
    for page in _READMES:
        assert row.findall(page.read_text()) == counted


def test_the_readmes_say_why_each_of_the_others_fails() -> None:
    grouped: dict[str, list[str]] = {}
    for test, why in SUITE["Notes"].fails.items():
        grouped.setdefault(why, []).append(f"`{test}`")
    row = re.compile(r"^\| (`test_.+`) \| (.+) \|$", re.MULTILINE)

    english, korean = (row.findall(page.read_text()) for page in _READMES)

    assert english == [(", ".join(tests), why) for why, tests in grouped.items()]
    assert [tests for tests, _ in korean] == [tests for tests, _ in english]


LIFE = ("-m", "pytest", "-q", "-o", "asyncio_mode=auto", "tests/faults", "-k", "there_and_back")


@pytest.mark.long
def test_the_recorded_rights_are_the_author_s_and_differences_are_told(tmp_path: Path) -> None:
    notes = shutil.copytree(
        _EXAMPLE, tmp_path / "notes", ignore=shutil.ignore_patterns("__pycache__", "build")
    )
    role = documents.load((notes / "role.yaml").read_text())
    rules = role["rules"]
    wrong = {**role, "rules": [{**rules[0], "verbs": ["create", "delete"]}]}
    (notes / "role.yaml").write_text(yaml.safe_dump(wrong))

    ended = subprocess.run(
        [sys.executable, "-m", "kopf_kit", "rights", "record", "--", sys.executable, *LIFE],
        cwd=notes,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert documents.load((notes / "rights.yaml").read_text())["rules"] == rules
    lacks = "role.yaml does not give it, and the operator asked for"
    assert f"missing: the right to patch pods: {lacks} /api/v1/namespaces/*/pods/note-hello" in said
    assert "unused: the right to delete pods: role.yaml gives it, and nothing asked for it" in said
