"""`make kit-update`: a newer kit reaches a repository, and its author's changes stay."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from hack.pack import kit_changes, kit_record
from tests.new.repositories import Repository, kit_in

ANSWERS = ("cache-operator", "Cache", "cache.example.com")
#: What an author and the makers of the kit change in these tests.
RUNTIME, MAKEFILE = "operator/kopf_runtime/backoff.py", "hack/kit.mk"
OPERATOR = "operator/cache_operator/operator.py"
#: A file for authors that no kit has had, and the one that they mostly remove.
SUPPORT, EXAMPLE = "hack/scaffold/templates/SUPPORT.md.in", "tests/unit/test_operator.py"
#: An author's files that the kit has a part in; in the kit's repository they have the same names.
SHARED = (".github/workflows/release.yaml", "docs/verify.md")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, Repository]:
    """The kit as it is checked out, in a repository of its own, and what an author has of it."""
    folder = tmp_path_factory.mktemp("kit-update")
    kit, author = kit_in(folder / "kit"), Repository(folder / "author")
    ended = kit.run("hack.scaffold", *ANSWERS, str(author.folder))
    assert ended.returncode == 0, ended.stderr
    kit_record.offer(author.folder)  # as `make new` does
    author.begin()
    return kit, author


@pytest.fixture
def kit(made: tuple[Repository, Repository], tmp_path: Path) -> Repository:
    return made[0].clone(tmp_path / "kit")


@pytest.fixture
def author(made: tuple[Repository, Repository], tmp_path: Path) -> Repository:
    return made[1].clone(tmp_path / "author")


def test_a_newer_kit_is_there_and_the_author_s_files_stay(
    kit: Repository, author: Repository
) -> None:
    author.edit(OPERATOR, "Hello!", "Good morning!")
    author.edit("README.md", "# cache-operator", "# Our caches")
    kit.edit(RUNTIME, '"""', '"""Newer. ')
    kit.edit("hack/rig/newer.py", "", '"""A new module."""\n')
    kit.remove("tests/projects/kubeconform.py")
    kit.edit("hack/scaffold/templates/README.md.in", "# ", "# Newer ")

    said = author.update(kit.folder)

    assert author.changed() == {
        f"M  {RUNTIME}",
        "A  hack/rig/newer.py",
        "D  tests/projects/kubeconform.py",
        "M  hack/kit.yaml",
    }
    assert author.read(RUNTIME) == kit.read(RUNTIME)
    for line in (
        f"{RUNTIME} updated",
        "hack/rig/newer.py added",
        "tests/projects/kubeconform.py removed",
    ):
        assert f"  {line}\n" in said


def test_a_file_for_authors_that_a_newer_kit_is_the_first_to_write_comes_once(
    kit: Repository, author: Repository
) -> None:
    kit.edit(SUPPORT, "", "# Help with @@{name}\n")

    said = author.update(kit.folder)

    assert author.changed() == {"A  SUPPORT.md", "M  hack/kit.yaml"}
    assert author.read("SUPPORT.md") == "# Help with cache-operator\n"
    assert "  SUPPORT.md added; it is yours from now on\n" in said

    author.commit()
    kit.edit(SUPPORT, "# Help", "# Newer help")
    author.update(kit.folder)
    assert author.changed() == {"M  hack/kit.yaml"}

    author.commit()
    author.remove("SUPPORT.md")
    kit.edit(SUPPORT, "# Newer", "# Newest")
    author.update(kit.folder)
    assert author.changed() == {"M  hack/kit.yaml"}


def test_where_the_author_has_a_file_of_that_name_it_stays(
    kit: Repository, author: Repository
) -> None:
    author.edit("SUPPORT.md", "", "ours\n")
    kit.edit(SUPPORT, "", "# Help with @@{name}\n")

    said = author.update(kit.folder)

    assert author.changed() == {"M  hack/kit.yaml"}
    assert author.read("SUPPORT.md") == "ours\n"
    assert "SUPPORT.md" not in said


def never_had(author: Repository, path: str) -> str:
    """Make it a repository whose kit does not have this file yet; return where its text will be."""
    reference = (kit_changes.AUTHOR / path).as_posix()
    record = kit_record.read(author.folder)
    files = {name: one for name, one in record.files.items() if name != reference}
    offered = [name for name in record.author if name != path]
    kit_record.write(author.folder, msgspec.structs.replace(record, files=files, author=offered))
    (author.folder / reference).unlink()
    author.remove(path)
    return reference


@pytest.mark.parametrize("path", SHARED)
def test_it_stays_where_the_newer_kit_has_a_part_in_it_and_so_with_each_later_kit(
    kit: Repository, author: Repository, path: str
) -> None:
    reference = never_had(author, path)
    author.edit(path, "", "ours\n")

    said = author.update(kit.folder)

    assert author.changed() == {f"A  {reference}", "M  hack/kit.yaml"}
    assert author.read(path) == "ours\n"
    assert f"  {path} left as you have it; the kit would have its own there. If you" in said

    author.commit()
    assert re.search("The kit is .* already", author.update(kit.folder))

    kit.edit(path, "\n", "\n# newer\n")
    author.update(kit.folder)
    assert author.changed() == {f"M  {reference}", "M  hack/kit.yaml"}
    assert author.read(path) == "ours\n"


def test_who_prefers_the_kit_s_own_has_it_follow_the_kit(
    kit: Repository, author: Repository
) -> None:
    path = SHARED[0]
    never_had(author, path)
    author.edit(path, "", "ours\n")
    said = author.update(kit.folder)
    author.commit()
    (copy,) = re.findall("cp .*", said)

    subprocess.run(["sh", "-c", copy], cwd=author.folder, check=True)
    author.commit()
    author.update(kit.folder)
    author.commit()
    author.edit(path, "tags:", "# ours\n    tags:")
    kit.edit(path, "name: release\n", "name: release # newer\n")
    author.update(kit.folder)

    assert "# ours\n" in author.read(path)
    assert "# newer\n" in author.read(path)


def test_where_the_author_gave_theirs_another_name_the_kit_s_comes_beside_it(
    kit: Repository, author: Repository
) -> None:
    path, other = SHARED[0], ".github/workflows/ours.yaml"
    never_had(author, path)
    author.edit(other, "", "ours\n")

    said = author.update(kit.folder)

    assert author.read(other) == "ours\n"
    assert author.read(path).startswith("name: release\n")
    assert f"  {path} added; it is yours from now on\n" in said


@pytest.mark.parametrize("recorded", [True, False])
def test_a_file_that_the_author_removed_does_not_come_back(
    kit: Repository, author: Repository, recorded: bool
) -> None:
    author.remove(EXAMPLE)
    if not recorded:  # as an older kit's `make kit-update` leaves it
        record = kit_record.read(author.folder)
        kit_record.write(author.folder, msgspec.structs.replace(record, author=[]))
        author.commit()
    kit.edit(SUPPORT, "", "# Help with @@{name}\n")

    author.update(kit.folder)

    assert author.changed() == {"A  SUPPORT.md", "M  hack/kit.yaml"}


def test_a_runtime_that_needs_packages_which_are_not_here_yet_comes_too(
    kit: Repository, author: Repository
) -> None:
    runtime = "operator/kopf_runtime/__init__.py"
    first = "from kopf_runtime import kinds"
    kit.edit(runtime, first, f"import newer\n{first}")

    author.update(kit.folder)

    assert "import newer\n" in author.read(runtime)


def test_a_program_of_the_kit_can_be_run(kit: Repository, author: Repository) -> None:
    program = "hack/rig/node/kind/setup"
    kit.edit(program, "\n", "\n# newer\n")

    author.update(kit.folder)

    assert os.access(author.folder / program, os.X_OK)


def test_the_author_s_changes_of_the_kit_are_kept_and_merged(
    kit: Repository, author: Repository
) -> None:
    author.edit(RUNTIME, '"""', '"""Ours. ')
    author.edit(MAKEFILE, ".DEFAULT_GOAL := help", ".DEFAULT_GOAL := check")
    author.remove("tests/projects/kubeconform.py")
    kit.edit(MAKEFILE, "touch $@", "touch $@ # newer")
    kit.edit("tests/projects/kubeconform.py", '"""', '"""Newer. ')

    said = author.update(kit.folder)

    assert author.changed() == {f"M  {MAKEFILE}", "M  hack/kit.yaml"}
    assert ".DEFAULT_GOAL := check" in author.read(MAKEFILE)
    assert "# newer" in author.read(MAKEFILE)
    assert f"  {MAKEFILE} merged with your changes\n" in said
    assert f"  {RUNTIME} left as you have it\n" in said
    assert "  tests/projects/kubeconform.py left as you have it\n" in said


def test_they_are_merged_again_with_the_next_kit(kit: Repository, author: Repository) -> None:
    author.edit(MAKEFILE, ".DEFAULT_GOAL := help", ".DEFAULT_GOAL := check")
    kit.edit(MAKEFILE, "touch $@", "touch $@ # newer")
    author.update(kit.folder)
    author.commit()
    kit.edit(MAKEFILE, "# newer", "# newest")

    author.update(kit.folder)

    assert ".DEFAULT_GOAL := check" in author.read(MAKEFILE)
    assert "touch $@ # newest" in author.read(MAKEFILE)


def test_a_dependency_of_the_kit_comes_beside_those_of_the_author(
    kit: Repository, author: Repository
) -> None:
    author.edit(
        "pyproject.toml", "[project.scripts]", "[project.urls]\na = 'b'\n\n[project.scripts]"
    )
    kit.edit("pyproject.toml", '    "hypothesis', '    "newer>=1",\n    "hypothesis')

    said = author.update(kit.folder)

    assert "a = 'b'" in author.read("pyproject.toml")
    assert '    "newer>=1",\n' in author.read("pyproject.toml")
    assert "  pyproject.toml merged with your changes\n" in said


def test_a_file_that_git_ignores_is_not_overwritten(kit: Repository, author: Repository) -> None:
    author.edit(".gitignore", "\n", "\n/hack/rig/newer.py\n")
    (author.folder / "hack" / "rig" / "newer.py").write_text("ours\n")
    kit.edit("hack/rig/newer.py", "", "newer\n")

    said = author.refused(kit.folder)

    assert "  hack/rig/newer.py: the newer kit adds it, and you have a file there that git" in said
    assert author.read("hack/rig/newer.py") == "ours\n"


def test_in_a_folder_of_a_larger_repository_only_that_folder_changes(
    kit: Repository, author: Repository, tmp_path: Path
) -> None:
    larger = Repository(tmp_path / "larger")
    larger.folder.mkdir()
    (larger.folder / "LICENSE").write_text("ours\n")
    ours = Repository(author.folder.rename(larger.folder / "cache"))
    shutil.rmtree(ours.folder / ".git")
    larger.begin()
    kit.edit(RUNTIME, '"""', '"""Newer. ')
    kit.edit("LICENSE", "\n", "\nnewer\n")

    ours.update(kit.folder)

    assert larger.changed() == {
        f"M  cache/{path}" for path in (RUNTIME, "LICENSE", "hack/kit.yaml")
    }
    assert ours.read(RUNTIME) == kit.read(RUNTIME)
    assert larger.read("LICENSE") == "ours\n"


def test_a_conflict_is_told_and_nothing_is_changed(kit: Repository, author: Repository) -> None:
    author.edit(RUNTIME, '"""', '"""Ours. ')
    author.edit("tests/projects/kubeconform.py", '"""', '"""Ours. ')
    author.edit("hack/rig/newer.py", "", "ours\n")
    kit.edit(RUNTIME, '"""', '"""Newer. ')
    kit.remove("tests/projects/kubeconform.py")
    kit.edit("hack/rig/newer.py", "", "newer\n")
    kit.edit(MAKEFILE, "touch $@", "touch $@ # newer")

    said = author.refused(kit.folder)

    assert f"  {RUNTIME}: you and the newer kit have changed the same lines\n" in said
    assert (
        "  tests/projects/kubeconform.py: you have changed it, and the newer kit has removed it\n"
        in said
    )
    assert (
        "  hack/rig/newer.py: the newer kit adds it, and you have another file there; rename yours"
        in said
    )
    assert "Take your changes out of the others, commit, and update again" in said
    assert MAKEFILE not in said


def test_what_a_conflict_says_to_do_ends_it(kit: Repository, author: Repository) -> None:
    author.edit(RUNTIME, '"""', '"""Ours. ')
    kit.edit(RUNTIME, '"""', '"""Newer. ')
    (restore,) = re.findall("git cat-file blob .*", author.refused(kit.folder))

    subprocess.run(["sh", "-c", restore], cwd=author.folder, check=True)
    author.commit()
    author.update(kit.folder)

    assert author.read(RUNTIME) == kit.read(RUNTIME)


def test_a_file_that_was_renamed_is_no_conflict(kit: Repository, author: Repository) -> None:
    author.edit("hack/rig/newer.py", "", "ours\n")
    kit.edit("hack/rig/newer.py", "", "newer\n")
    said = author.refused(kit.folder)
    assert "rename yours (git mv)\nDo what is said of each, commit, and update again." in said

    author.git("mv", "hack/rig/newer.py", "hack/rig/ours.py")
    author.commit()
    author.update(kit.folder)

    assert author.read("hack/rig/newer.py") == "newer\n"
    assert author.read("hack/rig/ours.py") == "ours\n"


def test_a_folder_and_a_file_of_one_name_are_a_conflict(
    kit: Repository, author: Repository
) -> None:
    (author.folder / "hack" / "rig" / "newer.py").mkdir()
    author.edit("hack/rig/newer.py/notes", "", "ours\n")
    author.edit("help", "", "ours\n")
    kit.edit("hack/rig/newer.py", "", "newer\n")
    template = kit.folder / "hack" / "scaffold" / "templates" / "help" / "SUPPORT.md.in"
    template.parent.mkdir()
    kit.edit("hack/scaffold/templates/help/SUPPORT.md.in", "", "# Help with @@{name}\n")

    said = author.refused(kit.folder)

    assert "  hack/rig/newer.py: the newer kit adds it, and you have a folder there; rename" in said
    assert (
        "  help/SUPPORT.md: the newer kit adds it, and help is a file of yours, not a folder; "
        "rename it (git mv)\n" in said
    )


def test_a_change_that_is_older_than_the_first_commit_is_merged_with_the_kit_s_history(
    kit: Repository, author: Repository
) -> None:
    author.edit(MAKEFILE, ".DEFAULT_GOAL := help", ".DEFAULT_GOAL := check")
    author.begin()
    kit.edit(MAKEFILE, "touch $@", "touch $@ # newer")

    author.update(kit.folder)

    assert ".DEFAULT_GOAL := check" in author.read(MAKEFILE)
    assert "# newer" in author.read(MAKEFILE)


def test_where_that_text_is_lost_it_is_a_conflict(kit: Repository, author: Repository) -> None:
    author.edit(MAKEFILE, ".DEFAULT_GOAL := help", ".DEFAULT_GOAL := check")
    author.begin()
    kit.edit(MAKEFILE, "touch $@", "touch $@ # newer")

    kit.begin()

    said = author.refused(kit.folder)

    assert f"  {MAKEFILE}: you and the newer kit have changed it, and the text that both" in said


@pytest.mark.parametrize("name", ["a tag", "a branch", "a commit"])
def test_a_url_and_a_reference_name_a_kit(kit: Repository, author: Repository, name: str) -> None:
    kit.edit(RUNTIME, '"""', '"""Newer. ')
    kit.git("tag", "v9.0.0")
    kit.git("branch", "newer")
    references = {"a tag": "v9.0.0", "a branch": "newer", "a commit": kit.git("rev-parse", "HEAD")}
    kit.edit(RUNTIME, '"""Newer. ', '"""Newest. ')

    said = author.update(f"{kit.folder.as_uri()}#{references[name].strip()}")

    assert '"""Newer. ' in author.read(RUNTIME)
    assert "==> The kit v9.0.0, in place of " in said


