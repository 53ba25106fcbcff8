"""`kopf-kit adopt`: PROJECT of an operator on plain kopf, and nothing else."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from itertools import product
from pathlib import Path

import pytest
from packaging.version import Version

from kit import called, forked
from kit.called import NOTES, SAID, adopt, commit
from kopf_kit.image import dockerfile
from kopf_kit.olm import service_version
from kopf_kit.project import adopted, definition, documents, rbac, registered
from kopf_kit.project.registered import Webhook
from kopf_kit.rig.run import KitError
from kopf_offline import golang

#: A repository in a subgroup, as GitLab has them.
IN_SUBGROUP = ("--home", "https://gitlab.com/acme/tools/notes-operator", "--rights", "role.yaml")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return the repository of an operator of whose PROJECT nothing is known."""
    return called.notes(tmp_path / "notes")


def kit(folder: Path, *words: str) -> tuple[int, str]:
    ended = forked.kit(*words, folder=folder)
    return ended.returncode, " ".join((ended.stdout + ended.stderr).split())


def own_python(notes: Path, script: str) -> None:
    """Give the operator a Python of its own."""
    python = notes / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)


def texts(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_it_writes_project_alone_and_run_again_it_changes_nothing(notes: Path) -> None:
    before = texts(notes)

    assert adopt(notes, *SAID)[0] == 0
    after = texts(notes)
    code, said = kit(notes, "adopt", *SAID)

    written = after.pop("PROJECT")
    assert after == before
    assert _without_day(written) == _without_day((NOTES / "PROJECT").read_text())
    assert code == 0
    assert "is there already, and stays as it is" in said
    assert texts(notes) == before | {"PROJECT": written}


def test_what_the_repository_does_not_say_has_to_be_said(notes: Path) -> None:
    code, said = adopt(notes)

    assert code == 1
    assert "--home is missing, and the repository does not say it: use for example" in said
    assert not (notes / "PROJECT").exists()


def test_o11_without_a_role_it_says_what_is_not_known_and_which_chart_has_it(notes: Path) -> None:
    (notes / "deploy" / "chart").mkdir(parents=True)
    (notes / "deploy" / "chart" / "Chart.yaml").touch()

    _, said = adopt(notes, *SAID[:2])

    assert "what handlers write is not known: name a Role that has it with --rights" in said
    assert "`helm template deploy/chart` prints those of its chart" in said


def webhooks(notes: Path, *handlers: str) -> Sequence[Webhook]:
    """Return what the kit configures for handlers, each given as its decorator and its name."""
    parts = (handler.rpartition(" ") for handler in handlers)
    functions = (f"@kopf.on.{asked}\ndef {name}(**_): ...\n" for asked, _, name in parts)
    (notes / "main.py").write_text("\n\n".join(["import kopf\n", *functions]))
    registry = registered.read("main", notes, {})["webhooks"]
    crds = adopted.definitions_in(notes / "crd.yaml")
    return registered.kopfs("main", registry, crds, "example.dev")


def test_a_webhook_is_asked_as_kopf_itself_would_configure_it(notes: Path) -> None:
    text = (notes / "crd.yaml").read_text()
    schema = "schema: {openAPIV3Schema: {}}"
    older = f"  versions:\n    - {{name: v1beta1, served: true, storage: false, {schema}}}\n"
    (notes / "crd.yaml").write_text(text.replace("  versions:\n", older))

    validate = (
        "validate('note',operations=['UPDATE','CREATE'],ignore_failures=True,side_effects=True)"
    )
    mutate = "mutate('notes',labels={'a':'b','c':kopf.ABSENT,'d':lambda *_,**__:True})"
    scaled = "validate('example.dev','v1beta1','notes',subresource='scale',id='of/Scale')"
    checked, made, scale = webhooks(
        notes, f"{validate} Check_text", f"{mutate} made", f"{scaled} f"
    )

    assert (checked.kind, checked.path) == ("validating", "/validating/check-text")
    assert checked.entry["name"] == "check-text.notes.example.dev"
    assert checked.entry["rules"] == [
        {
            "apiGroups": ["example.dev"],
            "apiVersions": ["v1"],  # kopf answers in the version that the API server prefers
            "resources": ["notes"],
            "operations": ["CREATE", "UPDATE"],
        }
    ]
    assert checked.entry["failurePolicy"] == "Ignore"
    assert checked.entry["sideEffects"] == "NoneOnDryRun"
    assert "objectSelector" not in checked.entry
    assert (made.kind, made.entry["failurePolicy"]) == ("mutating", "Fail")
    assert made.entry["objectSelector"]["matchExpressions"] == [
        {"key": "a", "operator": "In", "values": ["b"]},
        {"key": "c", "operator": "DoesNotExist"},
    ]
    # kopf changes nothing that is deleted, so no deletion waits for it.
    assert "DELETE" not in made.entry["rules"][0]["operations"]
    (rule,) = scale.entry["rules"]
    assert (rule["apiVersions"], rule["resources"]) == (["v1beta1"], ["notes/scale"])
    assert rule["operations"] == ["*"]
    assert (scale.path, scale.handler) == ("/validating/of-scale", "of/Scale")


def test_only_about_the_operator_s_own_kinds_the_control_plane_is_not_asked(notes: Path) -> None:
    """A ReplicaSet's Pods have to be asked about."""
    own, *others = webhooks(
        notes, "validate('notes') a", "mutate('pods') b", "mutate('apps','v1','deployments') c"
    )

    assert [each["name"] for each in own.entry["matchConditions"]] == ["not-the-control-plane"]
    assert [webhook.entry["matchConditions"] for webhook in others] == [[], []]
    assert [webhook.entry["name"] for webhook in others] == [
        "b.pods.example.dev",
        "c.deployments.apps",
    ]


@pytest.mark.parametrize(
    ("handlers", "sentence"),
    [
        (["validate('deployments') a"], "of what the webhook a is for, only a cluster knows"),
        (["validate('apps','deployments') a"], "only a cluster knows group, version and plural"),
        (["validate(category='all') a"], "only a cluster knows"),
        (["validate('notes') a", "validate('notes') A"], "of the same name among a, A; give each"),
        (["validate('notes') a", "validate('pods') A"], "of the same name among a, A; give each"),
        (["mutate('notes') _"], "_ cannot name a webhook; give it an `id=` of Latin letters"),
    ],
)
def test_a_webhook_that_cannot_be_configured_is_told_in_a_sentence(
    notes: Path, handlers: list[str], sentence: str
) -> None:
    with pytest.raises(KitError, match=sentence):
        webhooks(notes, *handlers)


def test_one_function_may_be_asked_about_two_kinds_and_for_both_purposes(notes: Path) -> None:
    same = [
        f"{purpose}('{kind}',id='same') f{number}"
        for number, (purpose, kind) in enumerate(product(("validate", "mutate"), ("notes", "pods")))
    ]

    assert [(webhook.path, webhook.entry["name"]) for webhook in webhooks(notes, *same)] == [
        ("/validating/same", "same.notes.example.dev"),
        ("/validating/same", "same.pods.example.dev"),
        ("/mutating/same", "same.notes.example.dev"),
        ("/mutating/same", "same.pods.example.dev"),
    ]


def test_what_webhooks_need_is_in_chart_and_bundle(notes: Path) -> None:
    with (notes / "main.py").open("a") as main:
        main.write("\n\n@kopf.on.validate('notes', labels={'a': 'b'})\ndef short(**_): ...\n")
    assert (
        "the API server will ask the webhooks short: cert-manager makes" in adopt(notes, *SAID)[1]
    )

    assert kit(notes, "generate")[0] == 0

    built = notes / "build" / "generated"
    made = documents.load_all((built / "deploy" / "install.yaml").read_text())
    objects = {manifest["kind"]: manifest for manifest in made}
    (webhook,) = objects["ValidatingWebhookConfiguration"]["webhooks"]
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert webhook["clientConfig"]["service"]["path"] == "/validating/short"
    assert objects["Service"]["metadata"]["name"] == webhook["clientConfig"]["service"]["name"]
    assert [each["name"] for each in webhook["matchConditions"]] == [
        *("not-the-control-plane", "not-the-operator")
    ]
    assert container["command"][:2] == ["python3", "-c"]
    assert container["command"][-2:] == ["-m", "main"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    (mount, _), (volume, temporary) = container["volumeMounts"], pod["volumes"]
    assert temporary == {"name": "tmp", "emptyDir": {}}
    assert environment["KOPF_WEBHOOK_CERTIFICATE"] == mount["mountPath"]
    assert volume["secret"]["secretName"] == objects["Certificate"]["spec"]["secretName"]
    assert {"name": "webhook", "containerPort": 9443, "protocol": "TCP"} in container["ports"]
    assert container["readinessProbe"]["tcpSocket"] == {"port": "webhook"}

    # kopf makes no certificate that the API server would trust.
    schema = json.loads((built / "charts/notes-operator/values.schema.json").read_text())
    assert schema["properties"]["webhooks"]["properties"]["certificate"]["enum"] == [
        *("certManager", "secret", "olm")
    ]

    (file,) = built.glob("bundle/manifests/*.clusterserviceversion.yaml")
    csv = documents.load(file.read_text())["spec"]
    (defined,) = csv["webhookdefinitions"]
    assert (defined["webhookPath"], defined["targetPort"]) == ("/validating/short", "webhook")
    assert defined["objectSelector"] == webhook["objectSelector"]
    (deployment,) = csv["install"]["spec"]["deployments"]
    (under_olm,) = deployment["spec"]["template"]["spec"]["containers"]
    assert under_olm["command"] == container["command"]
    mounted = {"name": "KOPF_WEBHOOK_CERTIFICATE", "value": "/tmp/k8s-webhook-server/serving-certs"}
    assert mounted in under_olm["env"]


def test_webhooks_that_the_author_s_own_templates_configure_are_left_to_them(notes: Path) -> None:
    with (notes / "main.py").open("a") as main:
        main.write("\n\n@kopf.on.validate('deployments')\ndef short(**_): ...\n")
    assert adopt(notes, *SAID)[0] == 0
    code, said = kit(notes, "generate")
    assert code == 1
    assert "of what the webhook short is for, only a cluster knows" in said
    assert not (notes / "build" / "generated" / "charts").exists()
    templates = notes / "charts" / "notes-operator" / "templates"
    templates.mkdir(parents=True)
    (templates / "own.yaml").write_text("# A ValidatingWebhookConfiguration\n")

    assert kit(notes, "generate")[0] == 0

    text = (notes / "build" / "generated" / "deploy" / "install.yaml").read_text()
    assert "webhook" not in text


@pytest.mark.parametrize(
    ("version", "becomes"),
    [
        *(("1.10", "1.10.0"), ("1.0.0rc1", "1.0.0-rc.1"), ("2.0a3.dev1", "2.0.0-a.3")),
        *(("1.2.3.4", "1.2.3"), ("1.0.post1", "1.0.0"), ("1.0+a", "1.0.0"), ("1!1.0", "1.0.0")),
        *((same, same) for same in ("2.0.0-beta.2", "1.0.0-alpha", "1.0.0-rc1")),
    ],
)
def test_a_version_becomes_one_that_helm_takes_and_what_that_loses_is_said(
    version: str, becomes: str, notes: Path
) -> None:
    (notes / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')

    code, said = adopt(notes, *SAID)

    assert code == 0, said
    assert f"    version: {becomes}\n" in (notes / "PROJECT").read_text()
    assert (f"so PROJECT has {becomes}" in said) == (Version(version) != Version(becomes))


def test_a_version_that_the_build_makes_is_the_installed_one_or_gits_or_said_to_be_assumed(
    notes: Path,
) -> None:
    def version(name: str, text: str = '[project]\nname = "{}"\ndynamic = ["version"]\n') -> str:
        (notes / "pyproject.toml").write_text(text.format(name))
        said = adopt(notes, *SAID)[1]
        text = (notes / "PROJECT").read_text()
        (notes / "PROJECT").unlink()
        assumed = "nothing says the version, so it is 0.1.0: change it in PROJECT" in said
        return f"{text.partition('    version: ')[2].splitlines()[0]}{assumed * ', assumed'}"

    assert version("notes") == "0.1.0, assumed"
    assert version("kopf") == Version(metadata.version("kopf")).base_version

    commit(notes, "v1.4")
    assert version("notes") == "1.4.0"

    dynamic = "[tool.poetry-dynamic-versioning]\nenable = true"
    assert version("notes", f'[tool.poetry]\nversion = "0.0.0"\n{dynamic}\n') == "1.4.0"


def test_a_raised_version_is_in_project_and_the_code_stays(notes: Path) -> None:
    assert adopt(notes, *SAID)[0] == 0
    code = (notes / "main.py").read_text()
    commit(notes)

    assert kit(notes, "bump", "0.2.0")[0] == 0

    text = (notes / "PROJECT").read_text()
    assert "    version: 0.2.0\n" in text
    assert "    version: v1\n" in text
    assert (notes / "main.py").read_text() == code


def test_a_workflow_that_releases_is_added_once_and_an_author_s_code_is_not_linted(
    notes: Path,
) -> None:
    assert adopt(notes, *SAID)[0] == 0
    file = notes / ".github" / "workflows" / "release.yaml"

    assert kit(notes, "new", "workflow")[0] == 0
    text = file.read_text()
    code, said = kit(notes, "new", "workflow")

    assert (code, file.read_text()) == (1, text)
    assert "release.yaml exists already; it stays as it is" in said
    steps = documents.load(text)["jobs"]["release"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[1] == "uv venv && uv pip install -r requirements.txt"
    assert commands[3:] == [
        *(f"kopf-kit {command}" for command in ("verify", "e2e", "e2e-olm")),
        'kopf-kit release "${TAG#v}"',
    ]
    assert steps[-1]["with"] == {"subject-checksums": "build/release/subjects.txt"}
    assert "!github.event.repository.private" in steps[-1]["if"]
    zizmor = (Path(sys.executable).with_name("zizmor"), "--offline", "--pedantic", "--no-progress")
    for tool in ((*zizmor, file), (golang.program("actionlint"), file)):
        run = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
    listed = kit(notes, "test-all", "--list")[1]
    assert "verify" in listed
    assert not any(tier in listed for tier in ("lint", "judges", "programs of others"))


_PEERING = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfpeerings.kopf.dev}
spec:
  group: kopf.dev
  names: {kind: KopfPeering, plural: kopfpeerings}
  versions: [{name: v1, served: true, storage: true}]
"""


@pytest.fixture
def public(notes: Path) -> Path:
    """Return a repository as public ones are, with more than the kit packages."""
    (notes / "src").mkdir()
    code = (notes / "main.py").read_text().replace("import kopf\n", "import kopf, os\n")
    (notes / "src" / "main.py").write_text(
        f"{code}\n\nos.environ['ITS_OWN']\n\n\n@kopf.on.startup()\n"
        "def peer(settings, **_):\n    settings.peering.mandatory = True\n"
    )
    (notes / "main.py").unlink()
    own_python(notes, f'ITS_OWN=yes exec {sys.executable} "$@"')
    (notes / "Dockerfile").write_text("FROM python\nUSER app\n")
    (notes / "peering.yaml").write_text(_PEERING)
    crd = (notes / "crd.yaml").read_text().replace("name: v1", "name: beta-1")
    draft = crd.replace("notes", "drafts").replace("note", "draft").replace("Note", "Draft")
    (notes / "crd.yaml").write_text(crd)
    (notes / "draft.yaml").write_text(draft.replace("subresources: {status: {}}", ""))
    sample = (notes / "sample.yaml").read_text().replace("v1", "beta-1")
    (notes / "sample.yaml").write_text(sample)
    (notes / "more.yaml").write_text(sample.replace("name:", "generateName:"))
    return notes


def test_b13_a_public_repository_is_adopted_with_its_own_python_and_an_image_of_the_kit_s(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = adopt(public, *IN_SUBGROUP)
    assert code == 1
    assert "Dockerfile runs as app" in said
    assert "or name with --requirements what an image of the kit's installs" in said

    code, said = adopt(public, *IN_SUBGROUP, "--requirements=requirements.txt")

    assert code == 0, said
    assert "src/main.py makes kopf's peering mandatory" in said
    assert "OLM's consoles do not show Draft, of which there is no sample" in said
    text = (public / "PROJECT").read_text()
    assert "    crds: [crd.yaml, draft.yaml]\n" in text
    assert "      Note: sample.yaml\n      Draft: []\n" in text
    ours = definition.load(public)
    monkeypatch.setattr(dockerfile, "PROJECT", ours)
    monkeypatch.setattr(dockerfile, "_OWN", public / "Dockerfile")
    assert dockerfile.file() != public / "Dockerfile"
    monkeypatch.setattr(service_version, "PROJECT", ours)
    (hidden,) = service_version._internal([{"kind": "Note"}]).values()
    assert hidden == '["drafts.example.dev"]'


def test_the_right_to_a_status_is_given_where_there_is_one(public: Path) -> None:
    main = public / "src" / "main.py"
    main.write_text(main.read_text() + "\n\nkopf.on.create('drafts')(create_pod)\n")
    assert adopt(public, *SAID, "--requirements=requirements.txt")[0] == 0

    rules = [rule for _, rule in rbac.kopfs(definition.load(public))]

    assert [rule["resources"] for rule in rules] == [
        ["notes"],
        ["notes/status"],
        ["drafts"],
        ["events"],
    ]


def test_a_kind_in_no_namespace_and_of_another_group_is_packaged_for_the_whole_cluster(
    notes: Path,
) -> None:
    crd = (notes / "crd.yaml").read_text().replace("example.dev", "other.example.org")
    draft = crd.replace("note", "draft").replace("Note", "Draft").replace("Namespaced", "Cluster")
    (notes / "draft.yaml").write_text(draft)

    assert adopt(notes, *SAID)[0] == 0
    assert kit(notes, "generate")[0] == 0

    assert [kind.crd for kind in definition.load(notes).kinds] == [
        *("notes.example.dev", "drafts.other.example.org")
    ]
    (file,) = notes.glob("build/generated/bundle/manifests/*.clusterserviceversion.yaml")
    modes = documents.load(file.read_text())["spec"]["installModes"]
    assert [mode["type"] for mode in modes if mode["supported"]] == ["AllNamespaces"]


def test_kinds_of_others_that_may_be_in_no_namespace_are_said_where_some_are_watched(
    notes: Path,
) -> None:
    sentence = "only a cluster knows whether clusterissuers.cert-manager.io, gateways.example.org"
    role = (notes / "role.yaml").read_text()
    rule = "  - {apiGroups: [example.org, apps, '*'], resources: [gateways], verbs: [get]}\n"
    (notes / "role.yaml").write_text(role + rule)
    with (notes / "main.py").open("a") as main:
        main.write("\n\nkopf.on.event('cert-manager.io', 'clusterissuers')(create_pod)\n")
    for start in ("kopf run main.py", "kopf run main.py -n team-a"):
        (notes / "Dockerfile").write_text(f"FROM python\nCOPY . /a\nWORKDIR /a\nCMD {start}\n")
        code, said = adopt(notes, *SAID)

        assert code == 0, said
        (notes / "PROJECT").unlink()
        assert (sentence in said) == start.endswith("team-a")

    name = documents.load(role)["metadata"]["name"]
    about = (
        f"metadata: {{name: a, namespace: team-a}}\nroleRef: {{kind: ClusterRole, name: {name}}}"
    )
    subjects = "subjects: [{kind: ServiceAccount, name: notes, namespace: sys}]\n"
    binding = f"---\nkind: RoleBinding\n{about}\n{subjects}"
    (notes / "role.yaml").write_text(f"{role}{rule}{binding}")
    code, said = adopt(notes, *SAID)
    assert code == 0, said
    assert "whether clusterissuers.cert-manager.io are in namespaces" in said


@pytest.mark.parametrize(
    ("file", "text", "has_it"),
    [
        ("a.yaml", "kind: Service\nmetadata:\n  name: hooks\n", True),
        ("svc.yml", "{{ if .Values.a }}\nkind: Service\nmetadata: {name: hooks}\n{{ end }}", True),
        ("a.yaml", "kind: ConfigMap\nmetadata: {name: hooks}\n---\nkind: Service\n", False),
        ("a.yaml", "# kind: Service\n# name: hooks\n{{/*\nkind: Service\nname: hooks */}}", False),
        ("a.yaml", "kind: Service\nmetadata:\n  name: hooks-of-others\n", False),
    ],
)
def test_a_service_that_converts_is_looked_for_in_the_chart_s_templates(
    file: str, text: str, has_it: bool, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / file).write_text(text)
    service = {"service": {"name": "hooks", "namespace": "ops"}}
    crd = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": service}}}}

    assert adopted.converter(crd, tmp_path) == ("" if has_it else "hooks")


@pytest.mark.parametrize(
    ("handler", "changes", "ends"),
    [
        ("on.create('notes')", True, True),
        ("timer('notes', interval=9)", True, False),
        ("on.event('notes')", False, False),
    ],
)
def test_what_kopf_notes_on_objects_depends_on_their_handlers(
    notes: Path, handler: str, changes: bool, ends: bool
) -> None:
    (notes / "main.py").write_text(f"import kopf\n\n\n@kopf.{handler}\ndef serve(**_): ...\n")

    crds = adopted.definitions_in(notes / "crd.yaml")
    (watch,) = rbac.handlers("main", notes, crds, {}).watched

    assert (watch.changes, watch.ends) == (changes, ends)


def _without_day(project: str) -> list[str]:
    return [line for line in project.splitlines() if not line.startswith("    created: ")]


def _replace(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _edit(name: str, former: str, new: str, last: str = "") -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert former in text
        (folder / name).write_text(text.replace(former, new) + last)

    return edit


_SELECTING = "{clusterRoleSelectors: [{matchExpressions: [{key: a}]}]}"
_BINDING = """\
kind: ClusterRoleBinding
metadata: {name: notes}
roleRef: {kind: ClusterRole, name: notes}
"""


_CONVERTER = (
    "{strategy: Webhook, webhook: {clientConfig: {service: {name: hooks, namespace: ops}}, "
    "conversionReviewVersions: [v1]}}"
)
_ALL = "subjects: [{kind: Group, name: 'system:authenticated'}]\n"


def _twice(folder: Path) -> None:
    shutil.copy(folder / "crd.yaml", folder / "again.yaml")


def _package(folder: Path) -> None:
    (folder / "main").mkdir()
    (folder / "main" / "__init__.py").write_text(_KOPF)


def _own_chart(folder: Path) -> None:
    (folder / "charts" / "notes-operator").mkdir(parents=True)
    (folder / "charts" / "notes-operator" / "values.yaml").touch()


_KOPF = "import kopf\n\n\n@kopf.on.create('notes')\ndef create(**_): ...\n"


_OLD = '{"kopf": "1.30.1", "watched": [], "webhooks": []}'
_ASKING = """\
from kubernetes import client, config
config.load_config()
client.CoreV1Api().list_namespace()
"""


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            _replace("main.py", f"{_KOPF}import os\nos.getenv('ASKED')\nimport nosuchmodule\n"),
            "No module named 'nosuchmodule'; install what it needs",
        ),
        (
            _replace("main.py", f"{_KOPF}{_ASKING}"),
            "move what asks a cluster into a function with @kopf.on.startup()",
        ),
        (_replace("main.py", "x = 1\n"), "main registers no handler of kopf"),
        (
            _replace("main.py", f"{_KOPF}kopf.run()\n"),
            "it runs kopf itself then; call kopf.run() below `if __name__ == '__main__':` alone",
        ),
        (_replace("main.py", f"{_KOPF}kopf.operator()\n"), "; call kopf.operator() below `if __na"),
        (_package, "notes/main have one name, and Python imports the package alone"),
        (
            _edit("crd.yaml", "  scope:", f"  conversion: {_CONVERTER}\n  scope:"),
            "crd.yaml: the Service hooks converts the objects of Note, and the chart has none",
        ),
        (
            _replace("crd.yaml", "kind: ConfigMap\n"),
            "crd.yaml must have a CustomResourceDefinition",
        ),
        (_twice, "again.yaml and crd.yaml both have the kind Note; name one with --crd"),
        (lambda folder: (folder / "sample.yaml").unlink(), "there is no sample of Note"),
        (
            _replace("pyproject.toml", '[project]\nversion = "one"\n'),
            "has the version `one`; write one such as 1.2.0",
        ),
        (_replace("role.yaml", "kind: Service\n"), "role.yaml has no role and no binding of one"),
        (
            _edit("crd.yaml", "storage: true", "storage: false"),
            "crd.yaml: no version of a CRD in it",
        ),
        (
            _edit("role.yaml", "rules:\n", f"aggregationRule: {_SELECTING}\nrules:\n"),
            "role.yaml: Object missing required field `operator`",
        ),
        (
            _edit(
                "role.yaml", "rules:\n", "rules:\n", f"---\n{_BINDING}subjects: {{kind: User}}\n"
            ),
            "bind no role to the operator's ServiceAccount",
        ),
        (
            _edit(
                "role.yaml",
                "rules:\n",
                "rules:\n",
                f"---\n{_BINDING}subjects: [{{kind: ServiceAccount, name: sa, namespace: sys}}]\n"
                "---\n{kind: ServiceAccount, metadata: {name: sa, namespace: dev}}\n---\n"
                "kind: Job\nmetadata: {name: op}\n"
                "spec: {template: {spec: {serviceAccountName: sa, containers: [{}]}}}\n",
            ),
            "the operator's ServiceAccount dev/sa, but to sys/sa; name the files with its roles",
        ),
        (
            _edit("role.yaml", "rules:\n", "rules:\n", f"---\n{_BINDING}{_ALL}"),
            "role.yaml binds the operator to the ClusterRole notes, whose rules none of the files",
        ),
        (
            _replace("role.yaml", "kind: Role\nmetadata:\n  name: {{ .Release.Name }}\n"),
            "role.yaml is a template, not YAML: name a file with what `helm template` prints",
        ),
        (
            _replace("main.py", f"{_KOPF}raise SystemExit\n"),
            "main ends Python when it is imported in",
        ),
        (_own_chart, "charts/notes-operator is a chart already"),
        (
            lambda folder: own_python(folder, f"echo '{_OLD}'"),
            "main runs with kopf 1.30.1, and the kit packages operators on 1.37.3 or newer",
        ),
        (
            lambda folder: [
                _edit(name, "kind: Note", "kind: note")(folder)
                for name in ("crd.yaml", "sample.yaml")
            ],
            "crd.yaml has the kind note: the kit takes a kind of letters and digits that",
        ),
        (
            lambda folder: (folder / "requirements.txt").unlink(),
            "so nothing says what the image installs; name a file with --requirements",
        ),
    ],
)
def test_what_cannot_be_adopted_is_told_in_a_sentence_and_nothing_is_written(
    notes: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    spoil(notes)
    twice = (notes / "again.yaml").exists()
    before = texts(notes)

    code, said = adopt(notes, *SAID, "--module", "main", *(() if twice else ("--crd", "crd.yaml")))

    assert code == 1
    assert sentence in said
    assert texts(notes) == before


def test_a_service_account_for_which_nothing_speaks_has_to_be_named(notes: Path) -> None:
    binding = _BINDING.replace("notes}\n", "notes-operator}\n")
    subjects = "subjects: [{kind: ServiceAccount, name: ui, namespace: sys}]\n"
    with (notes / "role.yaml").open("a") as role:
        role.write(f"---\n{binding}{subjects}")

    code, said = adopt(notes, *SAID)
    assert code == 1
    assert "have the ServiceAccounts sys/ui, and nothing says which of them is the" in said
    code, said = adopt(notes, *SAID, "--account", "uii")
    assert code == 1
    assert "have no ServiceAccount uii, as --account says; there are sys/ui" in said

    assert adopt(notes, *SAID, "--account", "ui")[0] == 0
    assert rbac.given(definition.load(notes)).watched
    project = (notes / "PROJECT").read_text()
    (notes / "PROJECT").write_text(project.replace("account: ui", "account: web/ui"))
    with pytest.raises(KitError, match="web/ui, as `account` in PROJECT says; there are sys/ui"):
        rbac.given(definition.load(notes))


def test_the_active_environment_s_python_reads_the_handlers_if_the_repository_has_none(
    public: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (public / ".venv").rename(public / "env")
    monkeypatch.setenv("VIRTUAL_ENV", str(own))

    assert registered.python(notes) == own / "bin" / "python"


def test_o3_a_module_may_load_its_kubeconfig_when_it_is_imported_and_asks_nobody(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the clients of Kubernetes load it, outside a Pod; the user's own is not there."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    loads = (
        "import os, yaml\n"
        "assert os.environ.get('KUBERNETES_SERVICE_HOST') is None\n"
        "config = yaml.safe_load(open(os.environ['KUBECONFIG']))\n"
        "assert config['current-context'] == config['contexts'][0]['name']\n"
        "(cluster,) = config['clusters']\n"
        "assert cluster['cluster']['server'] == 'https://127.0.0.1:9'\n"
    )
    (notes / "main.py").write_text(loads + (notes / "main.py").read_text())

    code, said = adopt(notes, *SAID)

    assert code == 0, said
    assert "reads the variables" not in said


def test_an_import_that_never_ends_is_told_in_a_sentence(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / "main.py").write_text(_KOPF + "import threading\nthreading.Event().wait()\n")
    monkeypatch.setattr(registered, "_SECONDS", 2)

    with pytest.raises(KitError, match="main is still being imported after 2 seconds: it must"):
        rbac.handlers("main", notes, adopted.definitions_in(notes / "crd.yaml"), {})


@pytest.mark.parametrize("no_run", [False, True])
def test_t8_it_says_that_it_runs_code_of_the_repository_or_reads_files_only(
    notes: Path, no_run: bool
) -> None:
    ran = notes.parent / "ran"
    touch = f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n"
    (notes / "main.py").write_text(touch + (notes / "main.py").read_text())
    own_python(notes, f'touch {ran}\nexec {sys.executable} "$@"')

    code, said = adopt(notes, *SAID, *(["--no-run"] if no_run else []))

    assert (code, ran.exists()) == (0, not no_run), said
    assert ("this runs" in said, "was not imported" in said) == (not no_run, no_run)


ODD = (
    "spec: [1]\nmetadata: [2]\nkind: [3]",
    "spec: {names: [1]}\nmetadata: text",
    "kind: CustomResourceDefinition\nspec: [1]",
    "[1, 2]",
    "text",
    "metadata: {name: [1]}\nkind: {a: b}",
    "? [a]\n: b",
    "a: &a [*a]",
    "2020-13-40: 1",
)


def test_t8_yaml_files_of_something_else_are_passed_over(notes: Path) -> None:
    for number, document in enumerate(ODD):
        (notes / f"odd-{number}.yaml").write_text(document)

    code, said = adopt(notes, *SAID)

    assert code == 0, said
    assert "this runs the repository's Python, and imports its handlers" in said
