"""`kopf-kit new kind` and `kopf-kit new olm`: what comes to a repository later."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import forked
from kit.called import commit, style
from kopf_kit.project import definition, documents
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import additions, repository
from kopf_kit.scaffold.repository import Answers

CACHE = Answers("cache-operator", "Cache", "cache.example.com")


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


@pytest.mark.parametrize("kind", ["Bucket", "B" * 63])
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
    asked = ("git", "status", "--porcelain", "--untracked-files=all")
    changed = subprocess.check_output(asked, cwd=written, text=True, timeout=60)
    assert {line[3:] for line in changed.splitlines()} == {file.as_posix() for file in files}
    tests = forked.python("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=written)
    assert "3 passed" in tests.stdout, tests.stdout


def test_kinds_may_follow_one_another_in_other_groups(written: Path) -> None:
    additions.kind(written, "Bucket", "storage.example.com")
    additions.kind(written, "Proxy", "example.org")

    groups = [each.qualified_group for each in definition.load(written).kinds]
    assert groups == ["cache.example.com", "storage.example.com", "example.org"]
    assert style(written) == ""


def test_f6_what_a_kind_uses_is_imported(written: Path) -> None:
    code = written / "operator" / "cache_operator" / "operator.py"
    edit(code, "import msgspec\n", "from msgspec import Meta\n")
    edit(code, "msgspec.Meta", "Meta")

    additions.kind(written, "Bucket")

    assert style(written) == ""  # no name is undefined


def test_f6_a_kind_is_removed_without_a_trace(written: Path) -> None:
    before = contents(written)
    additions.kind(written, "Bucket")
    additions.kind(written, "Proxy", "example.org")

    additions.remove_kind(written, "Bucket")
    additions.remove_kind(written, "Proxy")

    assert contents(written) == before
    with pytest.raises(KitError, match="no kind Bucket that could be removed; it has none but"):
        additions.remove_kind(written, "Bucket")
    with pytest.raises(KitError, match="Cache is the first kind"):
        additions.remove_kind(written, "Cache")


_MIXED = "this statement names"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("ALL = [controller, bucket_controller]\n", f"{_MIXED} controller, and is not of Bucket"),
        ("@controller.check\n@bucket_controller.check\ndef both(obj): ...\n", _MIXED),
        ("def of(bucket: Bucket) -> None: ...\n", f"{_MIXED} Bucket, and is not of Bucket"),
        ("def of(\n", "operator.py is not Python"),
    ],
)
def test_a_kind_that_other_code_needs_stays(written: Path, code: str, sentence: str) -> None:
    additions.kind(written, "Bucket")
    module = written / "operator" / "cache_operator" / "operator.py"
    module.write_text(f"{module.read_text()}\n\n{code}")
    before = contents(written)

    with pytest.raises(KitError, match=sentence):
        additions.remove_kind(written, "Bucket")

    assert contents(written) == before


@pytest.mark.parametrize("samples", ["[]", "[{}, other.yaml]", "\n      - {}\n      - other.yaml"])
def test_a_kind_is_removed_with_each_of_its_samples(written: Path, samples: str) -> None:
    additions.kind(written, "Bucket")
    sample = "examples/bucket.yaml"
    edit(written / "PROJECT", f"Bucket: {sample}", f"Bucket: {samples.format(sample)}")
    (written / "other.yaml").touch()

    additions.remove_kind(written, "Bucket")

    assert "Bucket" not in (written / "PROJECT").read_text()
    assert (written / "other.yaml").exists() is (written / sample).exists() is (samples == "[]")


def test_a_kind_that_cannot_be_removed_from_a_file_stays(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    additions.kind(written, "Bucket")
    before, write = contents(written), Path.write_text

    def refuse(path: Path, text: str) -> int:
        if path.name == "csv.yaml":
            raise PermissionError(13, "Permission denied", str(path))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(KitError, match="Permission denied; nothing was written"):
        additions.remove_kind(written, "Bucket")

    assert contents(written) == before


def test_a_page_that_is_quoted_is_read(written: Path) -> None:
    edit(
        written / "charts/cache-operator/Chart.yaml",
        "home: https://github.com/example/cache-operator\n",
        'home: "https://github.com/42/cache.git" # its page\n',
    )
    shutil.rmtree(written / "olm")

    additions.olm(written)

    text = (written / "olm/csv.yaml").read_text()
    assert documents.load(text)["reviewers"] == ["42"]
    assert "url: https://github.com/42/cache\n" in text


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
            "operator.py has no Settings, which the code of a kind uses; declare it there",
        ),
        (
            lambda folder: (folder / "operator/cache_operator/operator.py").write_text(
                f"x = {'-' * 30000}1"
            ),
            "Bucket",
            "operator.py has code that is nested too deep to be read",
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


# --- the commands ---------------------------------------------------------------------------------


def test_the_commands_work_below_the_repository_and_nowhere_else(written: Path) -> None:
    def kit(*arguments: str, folder: Path) -> tuple[int, str]:
        run = forked.kit(*arguments, folder=folder)
        return run.returncode, " ".join(run.stderr.split())

    assert "tests/unit/test_bucket.py written" in kit("new", "kind", "Bucket", folder=written)[1]
    code, said = kit("new", "olm", folder=written.parent)
    assert (code, "is not in the repository of an operator" in said) == (1, True)
    assert "olm/csv.yaml exists already" in kit("new", "olm", folder=written / "tests")[1]
