"""What repositories have: modules and files beside the handlers, variables, names, metadata."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kit import called
from kit.called import NOTES, SAID, notes
from kit.test_adopted_rights import written
from kopf_kit.image import dockerfile
from kopf_kit.project import (
    adopted,
    author_code,
    definition,
    documents,
    nested,
    rbac,
    registered,
    shared,
)
from kopf_kit.project.container import Container
from kopf_kit.project.definition import Project
from kopf_kit.rig import paths, tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.scaffold import discovery

HANDLER = '@kopf.on.create("notes")\ndef create(**_): ...\n'
#: The handlers' module of a repository, what else it has, and what its image has then.
LAYOUTS: dict[str, tuple[str, Mapping[str, str], set[str]]] = {
    "b5-a module beside": (
        "main.py",
        {"helpers.py": "", "pvc.yaml": "a: b"},
        {"helpers.py", "pvc.yaml"},
    ),
    "b5-a package beside": (
        "main.py",
        {
            "app/__init__.py": "",
            "app/templates/pod.yaml": "a: b",
            "tests/test_a.py": "",
            ".env": "A=b",
        },
        {"app/__init__.py", "app/templates/pod.yaml"},
    ),
    "a package": (
        "op/main.py",
        {"op/__init__.py": "", "shared.py": ""},
        {"op/__init__.py", "shared.py"},
    ),
    "src": (
        "src/op/main.py",
        {"src/op/__init__.py": "", "src/b.py": ""},
        {"op/__init__.py", "b.py"},
    ),
    "o8-a hyphen": ("note-operator.py", {"helpers.py": ""}, {"helpers.py"}),
}


def repository(folder: Path, module: str, files: Mapping[str, str], code: str = HANDLER) -> Path:
    root = notes(folder / "notes", "main.py")
    for name, text in {**files, module: f"import kopf, os\n\n\n{code}"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def adopt(root: Path, *words: str) -> tuple[int, str]:
    return called.adopt(root, *SAID, *words)


def in_own_image(folder: Path, files: Mapping[str, str], *words: str) -> tuple[Project, str]:
    """Adopt a repository with a Dockerfile of its own; return PROJECT, and what is said."""
    root = repository(folder, "main.py", files)
    (root / "requirements.txt").unlink()
    code, said = adopt(root, *words)
    assert code == 0, said
    return definition.load(root), said


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("a package", "src") else pytest.mark.long)
        for name in LAYOUTS
    ],
)
def test_b5_o8_an_image_has_what_is_beside_the_handlers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, files, expected = LAYOUTS[name]
    root = repository(
        tmp_path, module, {**files, "kubeconfig": "secret", ".gitignore": "kubeconfig"}
    )
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    code, said = adopt(root)
    assert code == 0, said
    ours = definition.load(root)
    monkeypatch.setattr(dockerfile, "PROJECT", ours)
    monkeypatch.setattr(dockerfile, "_OWN", root / "Dockerfile")
    monkeypatch.setattr(dockerfile, "_CONTEXT", tmp_path / "image")
    monkeypatch.setattr(dockerfile, "_install", [].append)  # it asks a package index

    app = dockerfile.context() / "app"

    copied = {str(file.relative_to(app)) for file in app.rglob("*") if file.is_file()}
    assert copied >= expected
    assert not copied & {"kubeconfig", ".env", "tests/test_a.py", "Dockerfile", "PROJECT"}
    imported = "import importlib, sys; importlib.import_module(sys.argv[1])"
    subprocess.run([sys.executable, "-c", imported, ours.adopted.module], cwd=app, check=True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("file", "text", "is_package"),
    [
        ("pyproject.toml", '[build-system]\nrequires = ["poetry-core"]\n', True),
        ("setup.py", "from setuptools import setup\n", True),
        ("setup.cfg", "[flake8]\nmax-line-length = 120\n", False),
        ("pyproject.toml", '[project]\nname = "notes"\nversion = "1"\n', False),
        ("pyproject.toml", "[tool.ruff]\n", False),
    ],
)
def test_o4_what_a_build_backend_makes_a_package_of_is_installed(
    tmp_path: Path, file: str, text: str, *, is_package: bool
) -> None:
    (tmp_path / file).write_text(text)

    assert author_code.is_package(tmp_path) is is_package


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.poetry]\n{0}repository = "{1}"\nscripts = {{a = "b:c"}}\n'),
        (
            "pyproject.toml",
            '[tool.poetry]\n{0}urls = {{Code = "{1}"}}\n[tool.poetry.scripts]\n'
            'a = {{reference = "b:c", type = "console"}}\n',
        ),
        (
            "pyproject.toml",
            '[tool.poetry]\n{0}urls = {{Code = "{1}"}}\nscripts = {{a = {{callable = "b:c"}}}}\n',
        ),
        (
            "setup.cfg",
            "[metadata]\n{0}description = file: README.md\nurl = {1}\n"
            "[options.entry_points]\nconsole_scripts =\n    a = b:c\n",
        ),
    ],
)
def test_what_poetry_and_setuptools_say_of_a_project_is_read(
    file: str, text: str, tmp_path: Path
) -> None:
    said, page = {"name": "My_claims.a", "version": "2.3"}, "https://example.com/acme/claims"
    quoted = '{} = "{}"\n' if file == "pyproject.toml" else "{} = {}\n"
    about = text.format("".join(quoted.format(*pair) for pair in said.items()), page)
    root = repository(tmp_path, "main.py", {file: about, "Dockerfile": "FROM a\nCMD a --now\n"})
    (root / "requirements.txt").unlink()
    (root / "b.py").touch()

    code, told = called.adopt(root, "--no-run", "--rights=role.yaml")

    assert code == 0, told
    ours = definition.load(root)
    assert ours.adopted
    assert (ours.name, ours.adopted.home, ours.adopted.version) == ("my-claims-a", page, "2.3.0")
    assert ours.adopted.description == "A Kubernetes operator that serves the kind Note"
    assert "from b import c" in str(ours.adopted.command)


DOCUMENTED = (
    "FROM python:3.14\nRUN pip install kopf\nADD . /src\nCMD kopf run /src/main.py --verbose\n"
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Dockerfiles, what PROJECT has of each, and what is said.
DOCKERFILES: dict[str, tuple[str, dict[str, Any], str]] = {
    "b6-as in kopf's documentation": (
        DOCUMENTED,
        {"environment": {"PYTHONPATH": "/src"}, "command": ()},
        "Dockerfile has no user, so the image gets the user 65532",
    ),
    "b6-with a folder": (
        "FROM python\nWORKDIR /src\nCOPY . .\nUSER 1000:1000\nCMD true\nCMD kopf run -m main",
        {"environment": {}, "command": ()},
        "packages notes-operator",
    ),
    "a Python of its own": (
        "FROM python\nWORKDIR /a\nCOPY . .\nUSER 7\nENTRYPOINT /venv/bin/kopf run -m main\n",
        {"environment": {"PATH": f"/venv/bin:{PATH}"}, "command": ()},
        f"the chart sets PATH to /venv/bin:{PATH}: add what only the base image has there",
    ),
    "b7-a user of another stage": (
        "FROM a AS build\nUSER 7\nFROM python\nCOPY . .\n",
        {"environment": {}, "command": ()},
        "Dockerfile has no user, so the image gets the user 65532",
    ),
    "a user that is added": (
        "FROM python\nARG ID=1000\nRUN groupadd -g 5 op && useradd --uid $ID -m op \\\n && true\n"
        "RUN adduser -u 7 -D other\nCOPY . /a\nWORKDIR /a\nUSER op\n",
        {"user": 1000},
        "packages notes-operator",
    ),
    "o10-a variable": (
        "FROM python\nENV APP_UID=1001 BUCKET=b\nWORKDIR /a\nCOPY ./ ./\nUSER $APP_UID\n",
        {"environment": {"APP_UID": "1001", "BUCKET": "b"}},
        "packages notes-operator",
    ),
    "o5-its own program": (
        "FROM python\nEXPOSE 8080\nWORKDIR /a\nCOPY . .\nUSER 7\n"
        'ENTRYPOINT ["tini", "--", "python"]\nCMD ["-m", "serving"]',
        {"command": ("python", "-m", "serving"), "ports": (8080,)},
        "Dockerfile starts it by `python -m serving`, and so does the chart",
    ),
    "o5-a script": (
        "FROM python\nWORKDIR /a\nCOPY . .\nUSER 7\nENTRYPOINT exec serve-notes --now\n",
        {"command": ("python3", "-c", "import sys; from a.b import c; sys.exit(c())", "--now")},
        "Dockerfile starts it by `serve-notes --now`",
    ),
    "o12-a namespace": (
        f"{DOCUMENTED.strip()} -n ${{NS:-events}} --namespace=jobs\n",
        {"watch_namespaces": ("events", "jobs")},
        "the chart watches events, jobs by default, as Dockerfile does",
    ),
    "o12-its own namespace": (
        "FROM python\nWORKDIR /a\nCOPY . .\nUSER 7\n"
        'CMD ["sh", "-c", "kopf run -n $NAMESPACE main.py"]\n',
        {"watch_namespaces": ("$(POD_NAMESPACE)",)},
        "Dockerfile watches $(NAMESPACE), which only its start says",
    ),
    "a shell's script as the command's argument": (
        "FROM python\nWORKDIR /a\nCOPY . .\nUSER 7\n"
        'ENTRYPOINT ["/sbin/tini", "-g", "--", "sh", "-ec"]\n'
        'CMD ["exec kopf run -m main -n jobs"]\n',
        {"watch_namespaces": ("jobs",), "command": ()},
        "the chart watches jobs by default",
    ),
    "a peering": (
        f"{DOCUMENTED.strip()} --peering=notes\n",
        {"command": ()},
        "it is started with the peering notes, and by the chart without any",
    ),
    "a base image that nothing names": (
        "ARG AT\nARG TAG\nARG OF=a\nFROM --platform=$BUILDPLATFORM $OF:${TAG:-1} AS x\n"
        "FROM python:${AT}-slim\nWORKDIR /a\nCOPY . .\n",
        {"command": ()},
        "Dockerfile names a base image by AT, which a build of the kit does not set: give each",
    ),
    "an escape and files within it": (
        "# syntax=docker/dockerfile:1\n#escape=`\nFROM python\nWORKDIR /a\nCOPY . .\n"
        "RUN <<EOF\nFROM a\nUSER 0\nEOF\nRUN echo $((1<<2)) `\n  && id\nUSER 7\n"
        "CMD kopf run `\n  -m main `\n  -n jobs\n",
        {"watch_namespaces": ("jobs",), "environment": {}, "command": ()},
        "the chart watches jobs by default, as Dockerfile does",
    ),
    **{
        f"a file within it: {run}": (
            "# check=skip=all\nFROM python\nRUN useradd -u 7 op\nWORKDIR /a\nCOPY . .\nUSER op\n"
            f"{run}\nCMD kopf run -m main \\\n  # a comment\n\n  -n jobs\n",
            {"watch_namespaces": ("jobs",), "environment": {}, "command": (), "user": 7},
            "the chart watches jobs by default, as Dockerfile does",
        )
        for run in (
            *("RUN <<EOF\npip install \\\n  kopf \\\nEOF", "RUN bash -c 'cat <<E > /x'"),
            *("RUN echo ' <<EOF '", "COPY <<robots.txt /a\nUSER 0\nrobots.txt", "RUN echo \\<<E"),
            *("RUN <<END-OF <<'#E' cat\nUSER 0\nEND-OF\n  #E\nUSER 0\n#E", "RUN echo it's <<EOF"),
            *("RUN <<EOF\n\tEOF\nUSER 0\nEOF", "RUN <<-EOF\nUSER 0\n\t\tEOF", 'RUN ["<<E"]'),
            *('onbuild run <<"A B"\nUSER 0\nA B', "RUN <<EOF cat"),
        )
    },
    "an escape after an unknown directive": (
        "# hello=world\n#escape=`\nFROM python\nWORKDIR /a\nCOPY . .\nUSER 7\n"
        "CMD kopf run \\\n  -m main -n jobs\n",
        {"watch_namespaces": ("jobs",), "command": ()},
        "the chart watches jobs by default, as Dockerfile does",
    ),
    "o12-everywhere": (f"{DOCUMENTED.strip()} -A\n", {"watch_namespaces": ()}, "packages"),
}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_o5_o10_o12_b6_b7_a_dockerfile_is_read(name: str, tmp_path: Path) -> None:
    text, expected, sentence = DOCKERFILES[name]
    about = '[project]\nname = "notes-operator"\nversion = "1"\nscripts = {serve-notes = "a.b:c"}\n'
    files = {"Dockerfile": text, "pyproject.toml": about, "serving.py": ""}

    project, said = in_own_image(tmp_path, files)

    assert sentence in said
    adopted = project.adopted
    assert {key: getattr(adopted, key) for key in expected} == expected
    assert adopted
    assert adopted.module == "main"


@pytest.mark.parametrize(
    "starter",
    [
        *("tini -g", "tini -gp SIGTERM --", "/sbin/tini-static -e 143 -vv", "dumb-init -r 15:2"),
        *("dumb-init -c --rewrite 15:2 --", "dumb-init --rewrite=15:2", "catatonit -g --"),
        *("uv run --with foo", "uv run -q --no-sync -p 3.12", "uv --directory /a run --", "exec"),
        *("uv run --no-group dev --env-file=.env --extra s3", "poetry -C /a run", "pdm run"),
        "tini -g -- uv run --python 3.12",
    ],
)
def test_o5_what_only_starts_kopf_is_left_out_with_its_options(starter: str) -> None:
    command = ("kopf", "run", "-m", "a")

    assert Container(entrypoint=(*starter.split(), *command)).command == command


@pytest.mark.parametrize(
    "code", ["x = " + "+".join(["'a'"] * 20000), f"x = {'-' * 20000}1", "\0", "("]
)
def test_code_that_python_cannot_read_calls_nothing(code: str) -> None:
    assert discovery.calls(code) == []
    assert discovery.calls("import os\nos.system('a')\n") == [2]


OURS = "ghcr.io/acme/notes-operator:1"


def deployment(container: dict[str, Any], image: str = OURS) -> str:
    volumes = [*({"name": name, "emptyDir": {}} for name in "ab"), {"name": "c", "hostPath": {}}]
    containers = [{"name": "a", "image": image, **container}]
    pod = {"containers": containers, "securityContext": {"runAsUser": 0}, "volumes": volumes}
    spec = {"selector": {}, "template": {"spec": pod}}
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    return documents.text({**about, "spec": spec})


_SECRET = {"valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
#: Containers of Deployments, what PROJECT has of each, and what is said.
DEPLOYED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "o3-variables": (
        {"env": [{"name": "BUCKET", "value": "b"}, {"name": "KEY", **_SECRET}, 1], "ports": 1},
        {"environment": {"BUCKET": "b", "PYTHONPATH": "/src"}, "command": ()},
        "its Deployment takes the variables KEY from Secrets or the like",
    ),
    "o12-a namespace": (
        {"command": ["kopf"], "args": ["run", "-n", "$(AT)", "/src/main.py"]}
        | {"env": [{"name": "AT", "value": "jobs"}]},
        {"watch_namespaces": ("jobs",), "command": ()},
        "the chart watches jobs by default, as deploy/operator.yaml does",
    ),
    "variables of a whole Secret": (
        {"envFrom": [{"secretRef": {"name": "keys"}}, {"prefix": "a"}, {"configMapRef": 1}]},
        {"command": ()},
        "takes the variables of keys from Secrets or the like, which PROJECT cannot have: users "
        "give them by the chart's value extraEnvFrom",
    ),
    "o12-its own namespace": (
        {"args": ["kopf", "run", "-n", "$(SPACE)", "-m", "main"]}
        | {"env": [{"name": "SPACE", **_SECRET}]},
        {"watch_namespaces": ("$(POD_NAMESPACE)",)},
        "deploy/operator.yaml watches $(SPACE), which only its start says",
    ),
    "o5-its own program": (
        {"args": ["python", "-m", "serving"], "ports": [{"containerPort": 8080}]},
        {"command": ("python", "-m", "serving"), "ports": (8080,)},
        "deploy/operator.yaml starts it by `python -m serving`, and so does the chart",
    ),
    "a shell's script in args": (
        {"command": ["sh", "-ec"], "args": ["exec kopf run -m main -n jobs"]},
        {"watch_namespaces": ("jobs",), "command": ()},
        "the chart watches jobs by default, as deploy/operator.yaml does",
    ),
    "o2-folders and a user": (
        {
            "securityContext": {"runAsUser": 1000},
            "volumeMounts": [
                *({"name": "a", "mountPath": path} for path in ("/tmp/", "/var/cache/a/")),
                *({"name": name, "mountPath": f"/{name}"} for name in ("b", "c")),
            ],
        },
        {"temporary": ("/var/cache/a", "/b"), "user": 1000},
        "its Deployment takes the folders /c from Secrets or the like",
    ),
    "null, escapes and booleans": (
        {
            "args": ["serve", "$$(BUCKET)"],
            "env": [{"name": "BUCKET", "value": None}],
            "ports": [{"containerPort": True}],
        },
        {
            "command": ("serve", "$$(BUCKET)"),
            "ports": (),
            "environment": {"BUCKET": "", "PYTHONPATH": "/src"},
        },
        "deploy/operator.yaml starts it by `serve $$(BUCKET)`",
    ),
}
KOPF_RUN = {"args": ["kopf", "run", "-m", "main"]}
DB = {"args": ["kopf", "run", "-n", "db", "-m", "main"]}
#: Files beside a Dockerfile that watches `events`, what PROJECT watches, and what is said.
DEPLOYMENTS: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "an operand's image is no operator's": (
        {"a.yaml": deployment(DB, "notes:7")}
        | {"b.yaml": deployment({"args": ["kopf", "run", "-n", "jobs", "-m", "main"]})},
        ("jobs",),
        "Dockerfile watches events, and b.yaml jobs, which PROJECT has",
    ),
    "one of another operator": (
        {"a.yaml": deployment(KOPF_RUN, "other"), "b.yaml": deployment({"env": []})},
        ("events",),
        "packages",
    ),
    "b10-its image is spelled otherwise": (
        {"a.yaml": deployment(DB, "ghcr.io/acme/Notes_Operator:1")}
        | {"b.yaml": deployment({"args": ["kopf", "run", "-m", "main", "-n", "x"]}, "other")},
        ("db",),
        "Dockerfile watches events, and a.yaml db, which PROJECT has",
    ),
    "several": (
        {"a.yaml": deployment({"args": ["a"]}), "b.yaml": deployment({"args": ["b"]})},
        ("events",),
        "a.yaml, b.yaml have several containers that may be the operator's",
    ),
    "what differs is not taken": (
        {
            name: deployment({**DB, "securityContext": {"runAsGroup": group}})
            for name, group in (("a.yaml", 1), ("b.yaml", 2))
        },
        ("db",),
        "Dockerfile watches events, and a.yaml db, which PROJECT has",
    ),
    "a patch": (
        {"a.yaml": "kind: Deployment\nspec: {template: {spec: {containers: [{name: a}]}}}"},
        ("events",),
        "packages",
    ),
}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_operator_s_own_deployment_is_read(name: str, tmp_path: Path) -> None:
    files, watched, sentence = DEPLOYMENTS[name]
    own = {**files, "Dockerfile": f"{DOCUMENTED.strip()} -n events\n"}

    project, said = in_own_image(tmp_path, own, "--name", "notes-operator")

    assert sentence in said
    assert project.adopted
    assert project.adopted.watch_namespaces == watched


@pytest.mark.parametrize("name", DEPLOYED)
def test_o3_o5_o12_a_deployment_is_read(name: str, tmp_path: Path) -> None:
    container, expected, sentence = DEPLOYED[name]
    files = {
        "Dockerfile": DOCUMENTED,
        "deploy/operator.yaml": deployment(container),
        "deploy/other.yaml": deployment({"args": ["other"]}, "example.com/other"),
        "serving.py": "",
    }

    project, said = in_own_image(tmp_path, files)

    assert sentence in said
    assert {key: getattr(project.adopted, key) for key in expected} == expected


@pytest.mark.parametrize("said", ["temporary: [cache]", "user: -1", "user: 2147483648"])
def test_project_takes_absolute_folders_and_users_that_a_pod_can_have(
    said: str, tmp_path: Path
) -> None:
    root = repository(tmp_path, "main.py", {})
    assert adopt(root, "--no-run")[0] == 0
    text = (root / "PROJECT").read_text().replace("    module:", f"    {said}\n    module:")
    (root / "PROJECT").write_text(text)

    with pytest.raises(KitError, match=said.partition(":")[0]):
        definition.load(root)


def binding(subject: str, *spaces: str) -> str:
    account = {"kind": "ServiceAccount", "name": "notes", "namespace": subject}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "notes", "namespace": space},
            "roleRef": {"kind": "ClusterRole", "name": "notes-operator"},
            "subjects": [account],
        }
        for space in spaces
    ]
    return documents.text(*bindings)


#: What is watched, files with bindings, what PROJECT watches, and whether the rights hold there.
HOMES: dict[str, tuple[str, dict[str, str], tuple[str, ...], bool]] = {
    "its own": ("ops", {"b.yaml": binding("ops", "ops")}, ("$(POD_NAMESPACE)",), False),
    "its own and another": (
        "ops -n team-a",
        {"b.yaml": binding("ops", "ops", "team-a")},
        ("$(POD_NAMESPACE)", "team-a"),
        True,
    ),
    "its own and another without rights": (
        "ops -n team-a",
        {"b.yaml": binding("ops", "ops")},
        ("$(POD_NAMESPACE)", "team-a"),
        False,
    ),
    "b4: beside a second workload without rights": (
        "team-a",
        {
            "b.yaml": binding("ops", "team-a")
            + "---\n"
            + documents.text(*written("", "ops/notes ops/b", f"ops/notes notes {OURS}, ops/b b b"))
        },
        ("team-a",),
        True,
    ),
    "one that only a role is in": (
        "team-a",
        {
            "role.yaml": (NOTES / "role.yaml")
            .read_text()
            .replace("ClusterRole", "Role")
            .replace("metadata:", "metadata:\n  namespace: team-a"),
            "a.yaml": deployment({}),
        },
        ("team-a",),
        True,
    ),
}


@pytest.mark.parametrize("name", HOMES)
def test_o12_the_namespace_of_its_service_account_is_its_own(name: str, tmp_path: Path) -> None:
    spaces, files, watched, held = HOMES[name]
    own = {"Dockerfile": f"{DOCUMENTED.strip()} -n {spaces}\n", **files}

    project, said = in_own_image(tmp_path, own)

    assert project.adopted
    assert project.adopted.watch_namespaces == watched
    is_own = f"where its ServiceAccount is: watchNamespaces in PROJECT has {', '.join(watched)}"
    assert (is_own in said) is ("$(POD_NAMESPACE)" in watched)
    grants = rbac.given(project)
    assert (bool(grants.watched), bool(grants.own)) == (held, not held)
    assert grants.left_out == []
    every = project.install_modes  # OLM gives its own rights wherever it watches
    assert rbac.olm_modes(project) == (every[:-1] if held else ("OwnNamespace",))


def test_b6_an_image_of_the_kit_s_has_no_folder_of_the_author_s_image(tmp_path: Path) -> None:
    root = repository(tmp_path, "main.py", {"Dockerfile": DOCUMENTED})

    code, said = adopt(root, "--requirements", "requirements.txt")

    assert code == 0, said
    adopted = definition.load(root).adopted
    assert adopted
    assert adopted.environment == {}


@pytest.mark.parametrize(
    "code",
    [
        'import subprocess as s\ns.run("git")',
        'from subprocess import run\nrun("git")',
        'os.system("git gc")',
        'import shutil\nshutil.which("git")',
        'from os import (\n    path,\n    system,\n)\nsystem("git gc")',
        'from asyncio import create_subprocess_exec as run\nrun("git", "log")',
    ],
)
@pytest.mark.parametrize("has_dockerfile", [True, False])
def test_o13_lines_that_call_other_programs_are_said_with_the_way(
    code: str, has_dockerfile: bool, tmp_path: Path
) -> None:
    files = {"helpers/signing.py": code, "setup.py": code, "helpers/a.py": "'''os.system'''"}
    files |= {"Dockerfile": DOCUMENTED} if has_dockerfile else {}
    root = repository(tmp_path, "main.py", files, f"{HANDLER}os.system('git gc')\n")
    if has_dockerfile:
        (root / "requirements.txt").unlink()

    said = adopt(root, "--no-run")[1]

    assert "helpers/signing.py:1" in said or "helpers/signing.py:2" in said
    assert "setup.py" not in said
    assert "helpers/a.py" not in said
    assert said.index("main.py:") < said.index("helpers/signing.py:")
    way = "Dockerfile has to install these" if has_dockerfile else "the kit's image has Python"
    assert f"may call other programs{':' if has_dockerfile else ', and'} {way}" in said


#: It uses a module of Python's own, and one of the author's with the name of another.
NAMES = (
    f"import secrets, types\n\nfrom statistics import of\nprint(types.NoneType, of)\n\n{HANDLER}"
)
ODD_NAMES = {"types.py": "1 / 0", "secrets/__init__.py": "1 / 0", "statistics.py": "of = 1"}


def test_a_module_named_like_one_of_python_s_own_does_as_with_kopf_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered, "output", output)  # by a Python that has not loaded kopf yet
    root = repository(tmp_path, "main.py", ODD_NAMES, NAMES)
    code, said = adopt(root)
    assert code == 0, said
    project = definition.load(root)

    loaded = registered.read("main", root, {})["loaded"]
    beside = {str(f.relative_to(root)) for f in author_code.modules_beside(root, root, loaded)}
    assert {"main.py", "statistics.py"} <= beside
    assert not {"types.py", "secrets/__init__.py"} & beside
    program = [sys.executable, "-c", registered.program(project), "run", "--help"]
    output(program, cwd=root)
    # That of the chart, in an image of the author's, would look there first.
    with pytest.raises(KitError):
        output([*project.command, "--help"], cwd=root)


def test_a_module_named_like_one_of_python_s_own_is_refused_in_an_image_of_one_s_own(
    tmp_path: Path,
) -> None:
    root = repository(tmp_path, "main.py", {**ODD_NAMES, "Dockerfile": DOCUMENTED}, NAMES)
    (root / "requirements.txt").unlink()

    code, said = adopt(root)

    assert (code, (root / "PROJECT").exists()) == (1, False)
    assert "secrets/__init__.py has the name of a module of Python's own" in said


@pytest.mark.parametrize(
    ("user", "pod", "ends"),
    [
        ("", 0, "USER 65532:65532"),
        ("USER root\n", 0, "USER 65532:65532"),
        ("USER 7\n", 0, "USER 7"),
        ("USER 7\n", 1000, "USER 1000"),
    ],
)
def test_b7_no_image_runs_as_root(
    user: str, pod: int, ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"Dockerfile": f"FROM a\nUSER 7\nFROM python\n{user}"}
    files["a.yaml"] = deployment({"securityContext": {"runAsUser": pod}})
    project, _ = in_own_image(tmp_path, files)
    monkeypatch.setattr(dockerfile, "PROJECT", project)
    monkeypatch.setattr(dockerfile, "_OWN", project.root / "Dockerfile")
    monkeypatch.setattr(dockerfile, "_CONTEXT", tmp_path / "image" / "notes")

    text = dockerfile.file().read_text()

    assert text.rstrip().endswith(ends)


@pytest.mark.parametrize("lock", ["Pipfile.lock", "pdm.lock"])
def test_o9_a_lock_that_the_kit_does_not_read_is_refused(lock: str, tmp_path: Path) -> None:
    root = repository(tmp_path, "main.py", {lock: "{}"})

    code, said = adopt(root, "--requirements", lock)

    assert (code, (root / "PROJECT").exists()) == (1, False)
    assert f"{lock} is not what the kit installs from: name one of uv.lock, poetry.lock" in said


def test_o9_each_lock_is_read_as_its_own_tool_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poetry.lock has other groups than what runs, and says how each file is hashed."""
    package = '[[package]]\nname = "{}"\nversion = "1.2"\ngroups = ["{}"]\n{}files = [{}]\n\n'
    file = '{file = "a.whl", hash = "sha256:00"}'
    text = package.format("kopf", "main", "", file) + package.format("pytest", "dev", "", file)
    marked = package.format("uvloop", "main", "markers = 'os_name == \"posix\"'\n", file)
    root = repository(tmp_path, "main.py", {"poetry.lock": text + marked})
    assert adopt(root, "--requirements", "poetry.lock")[0] == 0
    monkeypatch.setattr(dockerfile, "PROJECT", definition.load(root))

    assert dockerfile.requirements().splitlines() == [
        "kopf==1.2 --hash=sha256:00",
        'uvloop==1.2 ; os_name == "posix" --hash=sha256:00',
    ]


