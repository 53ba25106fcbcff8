"""The hubs' own program judges what is handed in: the first version, and a second one after it.

It is under the GPL, and needs packages that nothing else here needs. So it is cloned, at a commit,
and installed beside this repository, where GitHub can be reached. OPERATOR_PIPELINES names a copy.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.package import copy_both, release
from kopf_kit.olm import catalog
from kopf_kit.release.submission import lay_out

pytestmark = pytest.mark.long

SOURCE = "https://github.com/redhat-openshift-ecosystem/operator-pipelines"
COMMIT = "422dfd6e9876ec9fdfa2d053c6f9abd77fe3d058"
NEEDS = (
    *("cel-python", "gitpython", "jsonschema", "pydantic", "python-dateutil", "pyyaml"),
    *("requests", "ruamel-yaml", "semantic-version", "semver"),
)
SUITES = [f"operatorcert.static_tests.{name}" for name in ("community", "common", "isv")]
#: The first two call operator-sdk, whose validators test_validators.py runs. The last recommends
#: file-based catalogs, which one of the hubs does not take.
SKIPPED = (
    "check_osdk_bundle_validate_operatorhub",
    "check_osdk_bundle_validate_operator_framework",
    "check_using_fbc",
)


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hubs' program with what it needs in `needs`."""
    folder = tmp_path_factory.mktemp("pipelines")
    source = os.environ.get("OPERATOR_PIPELINES") or SOURCE
    uv = Path(sys.executable).with_name("uv")
    try:
        run("git", "clone", "--quiet", source, folder / "program")
        run("git", "-C", folder / "program", "checkout", "--quiet", COMMIT)
        run(uv, "pip", "install", "--quiet", "--target", folder / "needs", *NEEDS)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", "") or error
        pytest.skip(f"the hubs' program cannot be had, so it judges nothing: {said}")
    return folder


def judged(pipelines: Path, hub: Path, version: str) -> list[str]:
    """Return what the program says of a version in a hub's repository."""
    path = os.pathsep.join(str(pipelines / name) for name in ("program", "needs"))
    command = [
        *(sys.executable, "-m", "operatorcert.entrypoints.static_tests"),
        *("--repo-path", str(hub), "--suites", ",".join(SUITES)),
        *("--skip-tests", ",".join(SKIPPED), "widget-operator", version, ""),
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    return [f"{said['type']}: {said.get('check')}: {said['message']}" for said in result["outputs"]]


def test_the_first_and_the_second_version_are_accepted(
    pipelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = copy_both(tmp_path / "checkout")
    for file in (folder / "bundles").iterdir():
        file.unlink()
    monkeypatch.setattr(catalog, "CATALOG", folder)
    hubs = dict[str, Path]()
    for version in ("1.0.0", "1.1.0"):
        given = release(version)
        for operator in lay_out(given, tmp_path / version):
            hub = operator.parent.parent
            hub = hubs.setdefault(hub.name, tmp_path / hub.name)
            run("cp", "-R", f"{operator.parent.parent}/.", hub)
        (folder / catalog.file(version)).write_text(
            catalog.with_release(given)[catalog.file(version)]
        )
        for hub in hubs.values():
            assert judged(pipelines, hub, version) == []


def test_it_would_find_what_is_wrong(pipelines: Path, tmp_path: Path) -> None:
    (plain, _) = lay_out(release("1.0.0"), tmp_path / "one")
    csv = next((plain / "1.0.0" / "manifests").glob("*.clusterserviceversion.yaml"))
    csv.write_text(csv.read_text().replace("\n  links:\n", "\n  theirs:\n"))

    found = judged(pipelines, plain.parent.parent, "1.0.0")

    assert any("check_required_fields" in said and "links" in said for said in found)
