"""The Makefiles' commands that need no cluster; those that write files do so in a copy."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.package import release, write
from kopf_kit.olm import catalog
from kopf_kit.project import documents
from kopf_kit.project.releases import channels as channels_of
from kopf_kit.rig import dockerfiles, engine, paths, public_images
from kopf_kit.rig.run import output
from kopf_kit.rig.steps import step
from kopf_offline import golang
from message_operator import __version__
from tests.make.commands import CHECKOUT, Make


@pytest.fixture
def copy(tmp_path: Path) -> Make:
    """A copy of the checkout as it is, with what is not committed yet."""
    folder = tmp_path / "copy"
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.check_output(listed, cwd=CHECKOUT, text=True).split("\0")
    for name in names:
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    (folder / ".venv").symlink_to(CHECKOUT / ".venv")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    return Make(folder)


@pytest.fixture
def released(copy: Make) -> Make:
    """A copy of the checkout in which this version is released: recorded, and tagged."""
    # Else Python would take the package of the checkout that .venv belongs to.
    copy.environment["PYTHONPATH"] = paths.python_path(copy.folder)
    # What raises the version would have it installed again, into the checkout's .venv.
    copy.options = ("-o", ".venv/.ready")
    write(catalog.with_release(release(__version__)), copy.folder / "catalog")
    git(copy.folder, "add", ".")
    git(copy.folder, "commit", "--quiet", "-m", "All")
    git(copy.folder, "tag", f"v{__version__}")
    return copy


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, timeout=30)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a checkout that are committed, or could be."""
    passed = {".venv", "build", "__pycache__", ".git"}
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
        and not passed & set(file.relative_to(folder).parts)
        and not any(part.endswith("_cache") for part in file.relative_to(folder).parts)
    }


def test_bundle_and_generate_write_what_is_missing_or_edited_and_nothing_else(copy: Make) -> None:
    before = contents(copy.folder)
    for missing in ("bundle/manifests/myorg.dev_messages.yaml", "catalog/channels.yaml"):
        (copy.folder / missing).unlink()
    copy("bundle")
    assert contents(copy.folder) == before

    (copy.folder / "charts" / "message-operator" / "values.schema.json").write_text("by hand")
    copy("generate")
    assert contents(copy.folder) == before


#: What names versions that are not this one: of other releases, of other things, of former days.
OTHERS = (
    *("tests/", "bench/", "requirements.txt", "packages/kopf-kit/", "docs/benchmarks"),
    *(
        "packages/kopf-offline/src/",
        "packages/kopf-offline/tests/",
        "examples/in-go/go.sum",
    ),  # the pinned Go modules
    "docs/decisions/",
    *("catalog/", "CHANGELOG.md"),
    # Projects with versions of their own.
    *("examples/memcached/", "examples/flightticket/", "examples/etcd/", "examples/plain-kopf/"),
    "docs/write-your-own-operator",
)


def test_bump_has_everything_name_the_new_version_and_verify_content(released: Make) -> None:
    copy = released
    bundles = copy.folder / "catalog" / "bundles"
    former = {file.name for file in bundles.iterdir()}

    said = copy("bump", "VERSION=7.8.9-rc.1")
    copy("verify")

    file = "charts/message-operator/Chart.yaml"
    assert f"{file} written" in said
    assert f"/compare/v{__version__}...v7.8.9-rc.1" in (copy.folder / file).read_text()
    assert {file.name for file in bundles.iterdir()} == {*former, "v7.8.9-rc.1.yaml"}
    left = [
        f"{name}: {line}"
        for name, content in contents(copy.folder).items()
        if not name.startswith(OTHERS)
        for line in content.decode(errors="replace").splitlines()
        if re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", line)
    ]
    of_former = ("ARGS=v", "/compare/v", "All changes since ")
    assert [line for line in left if not any(word in line for word in of_former)] == []
    assert "is older than 7.8.9-rc.1" in copy.refused("bump", f"VERSION={__version__}")
    copy("bump", "VERSION=7.8.9")
    copy("verify")
    assert {file.name for file in bundles.iterdir()} == {*former, "v7.8.9.yaml"}


