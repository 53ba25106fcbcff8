"""hack.scaffold: what an author may answer, and what `make new` writes of it."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hack.pack import kit_record, project
from hack.pack.project import REFERENCE
from hack.rig import locked
from hack.rig.run import HackError
from hack.scaffold import author, kit, repository
from hack.scaffold.answers import Answers
from hack.tiers import tier
from tests.support.console import commands, typed

CHECKOUT = Path(__file__).parents[3]
CACHE = Answers("cache-operator", "Cache", "cache.example.com")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have a new repository to read, but for what is generated there."""
    folder = tmp_path_factory.mktemp("scaffold") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repository, "generate", lambda folder: None)
        repository.write(CACHE, folder)
    return folder


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "NAME is missing: say for example `make new NAME="),
        ("Cache", "NAME=Cache is not a DNS label"),
        ("cache_operator", "not a DNS label"),
        ("cache.operator", "not a DNS label"),
        ("-cache", "not a DNS label"),
        ("cache-", "not a DNS label"),
        ("9cache", "begins with a letter"),
        ("../cache", "not a DNS label"),
        ("캐시", "not a DNS label"),
        ("c" * 45, "has 45 characters; use at most 44"),
        ("class", "class is a keyword of Python; use for example NAME=class-operator"),
        ("match", "match is a keyword of Python"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(HackError, match=sentence):
        Answers(name, "Cache", "cache.example.com")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("", "KIND is missing"),
        ("cache", "KIND=cache is not a kind; use letters and digits, the first .* in upper case"),
        ("My-Cache", "is not a kind"),
        ("9Cache", "is not a kind"),
        ("None", "has another meaning for None"),
        ("Spec", "has another meaning for Spec"),
        ("C" * 53, "has 53 characters; use at most 52"),
    ],
)
def test_a_kind_that_cannot_be_is_refused(kind: str, sentence: str) -> None:
    with pytest.raises(HackError, match=sentence):
        Answers("cache-operator", kind, "cache.example.com")


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ("", "GROUP is missing"),
        ("cache", "GROUP=cache is not a domain"),
        ("Cache.Example.com", "is not a domain"),
        ("cache..com", "is not a domain"),
        ("cache.example.com/v1", "is not a domain"),
        (".".join(["a" * 63] * 4), "is not a domain"),
        ("cache.k8s.io", "is a group of Kubernetes' own"),
        ("apps.kubernetes.io", "is a group of Kubernetes' own"),
    ],
)
def test_a_group_that_cannot_be_is_refused(group: str, sentence: str) -> None:
    with pytest.raises(HackError, match=sentence):
        Answers("cache-operator", "Cache", group)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Cache", "caches"), ("Proxy", "proxies"), ("Key", "keys"), ("Bus", "buses"), ("Y", "ys")],
)
def test_a_kind_has_a_plural(kind: str, plural: str) -> None:
    assert Answers("an-operator", kind, "example.com").plural == plural


@pytest.mark.parametrize("group", ["example.com", "cache.example.com", "a.b.example.com"])
@pytest.mark.parametrize("kind", ["Cache", "Entry"])
def test_project_says_what_was_answered(group: str, kind: str, tmp_path: Path) -> None:
    for path, text in author.files(Answers("cache-operator", kind, group)).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    made = project.load(tmp_path)

    (read,) = made.kinds
    (file,) = made.samples[kind]
    sample = yaml.safe_load(file.read_text())
    assert (made.name, made.package, read.kind) == ("cache-operator", "cache_operator", kind)
    assert read.qualified_group == group
    assert (sample["kind"], sample["apiVersion"]) == (kind, f"{group}/v1alpha1")


# --- the repository -------------------------------------------------------------------------------


def test_nothing_is_left_to_fill_in_and_nothing_names_another_operator(folder: Path) -> None:
    texts = author.files(CACHE)

    assert texts.keys() <= {file.relative_to(folder) for file in folder.rglob("*")}
    for path, text in texts.items():
        assert "@@" not in text, path
        assert REFERENCE.name not in text.replace("message-operator founders", ""), path
        assert "message" not in path.as_posix()


def test_its_configuration_is_of_this_repository_s_libraries_and_rules(folder: Path) -> None:
    ours = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    theirs = tomllib.loads((folder / "pyproject.toml").read_text())

    assert theirs["project"]["dependencies"] == ours["project"]["dependencies"]
    for group in ("dev", "go"):
        assert theirs["dependency-groups"][group] == ours["dependency-groups"][group]
    for rules in ("select", "ignore", "pydocstyle"):
        assert theirs["tool"]["ruff"]["lint"][rules] == ours["tool"]["ruff"]["lint"][rules]


def test_its_lock_has_what_its_own_groups_need_and_names_it(folder: Path) -> None:
    ours, theirs = ((root / "requirements.txt").read_text() for root in (CHECKOUT, folder))
    groups = tomllib.loads((folder / "pyproject.toml").read_text())["dependency-groups"]
    askers = ["pyproject.toml", *(f"pyproject.toml:{group}" for group in groups)]

    assert theirs.replace("cache-operator (", f"{REFERENCE.name} (") == locked.part(ours, *askers)
    assert "cache-operator (pyproject.toml)" in theirs
    assert REFERENCE.name not in theirs


