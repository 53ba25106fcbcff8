"""What `kopf-kit new` wrote, later: released, brought up to date, and refused where it must be."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.project import packages
from kopf_kit.release import signatures
from kopf_offline import golang
from message_operator import __version__
from tests.packages.test_index import Author
from tests.release import registry, releasing
from tests.support import package_index

#: The version of a later kit, whose template is another one.
LATER = "0.99.0"
NEW = ("--kind=Cache", "--group=cache.example.com")
_GIT = ("git", "-c", "user.name=An Author", "-c", "user.email=author@example.com")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with these distributions, and with later ones of another template."""
    scratch = tmp_path_factory.mktemp("later")
    later = shutil.copytree(packages.PACKAGES, scratch / "later" / "packages")
    for file, text in packages.raised(LATER, later).items():
        file.write_text(text)
    template = later / "kopf-kit" / "src" / "kopf_kit" / "template" / "templates"
    makefile = template / "Makefile.in"
    makefile.write_text(makefile.read_text().replace("deploy release", "deploy undeploy release"))
    (template / "SECURITY.md.in").write_text("# Security of @@{name}\n")
    with package_index.serving(scratch / "packages") as address:
        for folder in (packages.PACKAGES, later):
            packages.build(scratch / "packages", folder)
        yield address


@pytest.fixture
def author(tmp_path: Path, served: str) -> Author:
    """Somebody in a new repository, with a first commit."""
    author = Author(tmp_path, served)
    author.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return author


def begin(author: Author, *options: str) -> None:
    author.types("uvx", f"kopf-kit@{__version__}", "new", "cache-operator", *NEW, *options)
    author.home /= "cache-operator"
    commit(author)


def commit(author: Author) -> None:
    author.types(*_GIT, "add", "--all")
    author.types(*_GIT, "commit", "--quiet", "--message=Work")


def refusal(author: Author, *command: str) -> str:
    """Run a command, which must be refused; return the one sentence that says why."""
    done = author.runs(*command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found = re.search(r"^error: (.*)$", done.stderr, re.MULTILINE)
    assert found, done.stderr
    return found[1]


# --- a later kit ----------------------------------------------------------------------------------

UPDATE = ("uvx", f"kopf-kit@{LATER}", "update")


def test_an_update_pins_the_later_kit_and_keeps_the_author_s_edits(author: Author) -> None:
    begin(author)
    code = author.home / "operator" / "cache_operator" / "operator.py"
    code.write_text(code.read_text() + "\n\nLIMIT = 10\n")
    makefile = author.home / "Makefile"
    makefile.write_text(makefile.read_text() + "\nmine:\n\t@echo mine\n")
    commit(author)

    said = author.runs(*UPDATE)

    assert said.returncode == 0, said.stderr
    lines = said.stderr.splitlines()
    assert {"Makefile updated", "SECURITY.md added", "uv.lock updated"} <= set(lines)
    assert not [line for line in lines if "operator.py" in line]
    assert "LIMIT = 10" in code.read_text()
    assert "deploy undeploy release" in makefile.read_text()
    assert "\nmine:\n" in makefile.read_text()
    assert (author.home / "SECURITY.md").read_text() == "# Security of cache-operator\n"
    assert f"cliVersion: {LATER}" in (author.home / "PROJECT").read_text()
    versions = {each["name"]: each.get("version") for each in author.lock["package"]}
    assert (versions["kopf-kit"], versions["kopf-runtime"]) == (LATER, LATER)
    commit(author)
    assert "is of kopf-kit 0.99.0 already" in author.runs(*UPDATE).stderr
    older = f"kopf-kit@{__version__}"
    assert "and this is the older 0.1.0" in refusal(author, "uvx", older, "update")
    assert f"run `uvx kopf-kit@{LATER}`" in refusal(author, "uvx", older, "generate")


def test_a_line_that_both_changed_is_marked_and_named(author: Author) -> None:
    begin(author)
    makefile = author.home / "Makefile"
    makefile.write_text(makefile.read_text().replace("deploy release", "deploy mine release"))
    assert "uncommitted changes; commit them first" in refusal(author, *UPDATE)
    commit(author)

    sentence = refusal(author, *UPDATE)

    assert sentence.startswith("Makefile: you and the newer kit changed the same lines")
    assert "<<<<<<< yours" in makefile.read_text()


def test_what_does_not_fit_is_refused_and_changes_nothing(author: Author) -> None:
    begin(author, "--no-lock")
    status = ("git", "status", "--porcelain")

    sentence = refusal(author, "uvx", f"kopf-kit@{LATER}", "generate")
    assert "is too old for this one, 0.99.0: bring the repository up to date" in sentence
    author.types("uv", "venv", "--quiet", "../later")
    author.types("uv", "pip", "install", "--quiet", "--python=../later", f"kopf-kit=={LATER}")
    author.environment["UV_INDEX"] = "http://127.0.0.1:9/simple/"
    sentence = refusal(author, "../later/bin/kopf-kit", "update")
    assert "cannot be had from the package index to compare with; nothing was changed" in sentence

    assert author.types(*status) == ""


# --- a release ------------------------------------------------------------------------------------


@pytest.mark.parametrize("olm", [True, False], ids=["olm", "without olm"])
def test_it_is_released_and_released_again(author: Author, olm: bool, tmp_path: Path) -> None:
    golang.programs(["cosign", "crane", "helm4", "pgp-key"])  # an author has them, or builds them
    author.environment["XDG_CACHE_HOME"] = os.environ.get(
        "XDG_CACHE_HOME", str(Path.home() / ".cache")
    )
    begin(author, *([] if olm else ["--without=olm"]))
    author.types("uv", "add", "--quiet", "--dev", f"kopf-offline=={__version__}")
    commit(author)
    keys, kit = tmp_path / "keys", ("uv", "run", "kopf-kit")
    author.environment |= {**releasing.secrets(keys), **releasing.NOBODY, "UNTESTED": "yes"}
    author.types(*kit, "release", "keys")
    with registry.serving(tmp_path / "registry") as address:
        prefix = author.environment["REGISTRY"] = f"{address}/you"
        author.environment["IMG"] = image = f"{prefix}/stand-in:v1"
        given = releasing.push_stand_ins([image], f"{prefix}/catalog:v1", tmp_path, "a commit")
        author.environment |= given if olm else {}
        for version in (__version__, "0.2.0"):
            author.types(*kit, "release", version)
            files = author.home / "build" / "release" / version
            lines = (files / "images.txt").read_text().splitlines()
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
        files = author.home / "build" / "release" / version
        signed = {file.name for file in files.iterdir()}
        assert {"checksums.txt", "checksums.txt.sigstore.json", "install.yaml"} <= signed
