"""What an operator's image is built from, with a Dockerfile of its own and without one."""

import json
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import msgspec
import pytest
from packaging.utils import canonicalize_name

from kopf_kit.image import bytecode, dockerfile
from kopf_kit.project import definition, registered, shared
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

OWN = paths.CHECKOUT / "Dockerfile"
ADOPTED = paths.CHECKOUT / "examples" / "plain-kopf"
MEMCACHED = paths.CHECKOUT / "examples" / "memcached"
#: Lines that have to differ: the context of our own is the checkout.
DIFFERENT = re.compile(
    r"^#|^COPY |^WORKDIR |bytecode\.py|no-cluster|licenses|opencontainers|^ENTRYPOINT"
    r'|^ +(name|vendor|maintainer|summary|description)="'
)


@pytest.fixture
def memcached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder from which the example's image is built, which has no Dockerfile of its own."""
    monkeypatch.setattr(dockerfile, "PROJECT", definition.load(MEMCACHED))
    monkeypatch.setattr(dockerfile, "_OWN", MEMCACHED / "Dockerfile")
    monkeypatch.setattr(dockerfile, "_CONTEXT", tmp_path / "image")
    monkeypatch.setattr(dockerfile, "_install", [].append)  # it asks a package index
    return tmp_path / "image"


