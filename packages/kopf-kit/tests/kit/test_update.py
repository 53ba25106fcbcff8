"""`kopf-kit new kind`, `kopf-kit new olm`, `kopf-kit update`: what comes to a repository later."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.test_new import passes_its_types_and_tests
from kopf_kit.project import definition, documents, releases
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import additions, repository, update
from kopf_kit.scaffold.repository import Answers, Record

CHECKOUT = Path(__file__).parents[4]
CACHE = Answers("cache-operator", "Cache", "cache.example.com")
KIT = "packages/kopf-kit/src/kopf_kit"
#: Where the template is, and where it was.
TEMPLATES = (f"{KIT}/scaffold/templates", f"{KIT}/template/templates")
#: The first commit whose `kopf-kit new` writes what `update` can read.
FIRST = "90e7021b2d5af25d9afd410d22b208161b18ad36"


def earlier() -> list[str]:
    """Return the commits that changed the template, the oldest first, and all releases.

    A shallow clone has fewer of them.
    """
    log = releases.git(CHECKOUT, "log", "--reverse", "--format=%H", "--", *TEMPLATES).stdout
    commits = log.decode().split()
    after = commits.index(FIRST) if FIRST in commits else 0
    return [*commits[after:], *map("v{}".format, releases.tagged(CHECKOUT))]


EARLIER = earlier()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=An Author", "-c", "user.email=author@example.com"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=Work")


def style(folder: Path) -> str:
    """Return what ruff finds."""
    run = "ruff check --no-cache . && ruff format --no-cache --diff ."
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["sh", "-c", run],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr if result.returncode else ""


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1, (file, before)
    file.write_text(text.replace(before, after))


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Have a new repository, with its first commit."""
    folder = tmp_path / "cache-operator"
    repository.write(CACHE, folder, lock=False)
    commit(folder)
    return folder