#: The tests that read what is released.
OF_RELEASES = ("tests/bundle", "tests/chart/test_artifact_hub.py")


@pytest.mark.parametrize("state", ["it is released", "a candidate of the next follows"])
def test_the_tests_hold_in_a_repository_with_a_release(state: str, released: Make) -> None:
    if state == "a candidate of the next follows":
        released("bump", "VERSION=7.8.9-rc.1")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OF_RELEASES],
        cwd=released.folder,
        env=released.environment,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout


def test_a_fix_of_an_older_minor_is_made_on_a_branch_with_the_records_of_main(
    released: Make,
) -> None:
    fixed = f"{__version__.rpartition('.')[0]}.99"
    newer = "98.0.0"
    file = catalog.file(newer)
    git(released.folder, "branch", "fixes")
    write(catalog.catalog([release(newer)]), released.folder / "main")
    shutil.move(released.folder / "main" / file, released.folder / "catalog" / file)
    git(released.folder, "add", "catalog")
    git(released.folder, "commit", "--quiet", "-m", "The newer")
    git(released.folder, "tag", f"v{newer}")
    git(released.folder, "branch", "--force", "main")
    git(released.folder, "checkout", "--quiet", "fixes")

    refusal = released.refused("bump", f"VERSION={fixed}")
    assert f"no record of these tagged releases: v{newer}. Without" in refusal
    assert "git checkout main -- catalog/bundles" in refusal

    git(released.folder, "checkout", "main", "--", "catalog/bundles")
    released("bump", f"VERSION={fixed}")
    released("verify")
    heads = {
        channel["name"]: channel["entries"][-1]["name"]
        for channel in documents.load_all(
            (released.folder / "catalog" / "channels.yaml").read_text()
        )
    }
    assert heads["stable"] == f"message-operator.v{newer}"
    assert heads[channels_of(fixed)[-1]] == f"message-operator.v{fixed}"


def test_lock_keeps_the_versions_that_are_locked(copy: Make) -> None:
    before = contents(copy.folder)

    copy("lock")

    assert contents(copy.folder) == before


def test_bench_writes_the_pages_of_the_data_that_are_there(copy: Make) -> None:
    page = copy.folder / "docs" / "benchmarks.md"
    before = page.read_text()
    page.write_text(before.replace("|", "!", 1))

    copy("bench", "ARGS=--report")

    assert page.read_text() == before


IMAGE = "message-operator-go:test"
#: Go on what builds the operator's image; the modules come from this machine's proxy of modules.
_GO = "FROM {base}\nCOPY . /usr/local/go\nENV PATH=/usr/local/go/bin:/usr/bin:/bin {settings}\n"


def _bases() -> list[str]:
    """Return the options that replace the public bases, if these cannot be pulled."""
    if public_images.are_in_reach():
        return []
    build, runtime = dockerfiles.python()
    said = output([golang.go(), "env", "GOROOT", "GOPROXY", "GOSUMDB"], timeout=60).split()
    root, settings = said[0], f"GOTOOLCHAIN=local GOPROXY={said[1]} GOSUMDB={said[2]}"
    dockerfile = _GO.format(base=build, settings=settings).encode()
    with step("Go's base image") as work:
        dockerfiles.build(work, "message-operator-go-base:test", Path(root), dockerfile)
    return [
        "ARGS=--build-arg=BUILD_BASE=message-operator-go-base:test "
        f"--build-arg=RUNTIME_BASE={runtime}"
    ]


def test_the_image_of_the_operator_in_go_is_built_and_starts() -> None:
    make = Make(CHECKOUT / "examples" / "in-go", DOCKER_BUILDKIT="1")
    builder = f"CONTAINER_TOOL={engine.builder()}"

    make("docker-build", f"IMG={IMAGE}", builder, *_bases(), timeout=1200)

    run = ["docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", IMAGE]
    ended = subprocess.run([*run, "-help"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "-workers" in ended.stderr
