"""`kopf-kit new`: what an author may answer, and the repository that is written of it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kit import forked
from kit.called import style
from kit.forked import kit
from kopf_kit.compatible import specifier
from kopf_kit.project import definition, documents
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers
from kopf_offline import golang

CHECKOUT = Path(__file__).parents[4]
CACHE = Answers("cache-operator", "Cache", "cache.example.com")
#: What mypy knows of the packages from this repository is true for the next one.
KNOWN_TYPES = str(CHECKOUT / ".mypy_cache")
LONGEST = Answers("c" * 44, "C" * 63, ".".join(["g" * 63, "g" * 63, "g" * 55]))


def new(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return kit("new", *arguments, "--no-lock", folder=folder)


FLAGS = ("--kind", "Cache", "--group", "cache.example.com")


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "group", "sentence"),
    [
        ("Cache", "Cache", "example.com", "`Cache` is not a valid name"),
        ("9cache", "Cache", "example.com", "begins with a letter"),
        ("c" * 45, "Cache", "example.com", "has 45 characters; use at most 44"),
        ("class", "Cache", "example.com", "class means something else to Python"),
        ("kind", "Cache", "example.com", "or to `kopf-kit new`; use for example `kind-operator`"),
        ("null", "Cache", "example.com", "YAML reads `null` as None"),
        ("y", "Cache", "example.com", "YAML reads `y` as True"),
        ("a", "cache", "example.com", "the first of them in upper case, for example `Memcached`"),
        ("a", "Spec", "example.com", "another meaning for Spec"),
        ("a", "Ye", "example.com", "YAML reads `yes` as True"),
        ("a", "C" * 64, "example.com", "has 64 characters; use at most 63"),
        ("a", "Cache", "cache", "`cache` is not a valid group"),
        ("a", "Cache", "1.5", "YAML reads `1.5` as 1.5"),
        ("a", "Cache", "1e3.example.com", r"YAML reads `1e3` as 1000,"),
        ("a", "Cache", ".".join(["a" * 63] * 4), "use a shorter group"),
        ("a", "Cache", "cache.k8s.io", "is a group of Kubernetes' own"),
    ],
)
def test_what_cannot_be_is_refused(name: str, kind: str, group: str, sentence: str) -> None:
    with pytest.raises(KitError, match=sentence) as refusal:
        Answers(name, kind, group)

    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["json", "kopf-kit", "tests"])
def test_the_name_of_another_package_is_refused(name: str) -> None:
    with pytest.raises(KitError, match=f"use for example `{name}-controller`"):
        Answers(name, "Cache", "example.com").check_free()


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        *(("Cache", "caches"), ("Proxy", "proxies"), ("Key", "keys"), ("Bus", "buses")),
        *(("C" * 62, "c" * 62 + "s"), ("C" * 63, "c" * 62 + "s"), ("X" * 62, "x" * 62 + "s")),
    ],
)
def test_a_kind_has_a_plural(kind: str, plural: str) -> None:
    assert Answers("an-operator", kind, "example.com").plural == plural


# --- every name that is accepted ------------------------------------------------------------------

_LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,42}[a-z0-9])?", fullmatch=True)
KINDS = st.from_regex(r"[A-Z][A-Za-z0-9]{0,62}", fullmatch=True)
GROUPS = st.lists(_LABELS, min_size=2, max_size=6).map(".".join)


def answered(name: str, kind: str, group: str) -> Answers | str:
    """Return the answers, or the sentence by which they are refused."""
    try:
        answers = Answers(name, kind, group)
        answers.check_free()
    except KitError as refusal:
        return str(refusal)
    return answers


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(NAMES, KINDS, GROUPS)
@example("cache-operator", "Cache", "cache.example.com")
@example("a", "A", "a.b")
@example(LONGEST.name, LONGEST.kind, LONGEST.group)
@example("msg", "TenLetters", "a.b.c.d.e.f.example.com")
def test_the_style_of_every_repository_is_right(name: str, kind: str, group: str) -> None:
    answers = answered(name, kind, group)
    if isinstance(answers, str):
        assert "\n" not in answers
        return
    with tempfile.TemporaryDirectory() as folder:
        repository.lay_out(repository.files(answers), Path(folder))

        assert style(Path(folder)) == ""
        made = definition.load(Path(folder))
    (read,) = made.kinds
    assert (made.name, made.package, read.kind) == (name, answers.package, kind)
    assert read.qualified_group == group


# --- the repository -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have a new repository to read."""
    folder = tmp_path_factory.mktemp("new") / "cache-operator"
    repository.write(CACHE, folder, lock=False)
    return folder


def listed(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): file.read_text()
        for file in folder.rglob("*")
        if file.is_file() and ".git" not in file.relative_to(folder).parts
    }


def test_it_is_small_and_the_author_s_alone(written: Path) -> None:
    texts = listed(written)

    assert len(texts) <= 25
    assert sum(text.count("\n") for path, text in texts.items() if path != "LICENSE") <= 630
    for path, text in texts.items():
        assert "@@" not in text, path
        assert "message" not in path + text.replace("message: All of", ""), path