# --- a further kind -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Bucket", "A", "B" * 63])
def test_a_further_kind_is_served_described_and_tested(written: Path, kind: str) -> None:
    files = additions.kind(written, kind)

    assert style(written) == ""
    made = definition.load(written)
    assert [each.kind for each in made.kinds] == ["Cache", kind]
    assert made.kinds[1].qualified_group == "cache.example.com"
    chart = documents.load((written / "charts/cache-operator/Chart.yaml").read_text())
    crds = documents.load(chart["annotations"]["artifacthub.io/crds"])
    assert [each["kind"] for each in crds] == ["Cache", kind]
    assert list(documents.load((written / "olm/csv.yaml").read_text())["kinds"]) == ["Cache", kind]
    changed = git(written, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert {line[3:] for line in changed} == {file.as_posix() for file in files}
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=written,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "3 passed" in tests.stdout, tests.stdout


def test_kinds_may_follow_one_another_in_other_groups(written: Path) -> None:
    additions.kind(written, "Bucket", "storage.example.com")
    additions.kind(written, "Proxy", "example.org")

    groups = [each.qualified_group for each in definition.load(written).kinds]
    assert groups == ["cache.example.com", "storage.example.com", "example.org"]
    assert style(written) == ""


@pytest.mark.parametrize(
    ("break_it", "kind", "sentence"),
    [
        (lambda _: None, "CACHE", "PROJECT has the kind Cache already"),
        (lambda _: None, "Caches", "both Cache and Caches would be called caches; choose"),
        (
            lambda folder: additions.kind(folder, "Bus"),
            "Buse",
            "both Bus and Buse would be called buses; choose another kind",
        ),
        (
            lambda folder: additions.kind(folder, "Controller"),
            "Desired",
            "operator.py has a desired_controller already; choose another kind",
        ),
        (
            lambda folder: (folder / "examples/bucket.yaml").touch(),
            "Bucket",
            "examples/bucket.yaml exists already; choose another kind, or rename the file",
        ),
        (
            lambda folder: (folder / "operator/cache_operator/operator.py").write_text("x = 1"),
            "Bucket",
            "operator.py has no Annotated, which the code of a kind uses; import it there",
        ),
        (
            lambda folder: edit(folder / "PROJECT", "    samples:\n", "    samples: # mine\n"),
            "Bucket",
            "PROJECT lacks the section",
        ),
    ],
)
def test_a_kind_that_cannot_be_added_changes_nothing(
    written: Path, break_it: Callable[[Path], object], kind: str, sentence: str
) -> None:
    break_it(written)
    before = contents(written)

    with pytest.raises(KitError, match=sentence) as refusal:
        additions.kind(written, kind)

    assert "\n" not in str(refusal.value)
    assert contents(written) == before


# --- OLM ------------------------------------------------------------------------------------------


def test_olm_comes_later_for_all_kinds(tmp_path: Path) -> None:
    folder = tmp_path / "cache-operator"
    repository.write(
        Answers("cache-operator", "Cache", "example.com", olm=False), folder, lock=False
    )
    additions.kind(folder, "Bucket")
    assert not (folder / "olm").exists()
    (folder / "olm").mkdir()  # what is generated for OLM is there, too
    assert not repository.read(folder).kinds[0].olm

    files = additions.olm(folder)

    assert [file.as_posix() for file in files] == ["olm/csv.yaml", "olm/description.md"]
    assert list(documents.load((folder / "olm/csv.yaml").read_text())["kinds"]) == [
        "Cache",
        "Bucket",
    ]
    with pytest.raises(KitError, match=r"olm/csv\.yaml exists already"):
        additions.olm(folder)


# --- a newer kit ----------------------------------------------------------------------------------


def of_commit(revision: str) -> update.Earlier:
    """Return what writes a repository as the kit of a commit does."""

    def write(before: Record, folder: Path) -> None:
        sources = folder.with_name("kit")
        # The packages' licence is a link to that of the checkout.
        archive = releases.git(CHECKOUT, "archive", revision, "packages", "LICENSE").stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(sources, filter="data")
        search = os.pathsep.join(map(str, (sources / "packages").glob("*/src")))
        first = before.kinds[0]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "kopf_kit",
                "new",
                first.name,
                folder,
                "--no-lock",
                "--kind",
                first.kind,
                "--group",
                first.group,
            ],
            cwd=sources,
            env={**os.environ, "PYTHONPATH": search},
            check=True,
            timeout=60,
        )

    return write


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this kit be of a version that follows all others."""
    monkeypatch.setattr(repository, "version", lambda: "0.99.0")


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(
    "revision",
    [
        pytest.param(revision, marks=() if at in (0, len(EARLIER) - 1) else pytest.mark.long)
        for at, revision in enumerate(EARLIER)
    ],
)
def test_an_author_s_edits_stay_and_the_newer_template_comes(revision: str, tmp_path: Path) -> None:
    folder, write = tmp_path / "cache-operator", of_commit(revision)
    write(Record(folder, "", (CACHE,), ""), folder)
    code, pyproject = folder / "operator/cache_operator/operator.py", folder / "pyproject.toml"
    code.write_text(code.read_text() + "\n\nLIMIT = 10\n")
    edit(pyproject, "dependencies = [\n", 'dependencies = [\n    "httpx>=0.28",\n')
    (folder / "README.ko.md").unlink()
    commit(folder)

    changes = update.update(folder, write)

    assert changes.conflicts == []
    assert "LIMIT = 10" in code.read_text()
    assert '"httpx>=0.28",' in pyproject.read_text()
    assert not (folder / "README.ko.md").exists()
    assert style(folder) == ""
    assert repository.pins()["kit_pin"] in pyproject.read_text()
    assert "cliVersion: 0.99.0" in (folder / "PROJECT").read_text()
    assert {"PROJECT updated", "pyproject.toml updated"} <= set(changes.notes)
    # But for the edits, it is what this kit writes.
    for path, text in repository.files(CACHE).items():
        if path.name not in ("operator.py", "pyproject.toml", "README.ko.md"):
            assert (folder / path).read_text() == text, path
    passes_its_types_and_tests(folder)


_FILES = {"makefile": "Makefile", "pyproject": "pyproject.toml", "readme": "README.md"}


def changed(**texts: tuple[str, str]) -> update.Earlier:
    """Return what writes a repository as now, but with other texts in some files."""

    def write(before: Record, folder: Path) -> None:
        repository.lay_out(repository.files(before.kinds[0]), folder)
        edit(folder / "PROJECT", f"cliVersion: {repository.version()}", "cliVersion: 0.1.0")
        for name, (now, then) in texts.items():
            edit(folder / _FILES[name], now, then)

    return write


@pytest.mark.usefixtures("newer")
def test_what_both_changed_is_marked_and_named(tmp_path: Path) -> None:
    folder, write = tmp_path / "cache-operator", changed(makefile=("deploy cluster-down", "deploy"))
    write(Record(folder, "", (CACHE,), ""), folder)
    edit(folder / "Makefile", "run deploy", "run mine deploy")
    git(folder, "init", "--quiet")
    commit(folder)

    changes = update.update(folder, write)

    assert changes.conflicts == ["Makefile"]
    text = (folder / "Makefile").read_text()
    assert text.index("<<<<<<< yours") < text.index("run mine deploy") < text.index(">>>>>>> newer")


@pytest.mark.usefixtures("newer")
def test_a_conflict_that_uv_cannot_read_is_to_be_mended_before_it_locks(tmp_path: Path) -> None:
    folder, write = tmp_path / "cache-operator", changed(pyproject=("line-length = 100", "# 1"))
    write(Record(folder, "", (CACHE,), ""), folder)
    edit(folder / "pyproject.toml", "# 1", "# 2")
    (folder / "uv.lock").touch()
    git(folder, "init", "--quiet")
    commit(folder)

    changes = update.update(folder, write)

    assert changes.conflicts == ["pyproject.toml"]
    assert changes.notes[-1] == "uv.lock stays; run `uv lock` once pyproject.toml is mended"


@pytest.mark.usefixtures("newer")
def test_files_that_only_one_template_has_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write = tmp_path / "cache-operator", changed()
    write(Record(folder, "", (CACHE,), ""), folder)
    git(folder, "init", "--quiet")
    commit(folder)
    texts = dict(repository.files(CACHE))
    del texts[Path("Makefile")], texts[Path("README.md")]
    edit(folder / "README.md", "## Develop", "## Work")
    commit(folder)
    monkeypatch.setattr(
        update,
        "_write_newer",
        lambda _, target: repository.lay_out({**texts, Path("justfile"): "check:\n"}, target),
    )

    changes = update.update(folder, write)

    assert {"Makefile removed", "justfile added"} <= set(changes.notes)
    assert "README.md stays, because you changed it; the kit needs it no more" in changes.notes
    assert (folder / "justfile").is_file()
    assert not (folder / "Makefile").exists()


def refuse(before: Record, folder: Path) -> None:
    raise AssertionError((before, folder))


def test_a_repository_of_this_kit_stays_as_it_is(written: Path) -> None:
    changes = update.update(written, refuse)

    assert "`uvx kopf-kit@latest update` takes the newest" in changes.notes[0]
    assert git(written, "status", "--porcelain") == ""


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("cliVersion: 0.1.0\n", "cliVersion: 0.1.0 # mine\n", "has uncommitted changes; commit"),
        ("cliVersion: 0.1.0\n", "", "has no cliVersion, which says what kit wrote this"),
        ("cliVersion: 0.1.0\n", "cliVersion: 1.0.0\n", "is of kopf-kit 1.0.0, and this is the old"),
        ("cliVersion: 0.1.0\n", "cliVersion: new\n", "`new` is not a version"),
    ],
)
def test_what_cannot_be_updated_is_refused(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    folder = tmp_path / "cache-operator"
    changed()(Record(folder, "", (CACHE,), ""), folder)
    git(folder, "init", "--quiet")
    commit(folder)
    edit(folder / "PROJECT", before, after)

    with pytest.raises(KitError, match=sentence):
        update.update(folder, refuse)


@pytest.mark.usefixtures("newer")
def test_an_update_without_git_is_refused(tmp_path: Path) -> None:
    changed()(Record(tmp_path, "", (CACHE,), ""), tmp_path)

    with pytest.raises(KitError, match="is not in a git repository, or git is missing; commit it"):
        update.update(tmp_path, refuse)


@pytest.mark.usefixtures("newer")
def test_an_index_that_is_not_reached_is_told_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache-operator"
    changed()(Record(folder, "", (CACHE,), ""), folder)
    git(folder, "init", "--quiet")
    commit(folder)
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'error: Could not connect' >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}{os.pathsep}{os.environ['PATH']}")

    with pytest.raises(KitError, match=r"nothing was changed\. uv says: error: Could"):
        update.update(folder)

    assert git(folder, "status", "--porcelain") == ""


# --- the commands ---------------------------------------------------------------------------------


def test_the_commands_work_below_the_repository_and_nowhere_else(written: Path) -> None:
    def kit(*arguments: str, folder: Path) -> tuple[int, str]:
        run = subprocess.run(
            [sys.executable, "-m", "kopf_kit", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return run.returncode, " ".join(run.stderr.split())

    assert kit("update", folder=written / "tests")[0] == 0
    assert "tests/unit/test_bucket.py written" in kit("new", "kind", "Bucket", folder=written)[1]
    code, said = kit("new", "olm", folder=written.parent)
    assert (code, "is not in the repository of an operator" in said) == (1, True)
    assert "olm/csv.yaml exists already" in kit("new", "olm", folder=written / "tests")[1]
