"""A release's Python packages get into an index once; what is in the way is one sentence."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import trustme

from kopf_kit.pack.publication import index, packages
from kopf_kit.rig.run import HackError
from tests.support import package_index

TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INDEX", "UV_PUBLISH_URL", "UV_PUBLISH_TOKEN", TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return packages.build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of an index, and its folder."""
    folder = tmp_path_factory.mktemp("index") / "packages"
    with package_index.serving(folder) as address:
        yield address, folder


@pytest.fixture
def folder(served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an index that INDEX names, and to which anybody may upload."""
    address, folder = served
    for file in folder.iterdir():
        file.unlink()
    monkeypatch.setenv("INDEX", address)
    for name, value in package_index.ANYBODY.items():
        monkeypatch.setenv(name, value)
    return folder


def test_what_is_uploaded_is_what_was_built_and_is_uploaded_once(
    folder: Path, built: list[Path]
) -> None:
    index.check()
    index.publish(built[:1])  # interrupted
    first = folder / built[0].name
    before = first.stat()

    index.publish(built)

    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in built)
    assert all((folder / file.name).read_bytes() == file.read_bytes() for file in built)
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_version_that_the_index_has_otherwise_is_told(folder: Path, built: list[Path]) -> None:
    other = folder / built[0].name
    other.write_bytes(b"of somebody else")

    with pytest.raises(HackError) as error:
        index.publish(built)

    assert str(error.value) == (
        f"{index.name()} has another {other.name} already; raise the version, or delete that file "
        "if nobody uses it yet"
    )
    assert other.read_bytes() == b"of somebody else"


def test_an_index_that_does_not_know_who_uploads_is_told(
    folder: Path, built: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in package_index.ANYBODY:
        monkeypatch.delenv(name)

    with pytest.raises(HackError, match=r"^INDEX=\S+ asks who uploads; set UV_PUBLISH_TOKEN, or"):
        index.publish(built)

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/simple/", "packages.example.com/simple"])
def test_an_index_that_is_not_reached_is_told(
    folder: Path, built: list[Path], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("INDEX", address)

    with pytest.raises(HackError) as before:
        index.check()
    with pytest.raises(HackError) as after:
        index.publish(built)

    assert str(before.value).startswith(f"INDEX={address} is not reached (")
    assert str(after.value).startswith(f"INDEX={address} did not take the packages (")
    assert len(f"{before.value}{after.value}".splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "upload"),
    [
        ("http://127.0.0.1:8080/simple/", "http://127.0.0.1:8080/"),
        ("https://devpi.example.com/team/stable/+simple", "https://devpi.example.com/team/stable/"),
        ("https://packages.example.com/of/us", "https://packages.example.com/of/us"),
    ],
)
def test_the_upload_goes_beside_the_list(address: str, upload: str) -> None:
    assert index._upload(address) == upload


def test_only_a_workflow_has_an_index_without_naming_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert index.name() is None

    monkeypatch.setenv(TOKEN, "secret")

    assert index.name() == "uv's default index"
    assert index._is_trusted()
    monkeypatch.setenv("INDEX", "http://127.0.0.1:8080/simple/")
    assert not index._is_trusted()


class Trusting(BaseHTTPRequestHandler):
    """GitHub, which says what workflow runs, and the index that trusts this workflow."""

    ANSWERS: ClassVar = {
        "/_/oidc/audience": {"audience": "the-index"},
        "/github?of=a-run&audience=the-index": {"value": "who-runs"},
        "/_/oidc/mint-token": {"success": True, "token": "may-upload"},
    }
    asked: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.asked.append((self.path, self.headers["Authorization"] or "", sent))
        answer = json.dumps(self.ANSWERS.get(self.path, {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815


def test_a_workflow_uploads_with_a_token_that_the_index_gives_it(
    built: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Trusting) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        address = f"https://127.0.0.1:{server.server_port}"
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        for name, value in {
            "GITHUB_ACTIONS": "true",
            TOKEN: "of-the-job",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{address}/github?of=a-run",
            "UV_PUBLISH_URL": f"{address}/upload/",  # in the place of uv's default
            "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
            "UV_SYSTEM_CERTS": "1",
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        try:
            index.publish(built)
        finally:
            server.shutdown()

    by = {path: (who, sent) for path, who, sent in Trusting.asked}
    assert by["/github?of=a-run&audience=the-index"][0] == "Bearer of-the-job"
    assert json.loads(by["/_/oidc/mint-token"][1]) == {"token": "who-runs"}
    uploads = [(who, sent) for path, who, sent in Trusting.asked if path == "/upload/"]
    given = base64.b64encode(b"__token__:may-upload").decode()
    assert {who for who, _ in uploads} == {f"Basic {given}"}
    assert all(any(file.read_bytes() in sent for _, sent in uploads) for file in built)
