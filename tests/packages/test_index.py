"""What an author has who has no checkout: an index, examples, sdists that pass their tests."""

import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.release import files, signatures
from kopf_kit.rig import control_plane, locked, paths
from kopf_offline import golang
from message_operator import __version__
from tests.release import registry, releasing
from tests.unit.test_examples import EXAMPLES, SOURCES

#: Settings of uv and of pip are the way to a package registry on some machines.
_KEPT = (
    "UV_",
    "PIP_",
    "SSL_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
)


#: A version to which the packages are raised.
_NEXT = "9.8.7"
#: Seconds of a processor that the first `make check` of a new repository takes at the most, with
#: what uv installs: how long it waits says more about the machine and the index.
_CHECKED_WITHIN = 60
CACHE = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
NEW = ("--kind=Cache", "--group=cache.example.com")
_GIT = ("git", "-c", "user.name=An Author", "-c", "user.email=author@example.com")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with the distributions of this version and of a later one, by its address."""
    scratch = tmp_path_factory.mktemp("index")
    with registry.serving_index(scratch / "packages") as address:
        raised = shutil.copytree(files.PACKAGES, scratch / "raised" / "packages")
        for file, text in files.raised(_NEXT, raised).items():
            file.write_text(text)
        for folder in (files.PACKAGES, raised):
            files.build(scratch / "packages", folder)
        yield address


class Author:
    """Somebody with an empty home and uv, by default the user who runs the tests."""

    def __init__(self, home: Path, index: str, user: pwd.struct_passwd | None = None) -> None:
        self.home = home
        self.user = user
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert uv
        programs = home / "bin"
        programs.mkdir()
        # helm: an author has it, or Go
        for program in (uv, Path(uv).with_name("uvx"), golang.program("helm")):
            if user:  # who may not enter the folders of root
                os.chown(shutil.copy(program, programs), user.pw_uid, user.pw_gid)
            else:
                (programs / Path(program).name).symlink_to(program)
        self.environment = {
            **{key: value for key, value in os.environ.items() if key.startswith(_KEPT)},
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "UV_INDEX": index,
            "UV_SYSTEM_CERTS": "1",
        }

    @property
    def lock(self) -> dict[str, Any]:
        return tomllib.loads((self.home / "uv.lock").read_text())

    def types(self, *command: str) -> str:
        done = self.runs(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def runs(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            user=self.user and self.user.pw_uid,
            group=self.user and self.user.pw_gid,
            extra_groups=[] if self.user else None,
        )


@pytest.fixture
def author(served: str) -> Iterator[Author]:
    """An author without the rights of root."""
    user = None if os.geteuid() else pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as home:  # only its owner may enter pytest's own
        if user:
            os.chown(home, user.pw_uid, user.pw_gid)
        yield Author(Path(home), served, user)


@pytest.mark.parametrize(
    ("asked", "version"),
    [("kopf-kit", _NEXT), (f"kopf-kit@{__version__}", __version__)],
    ids=["newest", "this"],
)
def test_uvx_runs_the_kit_of_the_index(author: Author, asked: str, version: str) -> None:
    assert author.types("uvx", asked, "--version") == f"kopf-kit, version {version}\n"


def test_two_versions_cannot_meet(author: Author) -> None:
    author.types("uv", "venv", "--quiet", "venv")
    mixed = (f"kopf-kit=={__version__}", f"kopf-runtime=={_NEXT}")

    done = author.runs("uv", "pip", "install", "--python=venv", *mixed)

    assert done.returncode != 0
    said = "".join(done.stderr.split())  # uv breaks lines as it likes
    assert f"yourequirekopf-runtime=={_NEXT}," in said
    assert f"dependsonkopf-runtime=={__version__}" in said


def test_pip_installs_the_runtime_and_nothing_that_it_does_not_need(author: Author) -> None:
    author.types("uv", "venv", "--quiet", "venv")
    author.types("uv", "pip", "install", "--quiet", "--python=venv", "kopf-runtime")

    listed = author.types("uv", "pip", "list", "--quiet", "--python=venv", "--format=freeze")

    names = {line.partition("==")[0] for line in listed.splitlines()}
    assert names >= {"kopf-runtime", "kopf", "aiohttp", "msgspec", "prometheus-client"}
    assert not names & {"kopf-kit", "rich", "pytest", "jsonschema", "kubernetes"}
    code = "import kopf_runtime; print(kopf_runtime.__file__)"
    assert str(author.home) in author.types("venv/bin/python", "-c", code)


def test_the_kit_works_without_what_builds_and_says_what_would(author: Author) -> None:
    author.types("uv", "venv", "--quiet", "venv")
    author.types("uv", "pip", "install", "--quiet", "--python=venv", f"kopf-kit=={__version__}")
    kit = str(author.home / "venv" / "bin" / "kopf-kit")

    assert "generate" in author.types(kit, "--help")
    author.types(kit, "new", "cache-operator", *NEW)
    author.home /= "cache-operator"
    author.types(kit, "generate")
    assert author.types(kit, "verify") == ""
    done = author.runs(kit, "tool", "helm", "olm-validate")

    assert done.returncode == 1
    assert re.fullmatch(
        r"\s*error: this needs olm-validate v\S+: install kopf-offline "
        r"\(`uv add --dev kopf-offline`, or with pip\), which builds it with Go\s*",
        done.stderr,
    )
    assert not list((author.home.parent / ".cache" / "kopf-kit").glob("go-*"))


def test_a_new_repository_pins_the_index_s_packages_and_is_green_at_once(author: Author) -> None:
    author.types("uvx", f"kopf-kit@{__version__}", "new", "cache-operator", *NEW)
    author.home /= "cache-operator"
    assert author.types("id", "-u") != "0\n"

    author.types("uv", "lock")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    author.types("make", "check")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took <= _CHECKED_WITHIN
    sources = {package["name"]: package["source"] for package in author.lock["package"]}
    index = author.environment["UV_INDEX"].rstrip("/")
    for name in ("kopf-runtime", "kopf-kit"):
        assert sources[name]["registry"].rstrip("/") == index


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_that_is_copied_out_passes_its_check(
    tmp_path: Path, served: str, example: Path
) -> None:
    author = Author(tmp_path, served)
    left = shutil.ignore_patterns("build", ".venv", "uv.lock", "*_cache", "__pycache__")
    author.home = shutil.copytree(example, tmp_path / "copy", ignore=left)
    file = author.home / "pyproject.toml"
    file.write_text(SOURCES.sub("", file.read_text()))
    # The Go programs that its tests need are built once.
    author.environment["XDG_CACHE_HOME"] = CACHE

    said = author.types("uv", "run", "kopf-kit", "check")

    assert re.search(r"^0 of \d+ tiers failed", said, re.MULTILINE), said
    sources = {package["name"]: package["source"] for package in author.lock["package"]}
    for name in ("kopf-runtime", "kopf-kit"):
        assert sources[name]["registry"].rstrip("/") == served.rstrip("/")


UV = Path(sys.executable).with_name("uv")
#: The rest of the fault tests is the tier `runtime-long`'s.
TESTS = ("tests/runtime", "-n", "2"), ("tests/faults", "-k", "process or test_data or test_reads")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the sdist, with an environment of what the lock has and of both built wheels."""
    folder = tmp_path_factory.mktemp("sdists")
    lock = folder / "lock.txt"
    lock.write_text(
        locked.part(paths.LOCK.read_text(), "kopf-runtime", "kopf-kit", "pyproject.toml:dev")
    )
    built = files.build(folder)
    wheels = [file for file in built if file.suffix == ".whl" and "offline" not in file.name]
    subprocess.run([UV, "venv", "--quiet", folder / "venv"], check=True)
    into = (
        UV,
        "pip",
        "install",
        "--quiet",
        "--system-certs",
        "--python",
        folder / "venv/bin/python",
    )
    subprocess.run([*into, "--require-hashes", "--requirement", lock], check=True)
    subprocess.run([*into, "--no-deps", *wheels], check=True)
    (sdist,) = folder.glob("kopf_runtime-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sources", filter="data")
    (root,) = (folder / "sources").iterdir()
    (folder / "assets").mkdir()
    for program in control_plane.PARTS:
        (folder / "assets" / program).symlink_to(golang.program(program))
    return root