@pytest.mark.parametrize("kind", ["Pod", "POD"])
def test_a_kind_that_is_called_as_one_of_kubernetes_is_named_in_full(kind: str) -> None:
    texts = repository.files(Answers("pod-operator", kind, "pods.example.com"))

    commands = re.findall(r"^(?:\$ )?kubectl .*$", "\n".join(texts.values()), re.MULTILINE)
    assert [line for line in commands if re.search(r" pods?(/| |$)", line)] == []
    assert "wait --for=condition=Ready pod.pods.example.com/sample" in "\n".join(commands)


def test_l13_editors_and_agents_find_what_they_read(written: Path) -> None:
    container = json.loads((written / ".devcontainer" / "devcontainer.json").read_text())
    agents = (written / "AGENTS.md").read_text()

    assert container["name"] == "cache-operator"
    commands = re.search(r"^COMMANDS := (.*)$", (written / "Makefile").read_text(), re.MULTILINE)
    assert commands
    assert set(re.findall(r"`make (\w+)`", agents)) <= set(commands[1].split())
    assert all((written / name).exists() for name in re.findall(r"`(\w+/\S+\.py)`", agents))


@pytest.mark.parametrize(
    ("home", "icon", "images"),
    [
        (
            "",
            "https://raw.githubusercontent.com/example/cache-operator/main/docs/icon.svg",
            "example",
        ),
        (
            "https://github.com/Acme/caches",
            "https://raw.githubusercontent.com/Acme/caches/main/docs/icon.svg",
            "acme",
        ),
        (
            "https://git.acme.eu/team/c",
            "https://git.acme.eu/team/c/-/raw/main/docs/icon.svg",
            "example",
        ),
    ],
)
def test_its_pages_are_where_its_author_says(home: str, icon: str, images: str) -> None:
    texts = repository.files(replace(CACHE, home=home))
    chart = documents.load(texts[Path("charts/cache-operator/Chart.yaml")])

    assert (chart["home"], chart["icon"]) == (
        home or "https://github.com/example/cache-operator",
        icon,
    )
    assert f"oci://ghcr.io/{images}/charts/cache-operator" in texts[Path("README.md")]
    assert home in texts[Path("olm/csv.yaml")]


def test_what_is_no_page_is_refused() -> None:
    for home in ("acme", "https://github.com/acme"):
        with pytest.raises(KitError, match=f"`{home}` is no address of a page"):
            replace(CACHE, home=home)


@pytest.mark.parametrize(
    ("options", "locale", "korean"),
    [((), "C.UTF-8", False), ((), "ko_KR.UTF-8", True), (("--lang=en",), "ko_KR.UTF-8", False)],
)
def test_its_readme_is_in_korean_too_if_the_locale_or_an_option_asks(
    options: tuple[str, ...], locale: str, korean: bool, tmp_path: Path
) -> None:
    words = ("new", "cache-operator", *FLAGS, "--no-lock", *options)

    run = kit(*words, folder=tmp_path, LC_ALL="", LC_MESSAGES="", LANG=locale)

    assert run.returncode == 0, run.stderr
    made = tmp_path / "cache-operator"
    assert (made / "README.ko.md").is_file() == korean
    assert ("README.ko.md" in (made / "README.md").read_text()) == korean
    assert repository.read(made).kinds[0].korean == korean


def test_each_file_that_its_chart_names_is_there(written: Path) -> None:
    chart = (written / "charts" / "cache-operator" / "Chart.yaml").read_text()
    assert re.search(r"/main/docs/icon\.svg$", chart, re.MULTILINE)
    for path in re.findall(r"https://\S+/main/(\S+)$", chart, re.MULTILINE):
        assert (written / path).is_file(), path


def test_its_types_are_right_and_its_unit_tests_pass(tmp_path: Path) -> None:
    repository.write(LONGEST, tmp_path, lock=False)

    for tool in (["mypy", "--no-error-summary"], ["pytest", "-q", "-p", "no:cacheprovider"]):
        words = ("-m", *tool)
        run = forked.python(*words, folder=tmp_path, MYPY_CACHE_DIR=KNOWN_TYPES)
        assert run.returncode == 0, run.stdout + run.stderr


def test_its_actions_are_those_of_this_repository() -> None:
    ours = "".join(file.read_text() for file in (CHECKOUT / ".github/workflows").iterdir())
    theirs = "".join(
        text for path, text in repository.files(CACHE).items() if ".github" in path.parts
    )

    actions = re.findall(r"uses: (\S+@\w+ # v[\d.]+)", theirs)
    assert actions
    assert [action for action in actions if action not in ours] == []