def test_the_repositorys_own_dockerfile_takes_the_checkout() -> None:
    assert dockerfile.file() == OWN
    assert dockerfile.context() == paths.CHECKOUT
    ignored = (paths.CHECKOUT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", OWN.read_text(), re.MULTILINE)
    assert {path for line in copied for path in line.split()} <= {
        line.removeprefix("!") for line in ignored
    }


def test_it_differs_from_the_kits_where_it_must() -> None:
    ours, kits = (
        [line for line in text.splitlines() if line and not DIFFERENT.search(line)]
        for _, _, text in (
            file.read_text().partition("\n# Compiled by") for file in (OWN, dockerfile.SHARED)
        )
    )

    assert ours == kits
    assert len(ours) > 10


def test_without_one_the_folder_has_all_that_the_image_needs(memcached: Path) -> None:
    assert dockerfile.context() == memcached

    text = dockerfile.file().read_text()
    assert 'ENTRYPOINT ["python3", "-m", "memcached_operator"]' in text
    assert not re.search(r"@\w+@", text)
    assert 'image.title="memcached-operator"' in text
    assert (memcached / "app" / "memcached_operator" / "operator.py").is_file()
    assert (memcached / "app" / "kopf_runtime" / "__init__.py").is_file()
    assert not list(memcached.rglob("__pycache__"))
    assert (memcached / "bytecode.py").is_file()
    requirements = (memcached / "requirements.txt").read_text()
    assert re.search(r"^kopf==\S+ \\\n    --hash=sha256:", requirements, re.MULTILINE)
    assert "pytest" not in requirements


#: https://docs.redhat.com/en/documentation/red_hat_software_certification (policy for images)
CERTIFIED = ("name", "vendor", "maintainer", "version", "release", "summary", "description")


def test_j2_the_image_says_what_certification_asks_of_it(memcached: Path) -> None:
    dockerfile.context()

    for text in (OWN.read_text(), (memcached / "Dockerfile").read_text()):
        (labels,) = re.findall(r"^LABEL (?:.*\\\n)+.*$", text, re.MULTILINE)
        assert {*re.findall(r'^ +(\w+)=".+"', labels, re.MULTILINE)} == {*CERTIFIED}
        assert "target=/own-licenses" in text


def test_j2_the_image_has_the_licence_of_each_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path(pytest.__file__).parents[1]
    own = tmp_path / "own"
    own.mkdir()
    (own / "LICENSE").write_text("ours")
    monkeypatch.setattr(bytecode, "APP", installed)
    monkeypatch.setattr(bytecode, "OWN", own)

    bytecode.licences(tmp_path / "licenses")

    texts = {file.parent.name for file in tmp_path.glob("licenses/*/*") if file.read_bytes()}
    assert texts == {found.metadata["Name"] for found in distributions(path=[str(installed)])}
    assert (tmp_path / "licenses" / "LICENSE").read_text() == "ours"
    theirs = tmp_path.glob("licenses/aiohttp/LICENSE*")
    assert any("TERMS AND CONDITIONS" in file.read_text() for file in theirs)


def test_what_an_operator_needs_beside_the_runtime_is_in_its_image(
    memcached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        dockerfile, "PROJECT", definition.load(paths.CHECKOUT / "examples" / "etcd")
    )

    dockerfile.context()

    requirements = (memcached / "requirements.txt").read_text()
    assert re.search(r"^obstore==", requirements, re.MULTILINE)
    assert re.search(r"^kopf==", requirements, re.MULTILINE)


def test_of_an_adopted_operator_only_what_kopf_runs_is_loaded(
    memcached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (dockerfile, shared):
        monkeypatch.setattr(module, "PROJECT", definition.load(ADOPTED))
    package = tmp_path / "noted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "conftest.py").write_text("import nosuchmodule\n")
    command = [sys.executable, str(dockerfile._BYTECODE), str(tmp_path / "out"), "noted"]

    assert '"/bytecode.py", "/out", "main", "--alone"]' in dockerfile.text()
    assert f"KUBECONFIG=/{registered.NO_CLUSTER.name}\n" in dockerfile.text()
    assert subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": "."}).returncode == 1
    subprocess.run([*command, "--alone"], cwd=tmp_path, env={"PYTHONPATH": "."}, check=True)

    assert list((tmp_path / "out").rglob("noted/__pycache__/__init__.*.pyc"))


def test_an_adopted_operator_s_lock_is_uv_s_even_beside_other_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted = definition.load(ADOPTED).adopted
    assert adopted
    adopted = msgspec.structs.replace(adopted, requirements="")
    ours = msgspec.structs.replace(definition.load(ADOPTED), adopted=adopted)
    monkeypatch.setattr(dockerfile, "PROJECT", ours)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    (tmp_path / "requirements.txt").write_text("sphinx\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "notes"\nversion = "1"\n')
    package = 'name = "notes"\nversion = "1"\nsource = { virtual = "." }\n'
    (tmp_path / "uv.lock").write_text(
        f'version = 1\nrequires-python = ">=3.11"\n\n[[package]]\n{package}'
    )

    assert "sphinx" not in dockerfile.requirements()


def test_a1_a_wheel_that_uv_found_by_a_path_is_locked_with_its_hash(tmp_path: Path) -> None:
    """As UV_FIND_LINKS gives it: uv writes no hash of it into its lock."""
    wheels, home, target = (tmp_path / name for name in ("dist", "home", "target"))
    wheels.mkdir()
    home.mkdir()
    wheel = wheels / "found-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("found.py", "")
        archive.writestr(
            "found-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: found\nVersion: 1.0\n"
        )
        archive.writestr("found-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("found-1.0.dist-info/RECORD", "")
    needs = "dependencies = [\"found ; python_version > '3'\"]"
    (home / "pyproject.toml").write_text(
        f'[project]\nname = "notes"\nversion = "1"\nrequires-python = ">=3.11"\n{needs}\n'
    )
    uv = (Path(sys.executable).with_name("uv"), "--quiet", "--offline", "--no-config")
    subprocess.run([*uv, "lock", f"--find-links={wheels}"], cwd=home, check=True)

    (home / "needs.txt").write_text(dockerfile.exported(home / "uv.lock"))

    install = (*uv, "pip", "install", f"--find-links={wheels}", f"--target={target}")
    subprocess.run([*install, "--require-hashes", "--requirement=needs.txt"], cwd=home, check=True)
    assert (target / "found.py").is_file()
    wheel.unlink()
    with pytest.raises(KitError, match=r"^\S+uv.lock has found==1.0 from \S+whl, which is gone"):
        dockerfile.exported(home / "uv.lock")


def test_an_operator_that_nothing_locks_is_refused(
    memcached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)

    with pytest.raises(KitError, match=r"there is no uv\.lock, .* `uv lock` writes it"):
        dockerfile.context()
    assert not memcached.exists()


def test_what_the_image_installs_is_imported_at_run_time() -> None:
    """As bytecode.py imports the operator: what none of its modules loads would be weight alone."""
    code = (
        "import importlib, json, pkgutil, sys; import message_operator as ours\n"
        "for found in pkgutil.walk_packages(ours.__path__, 'message_operator.'):\n"
        "    importlib.import_module(found.name)\n"
        "import aiohttp, iso8601, jsonpatch, yaml\n"  # which kopf gets as it uses them
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(json.loads(done.stdout))
    names = re.findall(r"^([\w.-]+)==", dockerfile.requirements(), re.MULTILINE)
    modules = dict[str, set[str]]()
    for module, owners in packages_distributions().items():
        for owner in owners:
            modules.setdefault(canonicalize_name(owner), set()).add(module)

    idle = {name for name in names if not modules[canonicalize_name(name)] & loaded}
    assert idle == {"click"}  # of kopf's own command, without which kopf cannot be installed