@pytest.mark.parametrize("tests", TESTS, ids=lambda tests: tests[0])
def test_the_runtime_passes_its_tests_from_its_sdist(sources: Path, tests: tuple[str, ...]) -> None:
    python = sources.parents[1] / "venv" / "bin" / "python"
    environment = {"PATH": os.environ["PATH"], "HOME": str(sources.parents[1])}
    environment["KUBEBUILDER_ASSETS"] = str(sources.parents[1] / "assets")

    subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=sources, env=environment, check=True)


# --- what `kopf-kit new` wrote, later -------------------------------------------------------------


def begin(folder: Path, served: str, *options: str) -> Author:
    """Return somebody in a new repository, with a first commit."""
    author = Author(folder, served)
    # The Go programs that it needs are built once.
    author.environment["XDG_CACHE_HOME"] = CACHE
    author.types("uvx", f"kopf-kit@{__version__}", "new", "cache-operator", *NEW, *options)
    author.home /= "cache-operator"
    commit(author)
    return author


def commit(author: Author) -> None:
    author.types(*_GIT, "add", "--all")
    author.types(*_GIT, "commit", "--quiet", "--message=Work")


def test_a_kit_that_is_too_new_is_refused_and_changes_nothing(tmp_path: Path, served: str) -> None:
    author = begin(tmp_path, served, "--no-lock")
    status = ("git", "status", "--porcelain")

    done = author.runs("uvx", f"kopf-kit@{_NEXT}", "generate")

    assert done.returncode == 1, done.stdout + done.stderr
    sentence = f"is too old for this one, {_NEXT}: take over what this one writes"
    assert re.search(rf"^error: .*{re.escape(sentence)}", done.stderr, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr
    assert author.types(*status) == ""


@pytest.mark.parametrize("olm", [True, False], ids=["olm", "without olm"])
def test_a_new_repository_is_released_and_released_again(
    olm: bool, tmp_path: Path, served: str
) -> None:
    golang.programs(["cosign", "crane", "helm4"])  # an author has them, or builds them
    author = begin(tmp_path, served, *([] if olm else ["--without=olm"]))
    author.types("uv", "add", "--quiet", "--dev", f"kopf-offline=={__version__}")
    commit(author)
    keys, kit = tmp_path / "keys", ("uv", "run", "kopf-kit")
    author.environment |= {**releasing.secrets(keys), **releasing.NOBODY}
    author.types(*kit, "release", "keys")
    with registry.serving(tmp_path / "registry") as address:
        prefix = author.environment["REGISTRY"] = f"{address}/you"
        author.environment["IMG"] = image = f"{prefix}/stand-in:v1"
        given = releasing.push_stand_ins([image], f"{prefix}/catalog:v1", tmp_path, "a commit")
        author.environment |= given if olm else {}
        for version in (__version__, "0.2.0"):
            author.types(*kit, "release", version)
            folder = author.home / "build" / "release" / version
            lines = (folder / "images.txt").read_text().splitlines()
            assert lines
            for line in lines:
                assert signatures.signed(signatures.Keys(keys), line.split()[1]), line
        there = registry.content(address)

    assert author.types("git", "tag").split() == [f"v{__version__}", "v0.2.0"]
    assert author.types("git", "status", "--porcelain") == ""
    recorded = sorted(file.name for file in author.home.glob("catalog/bundles/*"))
    assert recorded == ([f"v{__version__}.yaml", "v0.2.0.yaml"] if olm else [])
    for version in (__version__, "0.2.0"):
        runbooks = author.types("git", "show", f"v{version}:docs/runbooks.md")  # alerts link to it
        assert "\n## CacheOperatorDown\n" in runbooks
        assert f"you/charts/cache-operator:{version}" in there
        assert f"you/cache-operator-release:v{version}" in there
        assert (f"you/cache-operator-bundle:v{version}" in there) == olm
        folder = author.home / "build" / "release" / version
        signed = {file.name for file in folder.iterdir()}
        assert {"checksums.txt", "checksums.txt.sigstore.json", "install.yaml"} <= signed