def test_its_workflows_are_safe_and_right(written: Path) -> None:
    workflows = written / ".github" / "workflows"
    zizmor = (Path(sys.executable).with_name("zizmor"), "--offline", "--pedantic", "--no-progress")
    actionlint = golang.program("actionlint")

    for tool in ((*zizmor, workflows), (actionlint, *sorted(workflows.iterdir()))):
        run = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_its_kit_and_its_runtime_are_pinned_to_what_is_compatible() -> None:
    assert specifier("0.1.3") == ">=0.1.3,<0.2"
    assert specifier("1.4.0") == ">=1.4.0,<2"
    assert re.search(r'"kopf-runtime>=0', repository.files(CACHE)[Path("pyproject.toml")])


# --- the command ----------------------------------------------------------------------------------


def test_it_writes_where_there_is_no_project_and_git_has_it(tmp_path: Path) -> None:
    run = new("cache-operator", *FLAGS, folder=tmp_path)

    assert run.returncode == 0, run.stderr
    made = tmp_path / "cache-operator"
    assert f"{made} has the operator cache-operator" in run.stderr
    assert (made / ".git").is_dir()
    assert listed(made).keys() == {path.as_posix() for path in repository.files(CACHE)}
    assert [entry.name for entry in tmp_path.iterdir()] == ["cache-operator"]


def test_an_empty_folder_stays_the_same_and_may_be_without_olm(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    number = folder.stat().st_ino

    run = new("cache-operator", "mine", *FLAGS, "--without=olm", folder=tmp_path)

    assert run.returncode == 0, run.stderr
    assert (folder / "PROJECT").is_file()
    assert not (folder / "olm").exists()
    assert folder.stat().st_ino == number


def test_without_a_terminal_what_is_missing_is_named(tmp_path: Path) -> None:
    run = new("cache-operator", "--group=example.com", folder=tmp_path)

    assert run.returncode == 1
    assert (
        "error: --kind is missing: use for example `kopf-kit new memcached-operator" in run.stderr
    )
    assert list(tmp_path.iterdir()) == []


def dialogue(keys: bytes, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run `kopf-kit new` on a terminal on which somebody types."""
    ours, its = os.openpty()
    with os.fdopen(ours, "wb", buffering=0) as person, os.fdopen(its, "rb") as terminal:
        person.write(keys)
        return subprocess.run(
            [sys.executable, "-m", "kopf_kit", "new", "--no-lock"],
            cwd=folder,
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def test_on_a_terminal_each_question_is_asked_until_its_answer_fits(tmp_path: Path) -> None:
    run = dialogue(b"web_op\nweb-op\nweb\nWeb\nexample.com\n", tmp_path)

    assert run.returncode == 0, run.stderr
    said = " ".join(run.stderr.split())
    assert "`web_op` is not a valid name" in said
    assert "`web` is not a valid kind" in said
    assert (tmp_path / "web-op" / "PROJECT").is_file()


def test_a_dialogue_that_somebody_ends_writes_nothing(tmp_path: Path) -> None:
    run = dialogue(b"web-op\n\x04", tmp_path)

    assert (run.returncode, run.stderr) == (
        1,
        "\nerror: there is no answer, so nothing was written\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_something_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cache-operator").mkdir()
    (tmp_path / "cache-operator" / "mine").touch()
    (tmp_path / "file").touch()

    refused = new("cache-operator", *FLAGS, folder=tmp_path)
    no_folder = new("cache-operator", "file", *FLAGS, folder=tmp_path)

    assert refused.returncode == no_folder.returncode == 1
    assert "is not empty; choose a folder that is empty or does not exist" in refused.stderr
    assert "is a file; choose" in no_folder.stderr
    assert [file.name for file in (tmp_path / "cache-operator").iterdir()] == ["mine"]


def test_a_clone_without_files_is_empty(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch=mine", tmp_path], check=True)

    repository.write(CACHE, tmp_path, lock=False)

    assert (tmp_path / ".git" / "HEAD").read_text() == "ref: refs/heads/mine\n"
    assert (tmp_path / "PROJECT").is_file()


def test_either_of_two_kinds_is_to_be_added(tmp_path: Path) -> None:
    refused = new("kind", "Bucket", "--kind=Queue", folder=tmp_path)

    assert "`new kind` adds one kind: either Bucket or Queue" in refused.stderr


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "lay_out", lambda *_: shutil.copy("missing", "missing, too"))

    with pytest.raises(KitError, match="nothing was written"):
        repository.write(CACHE, tmp_path / "cache-operator", lock=False)

    assert list(tmp_path.iterdir()) == []


def test_an_index_that_is_not_reached_is_told_and_the_rest_is_written(tmp_path: Path) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'error: Could not connect' >&2\nexit 2\n")
    uv.chmod(0o755)
    path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"

    run = kit("new", "cache-operator", *FLAGS, folder=tmp_path, PATH=path)

    assert run.returncode == 0, run.stderr
    said = " ".join(run.stderr.split())
    assert "uv.lock is not written; run `uv lock` in" in said
    assert "uv says: error: Could not connect" in said
    assert (tmp_path / "cache-operator" / "PROJECT").is_file()