def test_o7_a_star_in_a_rule_is_said_when_it_is_adopted(tmp_path: Path) -> None:
    role = (NOTES / "role.yaml").read_text()
    root = repository(tmp_path, "main.py", {"role.yaml": role.replace("[pods]", "['*']")})

    assert "a rule of role.yaml has a *: {" in adopt(root)[1]


def test_o11_the_modules_that_were_found_are_named(tmp_path: Path) -> None:
    handler = "from kopf import timer\nif 1:\n @timer('notes', interval=1)\n def a(**_): ..."
    root = repository(tmp_path, "main.py", {"other.py": handler})

    assert "the repository does not say it (there are main, other; one may im" in adopt(root)[1]
    (root / "src").mkdir()
    (root / "other.py").rename(root / "src" / "main.py")
    assert "the repository does not say it (there are main, main; one may" in adopt(root)[1]
    (root / "src" / "main.py").rename(root / "other.py")
    said = adopt(root, "--module", "main")[1]
    assert "other have handlers that main does not import, so the chart does not run them" in said


def test_what_a_module_prints_is_no_answer(tmp_path: Path) -> None:
    later = "import atexit, sys\natexit.register(print, '{}')\nsys.stdout.write('{')\n"
    root = repository(tmp_path, "main.py", {}, HANDLER + later)

    assert "packages notes-operator" in adopt(root)[1]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [({"setup.py": ""}, "packages"), ({"setup.cfg": "[flake8]\n"}, "so nothing says what the im")],
)
def test_o9_what_a_package_needs_its_setup_py_says(
    files: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    root = repository(tmp_path, "main.py", files)
    (root / "requirements.txt").unlink()

    assert sentence in adopt(root)[1]
    assert "setup.cfg" in files or definition.load(root).adopted.requirements == "setup.py"  # type: ignore[union-attr]
    assert adopt(root, "--requirements=setup.cfg")[0] == ("setup.cfg" in files)


def test_o11_a_crd_is_found_beside_other_objects_and_not_in_tests_or_lists_of_samples(
    tmp_path: Path,
) -> None:
    both = "\n---\n".join((NOTES / name).read_text() for name in ("crd.yaml", "role.yaml"))
    sample = (NOTES / "sample.yaml").read_text()
    others = {"tests_integration/crd.yaml": both, "e2e/sample.yaml": sample, "e2e/a.py": HANDLER}
    files = {**others, "examples/two.yaml": f"{sample}\n---\n{sample}", "crd.yaml": both}
    root = repository(tmp_path, "main.py", files)

    assert "packages notes-operator" in adopt(root)[1]
    adopted = definition.load(root).adopted
    assert adopted
    assert (adopted.crds, adopted.samples) == (("crd.yaml",), {"Note": "sample.yaml"})
    for name in ("crd.yaml", "PROJECT"):
        (root / name).unlink()
    template = (NOTES / "crd.yaml").read_text().replace("scope: Namespaced", "{{ if .Values.a }}")
    (root / "template.yaml").write_text(template)
    assert f"name its file with --crd; {root}/template.yaml is a template: `helm" in adopt(root)[1]


def test_o11_b13_a_page_of_any_host_and_name_stays_and_an_image_is_in_lower_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path, "main.py", {})
    code, said = called.adopt(root, "--home=https://gitlab.com/Teams/a/n", *SAID[2:])
    assert code == 0, said
    ours = definition.load(root)
    monkeypatch.setattr(shared, "PROJECT", ours)

    images = adopted.metadata(ours)["annotations"]["artifacthub.io/images"]
    values = shared.text(shared.FOLDER / "chart" / "values.yaml")

    assert "ghcr.io/a/n:" in images
    assert "repository: teams/n\n" in values
    assert "runbookUrl: https://gitlab.com/Teams/a/n/blob/v" in values