@pytest.mark.parametrize(
    ("name", "kind"), [("cache-operator", "Cache"), ("website-operator", "Website")]
)
def test_its_code_is_in_the_style_that_its_checks_want_whatever_its_names(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "generate", lambda folder: None)
    repository.write(Answers(name, kind, "example.com"), tmp_path / "new")

    for command in (["check"], ["format", "--check"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "."],
            cwd=tmp_path / "new", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_its_workflow_runs_targets_that_there_are(folder: Path) -> None:
    text = (folder / ".github" / "workflows" / "check.yaml").read_text()
    makefiles = [(folder / name).read_text() for name in ("Makefile", "hack/kit.mk")]

    (job,) = yaml.safe_load(text)["jobs"].values()
    assert job["strategy"]["matrix"]["target"] == ["check", "e2e"]
    for target in job["strategy"]["matrix"]["target"]:
        assert f".PHONY: {target}\n" in "".join(makefiles)


def test_each_of_its_tiers_is_run_before_a_release(folder: Path) -> None:
    text = (folder / ".github" / "workflows" / "test-all.yaml").read_text()
    tiers = tier.read(folder / "tests" / "tiers.toml")

    (job,) = yaml.safe_load(text)["jobs"].values()
    parts = ",".join(job["strategy"]["matrix"]["part"]).split(",")
    assert set(parts) == {name.removesuffix(tier.LONG) for name in tiers}
    for each in tiers.values():
        for word in f"{each.run} {each.pytest}".split():
            assert not word.startswith("tests/") or (folder / word).exists(), word


def test_a_tag_that_is_pushed_releases_it_by_targets_that_there_are(folder: Path) -> None:
    text = (folder / ".github" / "workflows" / "release.yaml").read_text()
    ran = re.findall(r"run: make ([a-z-]+)", text)

    assert ran == ["release", "release"]
    for target in ran:
        assert f".PHONY: {target}\n" in (folder / "hack" / "kit.mk").read_text()


@pytest.mark.parametrize("page", ["README", "docs/verify"])
def test_its_pages_have_the_same_commands_in_both_languages(page: str) -> None:
    texts = author.files(CACHE)
    english, korean = (typed(texts[Path(f"{page}{language}.md")]) for language in ("", ".ko"))

    assert english
    assert korean == english


@pytest.mark.parametrize("language", ["", ".ko"])
def test_its_users_verify_a_release_as_ours_do(folder: Path, language: str) -> None:
    page = Path("docs", f"verify{language}.md")
    ours, theirs = ((root / page).read_text() for root in (CHECKOUT, folder))
    (version,) = re.findall(r" VERSION=(\S+)\n", ours)

    assert commands(theirs) == [
        line.replace(REFERENCE.name, CACHE.name).replace(version, "0.1.0")
        for line in commands(ours)
    ]
    for about_us in ("<!--", "test-release", "releases", "kubectl"):
        assert about_us not in theirs


def test_its_chart_defines_all_that_an_operator_s_own_chart_does() -> None:
    def defined(text: str) -> set[str]:
        return set(re.findall(r'define "[^".]+\.(\w+)"', text))

    own = Path("templates", "_operator.tpl")
    text = author.files(CACHE)[Path("charts", "cache-operator") / own]
    example = project.load(CHECKOUT / "examples" / "memcached").written_chart / own

    assert defined(text) == defined(example.read_text())


def test_the_kit_needs_nothing_that_stays_here() -> None:
    files = kit.files()
    there = {path for path in files if not path.is_relative_to("hack/reference")}
    author_s = author.files(CACHE).keys()
    missing = {
        f"{path} imports {module}"
        for path in there
        if path.suffix == ".py"
        for module in imported(files[path])
        if (found := module_file(module)) is not None and found not in there | author_s
    }

    assert len(there) > 100
    assert missing == set()


def imported(file: Path) -> set[str]:
    """Return all that a module imports, whether it is a module or a name in one."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def module_file(module: str) -> Path | None:
    """Return the file of a module of this repository, None for any other."""
    path = Path(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    roots = (Path(), Path("operator"))
    every = (root / candidate for root in roots for candidate in candidates)
    return next((file for file in every if (CHECKOUT / file).is_file()), None)


def test_a_program_can_be_run_there_as_it_can_here(folder: Path) -> None:
    for path, source in kit.files().items():
        assert (folder / path).stat().st_mode == source.stat().st_mode, path


def test_git_knows_all_files(folder: Path) -> None:
    listed = subprocess.check_output(["git", "ls-files"], cwd=folder, text=True).splitlines()

    assert set(map(Path, listed)) == {*kit.files(), *author.files(CACHE), kit_record.FILE}


def test_a_folder_that_is_empty_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "generate", lambda folder: None)

    repository.write(CACHE, tmp_path)

    assert (tmp_path / "PROJECT").is_file()


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    with pytest.raises(HackError, match="is not empty; choose a folder that is"):
        repository.write(CACHE, tmp_path)
    with pytest.raises(HackError, match="is a file; choose a folder"):
        repository.write(CACHE, tmp_path / "mine")

    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["operator", "kopf", "kopf-runtime", "hack"])
def test_a_name_that_python_has_already_is_refused(name: str, tmp_path: Path) -> None:
    package = name.replace("-", "_")

    with pytest.raises(HackError, match=f"there is a package {package} already"):
        repository.write(Answers(name, "Cache", "cache.example.com"), tmp_path)


def test_a_folder_in_this_checkout_is_refused() -> None:
    with pytest.raises(HackError, match="is in this checkout"):
        repository.write(CACHE, CHECKOUT / "examples" / "new")


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise HackError("no Helm")

    monkeypatch.setattr(repository, "generate", fail)

    with pytest.raises(HackError, match="no Helm"):
        repository.write(CACHE, tmp_path / "new")

    assert list(tmp_path.iterdir()) == []