def test_the_kit_that_is_there_changes_nothing(kit: Repository, author: Repository) -> None:
    said = author.update(kit.folder)

    assert author.changed() == set()
    assert re.search("The kit is .* already", said)


def test_a_kit_that_is_changed_and_not_committed_is_brought_each_time(
    kit: Repository, author: Repository
) -> None:
    for text in ("Newer.", "Newest."):
        module = kit.folder / RUNTIME
        module.write_text(module.read_text().replace('"""', f'"""{text} ', 1))
        author.update(kit.folder)
        author.commit()

        assert text in author.read(RUNTIME)


def test_changes_that_are_not_committed_are_refused(kit: Repository, author: Repository) -> None:
    (author.folder / "README.md").write_text("ours")

    assert "README.md differs from what is committed; commit it, or" in author.refused(kit.folder)


@pytest.mark.parametrize(
    ("origin", "sentence"),
    [
        ("", "FROM is missing: say for example FROM=../message-operator, a checkout, or FROM=http"),
        ("/nowhere", "FROM=/nowhere is neither a checkout nor a URL that git can clone"),
        ("{author}", "FROM={author} has no kit that `make kit-update` can bring"),
        ("{kit}#v9", "FROM={kit}#v9 is neither a checkout nor a URL"),
    ],
)
def test_what_is_no_kit_is_refused(
    kit: Repository, author: Repository, origin: str, sentence: str
) -> None:
    folders = {"kit": kit.folder, "author": author.folder}

    assert sentence.format(**folders) in author.refused(origin.format(**folders))


def test_the_kit_s_own_repository_refuses_it(kit: Repository, author: Repository) -> None:
    assert "this repository is where the kit is made" in kit.refused(author.folder)