BY_VARIABLE = f'{HANDLER}\n\nif os.getenv("ASKED"):\n    kopf.on.validate("notes")(create)\n'


def test_o3_a_variable_that_the_import_needs_is_said_and_has_its_place(tmp_path: Path) -> None:
    root = repository(tmp_path, "main.py", {}, f'SPACE = os.environ["BUCKET"]\n\n\n{BY_VARIABLE}')

    code, said = adopt(root)
    assert (code, (root / "PROJECT").exists()) == (1, False)
    assert (
        "KeyError: 'BUCKET'; it reads the variables BUCKET, which are not set: give them by" in said
    )
    code, said = adopt(root, "--env", "BUCKET=a=b")

    assert code == 0, said
    assert "main reads the variables ASKED, which are not set" in said
    adopted = definition.load(root).adopted
    assert adopted
    assert adopted.environment == {"BUCKET": "a=b"}


def test_o6_which_handlers_there_are_does_not_depend_on_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path, "main.py", {}, BY_VARIABLE)
    monkeypatch.setenv("ASKED", "yes")

    assert registered.read("main", root, {})["webhooks"] == []
    assert len(registered.read("main", root, {"ASKED": "yes"})["webhooks"]) == 1


def test_o5_a_program_of_its_own_serves_its_webhooks_itself(tmp_path: Path) -> None:
    code = f'{HANDLER}\n\nkopf.on.validate("notes")(create)\n'
    for start in ("kopf run main.py", "python -m serving"):
        files = {"Dockerfile": f"FROM a\nWORKDIR /a\nCOPY . .\nUSER 7\nCMD {start}\n"}
        root = repository(tmp_path / start, "main.py", files, code)
        (root / "requirements.txt").unlink()

        assert ("ask the webhooks create: cert-" in adopt(root)[1]) == start.startswith("kopf")


def test_b15_a_module_of_python_s_own_name_is_refused_by_that_name(tmp_path: Path) -> None:
    root = repository(tmp_path, "operator.py", {})

    with pytest.raises(KitError, match="operator is also a module of Python's own"):
        registered.read("operator", root, {})


def test_b3_names_that_yaml_takes_for_something_else_are_quoted(tmp_path: Path) -> None:
    root = repository(tmp_path, "no.py", {})
    for name, other in (("crd.yaml", "a, b.yaml"), ("sample.yaml", "1.0"), ("role.yaml", "1e3")):
        text = (root / name).read_text().replace("kind: Note", "kind: 'Yes'")
        (root / name).unlink()
        (root / other).write_text(text)
    options = ("--crd=a, b.yaml", "--sample=1.0", "--rights=1e3", "--name=off")

    code, said = called.adopt(root, "--home=https://example.com/a/b", *options)

    assert code == 0, said
    ours = definition.load(root)
    assert ours.adopted
    assert (ours.name, ours.adopted.module) == ("off", "no")
    assert ours.adopted.samples == {"Yes": "1.0"}


def test_b15_a_status_that_is_removed_is_said(tmp_path: Path) -> None:
    root = repository(tmp_path, "main.py", {})
    sentence = "the CRD of Note removes from .status what it does not describe"
    assert sentence not in adopt(root)[1]
    (root / "PROJECT").unlink()
    crd = documents.load((root / "crd.yaml").read_text())
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    (root / "crd.yaml").write_text(documents.text(crd))

    assert sentence in adopt(root)[1]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what the chart of a repository with variables and labelled CRDs renders."""
    # A folder with such a file is no place to start Python in.
    mounted = {"volumeMounts": [{"name": "a", "mountPath": "/widgets/{{ a }}"}]}
    files = {"types.py": "1 / 0", "a.yaml": deployment(mounted)}
    root = repository(tmp_path_factory.mktemp("packaged"), "main.py", files, BY_VARIABLE)
    crd = documents.load((root / "crd.yaml").read_text())
    crd["metadata"] |= {
        "labels": {"team": "notes", "app.kubernetes.io/managed-by": "kustomize"},
        "annotations": {
            "api-approved.kubernetes.io": "{{ https://a.example/1 }}",
            "helm.sh/a": "b",
        },
    }
    (root / "crd.yaml").write_text(json.dumps(crd))
    assert adopt(root, "--env", "BUCKET=a=b")[0] == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "CHECKOUT", root)
        nested.ensure(definition.load(root))
    built = root / "build" / "generated"
    shown = output([tools.path("helm"), "template", "a", built / "charts" / "notes-operator"])
    (bundled,) = (built / "bundle" / "manifests").glob("*_notes.yaml")
    return documents.load_all(f"{shown}\n---\n{bundled.read_text()}")


def test_b10_the_metadata_of_a_crd_stays(chart: list[dict[str, Any]]) -> None:
    crds = [each["metadata"] for each in chart if each["kind"] == "CustomResourceDefinition"]

    assert len(crds) == 2  # the chart's and the bundle's
    for metadata in crds:
        assert metadata["annotations"]["api-approved.kubernetes.io"] == "{{ https://a.example/1 }}"
        assert "helm.sh/a" not in metadata["annotations"]
        assert metadata["labels"]["team"] == "notes"
        assert metadata["labels"].get("app.kubernetes.io/managed-by") != "kustomize"


def test_o2_o3_the_pod_has_a_temporary_folder_and_the_variables(
    chart: list[dict[str, Any]],
) -> None:
    (deployment,) = (each for each in chart if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]
    assert {"name": "temporary-0", "mountPath": "/widgets/{{ a }}"} in container["volumeMounts"]
    assert {"name": "temporary-0", "emptyDir": {}} in pod["volumes"]
    assert {"name": "BUCKET", "value": "a=b"} in container["env"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
