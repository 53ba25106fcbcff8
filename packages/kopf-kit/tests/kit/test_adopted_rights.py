"""A right never gets wider than the author's own manifest gives it: a real API server judges (O1).

The search draws repositories with roles, bindings and scopes, adopts each, renders the chart with
Helm, and asks SubjectAccessReviews about the author's own objects and about the chart's.
"""

import asyncio
import contextlib
import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kit.called import NOTES, SAID, adopt, notes
from kopf_kit.crd import declared
from kopf_kit.project import accounts, definition, documents, granted, nested, rbac
from kopf_kit.project.accounts import Called
from kopf_kit.rig import tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.testing import api_server
from kopf_kit.testing.requests import REVIEWS, Cluster, connected

Raw = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
QUESTIONS = 40
#: What kopf itself needs, as its documentation says: it is given where the operator watches.
KOPFS = {
    *(("example.dev", "notes", verb) for verb in ("list", "watch", "patch")),
    ("example.dev", "notes/status", "patch"),
    ("", "events", "create"),
}
#: So that it notices kinds that come later, if it watches the whole cluster.
SCANNING = {
    ("apiextensions.k8s.io", "customresourcedefinitions", verb) for verb in ("list", "watch")
}
RESOURCES = [
    *(("", name) for name in ("pods", "pods/log", "secrets", "nodes", "events", "namespaces")),
    *(("apps", "deployments"), ("example.dev", "notes"), ("metrics.k8s.io", "nodes")),
]
VERBS = ["get", "list", "create", "patch", "delete"]
URLS = ["/metrics", "/healthz/etcd"]
ACCOUNT = ("serviceAccountName", "serviceAccount")
#: Containers by which the operator's workload is known, and one by which it is not.
SIGNS = (
    {"image": "ghcr.io/example/notes-operator:1.0"},
    {"image": "b", "command": ["kopf", "run", "-m", "main"]},
    {"image": "c/notes-operator"},
    {"image": "b"},
)


class Question(NamedTuple):
    """What a SubjectAccessReview asks."""

    verb: str
    group: str
    resource: str
    name: str
    #: Empty for the whole cluster.
    namespace: str


class Case(NamedTuple):
    """A drawn operator: its own objects by the files that they are in, and what it watches."""

    number: int
    files: dict[str, list[Raw]]
    #: Further objects, by which roles hold that no file binds.
    implied: list[Raw]
    #: PROJECT's, and what a user of the chart sets instead.
    namespaces: list[str]
    values: list[str] | None
    #: Its ServiceAccount, if its author names it.
    account: str

    @property
    def home(self) -> str:
        return f"home-{self.number}"


class Draw:
    """Draws cases."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 (no secret)

    def case(self, number: int) -> Case:
        chosen, home = self._random.choice, f"home-{number}"
        is_bound = chosen((True, True, True, False))
        spaces = [home, home, *(["team-a", "team-b"] if is_bound else []), chosen([home, ""])]
        roles = [self._role(f"r{number}-{i}", spaces) for i in range(chosen([1, 2, 2, 3]))]
        bindings = []
        if is_bound:
            bindings = [b for role in roles for b in self._bindings(role, number, home, spaces)]
        if self._random.random() < 0.3:
            roles += self._aggregated(number, roles[0])
            bindings += self._bindings(roles[-1], number, home, [home]) if bindings else []
        if self._random.random() < 0.1:  # as in a repository with two ways to install it
            roles.append({**roles[0], "rules": [self._rule("Role")]})
        implied = [] if bindings else [self._implied(role, number, home) for role in roles]
        together = chosen([True, False])
        beside = [*bindings, _account("theirs", home)]
        if chosen((*[True] * 7, False)):
            space = chosen([home, ""])
            beside.append(self._pods("op", "theirs", chosen(SIGNS), space))
            if space and chosen([True, False]):  # its ServiceAccount is elsewhere
                beside.remove(_account("theirs", home))
        if chosen((True, *[False] * 7)):  # another's rights are not the operator's
            name = chosen(("ui", "ingress-controller"))  # the other's name proves nothing
            beside += [_account("other", home), self._pods(name, "other", {"image": name}, home)]
        if bindings and self._random.random() < 0.1:  # nothing is the operator's
            beside = bindings
            for each in bindings:
                each["subjects"] = [{"kind": "ServiceAccount", "name": "other", "namespace": home}]
        files = {"role.yaml": [*roles, *beside]} if together else {}
        files = files or {"role.yaml": roles, "deploy/beside.yaml": beside}
        if chosen([False, True]):
            files["role.yaml"] = [{"apiVersion": "v1", "kind": "List", "items": files["role.yaml"]}]
        own = "$(POD_NAMESPACE)"
        namespaces = chosen(([], [], [own], [own, "team-a"], ["team-a"], ["team-a", "team-b"]))
        values = None if namespaces else chosen((None, None, ["team-a", "team-b"]))
        return Case(number, files, implied, namespaces, values, chosen(("", "theirs")))

    def question(self, case: Case, rules: list[Raw]) -> Question:
        """Draw a question, mostly about what a rule is about."""
        chosen = self._random.choice
        group, resource = chosen(RESOURCES)
        verb, name = chosen(VERBS), chosen(["", "one", "two"])
        if rules and self._random.random() < 0.7:
            rule = chosen(rules)
            verb = chosen(rule["verbs"])
            if urls := rule.get("nonResourceURLs"):
                return Question("get" if verb == "*" else verb, "", chosen(urls), "", "")
            group, resource = chosen(rule["apiGroups"]), chosen(rule["resources"])
            group, resource = group.replace("*", "apps"), resource.replace("*", "deployments")
            name = chosen([name, *rule.get("resourceNames", [])])
        elif chosen([True] + [False] * 9):
            return Question("get", "", chosen(URLS), "", "")
        return Question(
            verb.replace("*", "get"),
            group,
            resource,
            name,
            chosen(["", case.home, "team-a", "team-b"]),
        )

    def _pods(self, name: str, account: str, container: Raw, space: str) -> Raw:
        pod = {self._random.choice(ACCOUNT): account, "containers": [{"name": "a", **container}]}
        spec = {"template": {"spec": pod}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", **_named(name, space), "spec": spec}

    def _role(self, name: str, spaces: list[str]) -> Raw:
        kind = self._random.choice(["Role", "ClusterRole"])
        space = self._random.choice(spaces) if kind == "Role" else ""
        rules = [self._rule(kind) for _ in range(self._random.choice([1, 1, 2]))]
        return {"apiVersion": f"{RBAC}/v1", "kind": kind, **_named(name, space), "rules": rules}

    def _rule(self, kind: str) -> Raw:
        chosen, some = self._random.choice, self._random.sample
        verbs = chosen([some(VERBS, 2), some(VERBS, 1), ["*"]])
        if kind == "ClusterRole" and chosen([True, False, False, False]):
            return {"nonResourceURLs": [chosen(URLS)], "verbs": ["get"]}
        pairs = some(RESOURCES, chosen([1, 2, 3]))
        groups, resources = ([*dict.fromkeys(part)] for part in zip(*pairs, strict=True))
        rule = {
            "apiGroups": chosen([groups, groups, ["*"]]),
            "resources": chosen([resources, resources, resources, ["*"]]),
            "verbs": verbs,
        }
        return rule | ({"resourceNames": ["one"]} if chosen([True, False, False]) else {})

    def _bindings(self, role: Raw, number: int, home: str, spaces: list[str]) -> Iterator[Raw]:
        """Yield bindings of a role: to the operator, to it and others, or to others alone."""
        ours = {"kind": "ServiceAccount", "name": "theirs", "namespace": home}
        other = ours | {"name": "other"}
        api = {"apiGroup": RBAC}
        everybody = {"kind": "Group", "name": f"system:serviceaccounts:{home}", **api}
        user = {"kind": "User", "name": f"system:serviceaccount:{home}:theirs", **api}
        group = everybody | {"name": "team-a"}
        name, chosen = role["metadata"]["name"], self._random.choice
        for i in range(chosen([1, 1, 2, 0])):
            bound = [[ours], [other, ours], [everybody], [user], [user, other]]
            alone = [[other], [ours | {"namespace": "team-a"}], [group]]
            subjects = chosen([*bound, chosen(alone), chosen(alone)])
            space = role["metadata"].get("namespace", home)
            wide = role["kind"] == "ClusterRole" and chosen([True, False])
            if role["kind"] == "ClusterRole":
                space = chosen([each for each in spaces if each])
            yield _binding(f"{name}-b{number}-{i}", role, "" if wide else space, subjects)

    def _aggregated(self, number: int, other: Raw) -> list[Raw]:
        """Return ClusterRoles with the rules of others, and none of their own.

        Each may have the label that it looks for itself, as another role may.
        """
        key, chosen = f"example.dev/in-{number}", self._random.choice
        other["metadata"]["labels"] = {key: chosen(["0", "9"])}
        part = self._role("part", [""]) | {"kind": "ClusterRole"}
        roles = [part, {**part, "rules": []}, {**part, "rules": []}]
        sought = ""
        for i, role in enumerate(roles):
            label = chosen(["0", str(i)])
            role["metadata"] = {"name": f"part-{number}-{i}", "labels": {key: label}}
            labels = {"matchLabels": {key: sought}}
            among = {"key": key, "operator": "In", "values": [sought, "8"]}
            if sought:
                selector = chosen([labels, {"matchExpressions": [among]}])
                role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
            sought = label
        return roles

    def _implied(self, role: Raw, number: int, home: str) -> Raw:
        """Return the binding that a role has by the documentation where no file has one."""
        wide, about = role["kind"] == "ClusterRole", role["metadata"]
        space = "" if wide else about.get("namespace", home)
        subjects = [{"kind": "ServiceAccount", "name": "theirs", "namespace": home}]
        return _binding(f"{about['name']}-b{number}", role, space, subjects)


def _binding(name: str, role: Raw, space: str, subjects: list[Raw]) -> Raw:
    """Return a binding of a role in a namespace, or in the whole cluster."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{'Cluster' * (not space)}RoleBinding",
        **_named(name, space),
        "roleRef": {"apiGroup": RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": subjects,
    }


def _account(name: str, space: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ServiceAccount", **_named(name, space)}


def _named(name: str, namespace: str) -> Raw:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {})}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the repository of an operator without roles, and its chart in `chart`."""
    root = tmp_path_factory.mktemp("drawn") / "notes"
    notes(root, "role.yaml")
    (root / "pyproject.toml").write_text('[project]\nversion = "1.0"\n')
    shutil.copytree(nested.ensure(definition.load(NOTES)).chart, root / "charts" / "packed")
    return root


def adopted(root: Path, case: Case) -> tuple[list[Raw], bool, str]:
    """Adopt a case; return the objects of its chart, whether it says what they lack, and what."""
    for name, manifests in case.files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(documents.text(*manifests))
    account = ("--account", case.account) if case.account else ()
    code, said = adopt(root, *SAID, *account)
    if "name one of them with its namespace" in said:
        code, said = adopt(root, *SAID, "--account", f"{case.home}/{case.account}")
    if code:
        assert "Traceback" not in said
        return [], True, said
    text = (root / "PROJECT").read_text()
    (root / "PROJECT").unlink()
    listed = json.dumps(case.namespaces)
    (root / "PROJECT").write_text(
        text.replace("    crds:", f"    watchNamespaces: {listed}\n    crds:")
    )
    ours = definition.load(root)
    (root / "PROJECT").unlink()
    grants = rbac.rights(ours)
    chart = root / "charts" / "packed"
    given = declared.Operator([], grants.watched, grants.own, grants.cluster)
    (chart / "templates" / "_rules.tpl").write_text(declared.chart_rules(given, "notes-operator"))
    values = case.namespaces if case.values is None else case.values
    options = ("--namespace", case.home, "--set-json", f"watchNamespaces={json.dumps(values)}")
    shown = ("--show-only", "templates/rbac.yaml")
    rendered = output(
        [tools.path("helm"), "template", case.home, chart, *options, *shown], timeout=60
    )
    held = re.findall(r"the ClusterRole (\S+) in \S+ holds in", " ".join(grants.left_out))
    assert not {*held} & everywhere(case), "what is said to lack is given"
    # A role that nothing binds to the operator gives nothing, so nothing lacks for that reason.
    lacks = any("is not bound to the operator" not in each for each in grants.left_out)
    return documents.load_all(rendered), lacks, said


def everywhere(case: Case) -> set[str]:
    """Return the names of ClusterRoles that the operator has in the whole cluster."""
    space = case.home
    ours = ("theirs", f"system:serviceaccount:{space}:theirs", f"system:serviceaccounts:{space}")
    return {
        each["roleRef"]["name"]
        for each in applied(case)
        if each["kind"] == "ClusterRoleBinding"
        for subject in each["subjects"]
        if subject["name"] in ours and subject.get("namespace", space) == space
    }


#: Rights of nobody's: once the API server applies them, it does so with all that came before.
NOBODY = "system:serviceaccount:mark:mark"
MARKS = [
    each
    for space, resource in ((None, "clusterroles"), ("team-a", "roles"))
    for rule in ({"apiGroups": ["mark"], "resources": [resource], "verbs": ["get"]},)
    for each in api_server.granted("mark", [rule], NOBODY, space)
]


class Judge:
    """Asks the API server what the operators of cases may do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def apply(self, objects: list[Raw]) -> None:
        """Create roles and bindings, and wait until the API server applies them."""
        await asyncio.gather(*map(self._cluster.put, _of_rbac(objects)))
        async with asyncio.timeout(60):
            for each in objects:
                while "aggregationRule" in each and not await self._rules(each):
                    await asyncio.sleep(0.05)
            await asyncio.gather(*map(self._cluster.put, MARKS))
            await self._until_marked(marked=True)

    async def take_back(self, objects: list[Raw]) -> None:
        await asyncio.gather(*map(self._cluster.take_back, _of_rbac(objects)))
        await asyncio.gather(*map(self._cluster.take_back, MARKS))
        async with asyncio.timeout(60):
            await self._until_marked(marked=False)

    async def _until_marked(self, *, marked: bool) -> None:
        for resource in ("clusterroles", "roles"):
            asked = Question("get", "mark", resource, "", "team-a")
            while await self.allows(NOBODY, asked) != marked:
                await asyncio.sleep(0.02)

    async def _rules(self, role: Raw) -> list[Raw]:
        path = f"/apis/{RBAC}/v1/clusterroles/{role['metadata']['name']}"
        return (await self._cluster.ask("GET", path)).get("rules") or []

    async def allows(self, user: str, question: Question) -> bool:
        verb, group, resource, name, namespace = question
        kind, slash, subresource = resource.partition("/")
        of = {"group": group, "resource": kind, "subresource": subresource, "verb": verb}
        asked: Raw = {"resourceAttributes": {**of, "name": name, "namespace": namespace}}
        if slash and not kind:
            asked = {"nonResourceAttributes": {"path": resource, "verb": verb}}
        space = user.split(":")[2]
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{space}",
            "system:authenticated",
        ]
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, **asked},
        }
        return bool((await self._cluster.ask("POST", REVIEWS, review))["status"]["allowed"])

    async def answers(self, account: str, questions: dict[str, list[Question]]) -> list[list[bool]]:
        return [
            await asyncio.gather(
                *(
                    self.allows(f"system:serviceaccount:{home}:{account.format(home)}", q)
                    for q in asked
                )
            )
            for home, asked in questions.items()
        ]


def _of_rbac(objects: list[Raw]) -> list[Raw]:
    return [each for each in objects if RBAC in each["apiVersion"]]


def applied(case: Case) -> list[Raw]:
    """Return the author's objects as `kubectl apply --namespace HOME` has them."""
    listed = (manifest for manifests in case.files.values() for manifest in manifests)
    objects = [one for each in listed for one in each.get("items", [each])] + case.implied
    for each in objects:
        if each["kind"] in ("Role", "RoleBinding"):
            each["metadata"].setdefault("namespace", case.home)
    return objects


def wrong(case: Case, asked: Question, before: bool, after: bool, lacks: bool) -> str:
    """Return what is wrong with the answers to a question; empty if nothing is."""
    values = case.namespaces if case.values is None else case.values
    spaces = {space.replace("$(POD_NAMESPACE)", case.home) for space in values}
    right = (asked.group, asked.resource, asked.verb)
    documented = right in KOPFS and (not spaces or asked.namespace in spaces)
    documented = documented or (right in SCANNING and not spaces)
    if after and not before and not documented:
        return "wider"
    here = not spaces or asked.namespace in spaces
    if before and not after and here and not lacks:
        return "narrower"
    return "lacks what kopf needs" if documented and not after else ""


def drawn(
    root: Path, seed: int, count: int
) -> Iterator[tuple[Case, list[Raw], bool, list[Question]]]:
    """Yield cases with the objects of their charts, whether these lack something, and questions."""
    draw = Draw(seed)
    for number in range(count):
        case = draw.case(number)
        theirs, lacks, said = adopted(root, case)
        for name in case.files:
            (root / name).unlink()
        objects = applied(case)
        rules = [rule for each in (*objects, *theirs) for rule in each.get("rules", ())]
        if not theirs:
            print(f"case {number}: {said.splitlines()[-1]}")
        yield case, theirs, lacks, [draw.question(case, rules) for _ in range(QUESTIONS)]


@pytest.mark.parametrize("seed", range(10))
def test_o1_another_s_service_account_is_never_the_operator_s(seed: int) -> None:
    draw = Draw(seed)
    for number in range(100):
        case = draw.case(number)
        objects = [one for each in case.files.values() for m in each for one in m.get("items", [m])]
        with contextlib.suppress(KitError):
            whose = Called("notes-operator", case.account)
            found = accounts.home(objects, "a", whose, bound=not case.implied)
            assert found == (case.home, "theirs") or case.implied, (seed, number)


#: Whom roles are bound to, further ServiceAccounts, and workloads (`NAMESPACE/NAME ACCOUNT IMAGE`);
#: and which is the operator's, if something says it.
WHOSE = [
    ("sys/my-app", "", "sys/web my-app ghcr.io/acme/notes:1", "sys/my-app"),
    ("sys/default", "", "sys/web default registry:5000/acme/notes@sha256:00", "sys/default"),
    ("sys/x", "", "sys/notes-deployment x b", "sys/x"),
    ("sys/prod-notes-operator", "", "a/prod-notes-operator x b", "sys/prod-notes-operator"),
    *((f"sys/{name}", "", "", f"sys/{name}") for name in ("notes-system", "notes-role", "kopf-sa")),
    *((f"sys/{name}", "", "", f"sys/{name}") for name in ("notesoperator", "prod-notes-operator")),
    *((f"sys/{name}", "", "", "") for name in ("bot", "ingress-operator", "notes-dashboard")),
    ("other/operator", "sys/notes", "", "sys/notes"),
    ("other/kopf-sa", "sys/viewer", "", ""),
    ("other/kopf-sa", "", "sys/main default b", ""),
    ("web/ui", "", "web/dash ui acme/notes-operator-dashboard", ""),
    ("web/notes-operator sys/notes-operator", "", "web/dash notes-operator b", ""),
    ("web/op sys/notes", "", "web/main op kopf", ""),
]
#: The same where the author names it; and which it is, or why it is none.
NAMED = [
    ("sys/ui web/ui", "", "web/dash ui a", "ui", "sys/ui and web/ui: name one of them with its"),
    *(("sys/ui web/ui", "", "web/dash ui a", each, each) for each in ("sys/ui", "web/ui")),
    ("sys/ui", "", "web/dash ui a", "ui", "sys/ui and web/ui: name one of them with its namespace"),
    ("sys/ui", "", "web/notes-operator ui a", "ui", "web/ui"),
    ("sys/ui", "sys/viewer", "web/dash ui a", "uii", "there are sys/ui, sys/viewer, web/ui"),
    ("sys/default", "", "web/nginx default a", "default", "sys/default"),
    ("sys/default", "", "web/nginx default a", "web/default", "web/default"),
    (
        "sys/default",
        "",
        "sys/notes-operator default a, web/nginx default a",
        "default",
        "sys/default",
    ),
]


def written(bound: str, made: str, workloads: str) -> list[Raw]:
    """Return objects as `WHOSE` writes them."""
    objects = [_account(*each.split("/")[::-1]) for each in made.split()]
    for space, name in (each.split("/") for each in bound.split()):
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": space}]
        role = {"kind": "ClusterRole", "name": "a"}
        binding = {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
        objects.append(binding | _named(f"{space}-{name}", ""))
    for at, account, image in (each.split() for each in filter(None, workloads.split(", "))):
        space, name = at.split("/")
        args = ["kopf", "run", "main.py"] if image == "kopf" else []
        pod = {"serviceAccountName": account, "containers": [{"image": image, "args": args}]}
        deployment = {"kind": "Deployment", "spec": {"template": {"spec": pod}}}
        objects.append(deployment | _named(name, space))
    return objects


@pytest.mark.parametrize(
    ("bound", "made", "workloads", "account", "expected"),
    [*((*given, "", expected) for *given, expected in WHOSE), *NAMED],
)
def test_o1_a_service_account_is_the_operator_s_if_something_says_it(
    bound: str, made: str, workloads: str, account: str, expected: str
) -> None:
    objects, whose = written(bound, made, workloads), Called("notes-operator", account)
    if not expected or " " in expected:
        told = expected or "nothing says which of them is the operator's"
        with pytest.raises(KitError, match=told):
            accounts.home(objects, "a", whose, bound=True)
    else:
        assert "/".join(accounts.home(objects, "a", whose, bound=True)) == expected


def test_a_role_whose_rules_no_file_has_is_named(tmp_path: Path) -> None:
    """Such as one of the cluster's own; the others are given all the same."""
    account = {"kind": "ServiceAccount", "name": "a", "namespace": "ops"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {"kind": "ClusterRole", "rules": rules} | _named("a", "")
    bindings = [
        {"kind": "ClusterRoleBinding", "roleRef": {"kind": "ClusterRole", "name": name}}
        | {**_named(name, ""), "subjects": [account]}
        for name in ("a", "view")
    ]
    (file := tmp_path / "roles.yaml").write_text(documents.text(role, *bindings))
    grants = granted.read([file], Called("a", ""), [], [])
    [sentence] = grants.left_out
    assert "roles.yaml binds the operator to the ClusterRole view, whose rules none" in sentence
    assert grants.rules == rules


@pytest.mark.parametrize("seed", range(10))
def test_o1_no_account_of_another_is_taken_by_its_name_or_its_workload(seed: int) -> None:
    drawing, taken = random.Random(seed), 0  # noqa: S311 (no secret)
    chosen = drawing.choice
    for number in range(300):
        name = chosen(("notes-operator", "notes", "prod-notes-operator", "my-app", "default"))
        images = ("kopf", "acme/notes-operator:1", "acme/notes", *["b"] * (name != "default"))
        other = chosen(("operator", "kopf-sa", "ui", "default", "ingress-controller", name))
        space = "web" if other == name else chosen(("sys", "web"))
        at = "sys" if other == name else chosen(("sys", ""))
        ours, workload = f"sys/{name}", f"{at}/main {name} {chosen(images)}"
        at, image = chosen(("dash", "operator", "nginx")), chosen(("nginx", "a/notes-operator-ui"))
        another = f"{space}/{at} {other} {image}"
        bound = chosen((ours, f"{space}/{other}", f"{ours} {space}/{other}"))
        made = " ".join({*chosen(((), (ours,), (f"{space}/{other}",), (ours, f"{space}/{other}")))})
        run = chosen((workload, another, f"{workload}, {another}", ""))
        if ours not in (*bound.split(), *made.split()) and workload not in run:
            continue  # nothing is the operator's
        account = chosen(("", "", name, ours))
        with contextlib.suppress(KitError):
            objects, whose = written(bound, made, run), Called("notes-operator", account)
            found = "/".join(accounts.home(objects, "a", whose, bound=True))
            assert found not in {*bound.split()} - {ours}, (seed, number, bound, made, run, account)
            taken += found == ours
    assert taken > 100


@pytest.mark.parametrize(
    ("seed", "count"),
    [(75, 8), *(pytest.param(seed, 100, marks=pytest.mark.long) for seed in (1, 2, 3))],
)
async def test_o1_o7_no_right_gets_wider_than_the_author_s_manifests_give_it(
    operator: Path, seed: int, count: int
) -> None:
    cases = [*drawn(operator, seed, count)]
    questions = {case.home: asked for case, _, _, asked in cases}
    packed = [each for _, objects, _, _ in cases for each in objects]
    before, after = [], []
    with api_server.running() as plane:
        async with connected(plane) as client:
            plane.start_controllers("clusterrole-aggregation-controller")
            for space in ("team-a", "team-b", *questions):
                await client.put({"apiVersion": "v1", "kind": "Namespace", **_named(space, "")})
            judge = Judge(client)
            authors = [each for case, _, _, _ in cases for each in applied(case)]
            await judge.apply(authors)
            before = await judge.answers("theirs", questions)
            await judge.take_back(authors)
            await judge.apply(packed)
            after = await judge.answers("{}-notes-operator", questions)

    problems = [
        f"seed {seed}, case {case.number}: {what}: {question}"
        for (case, theirs, lacks, asked), was, is_ in zip(cases, before, after, strict=True)
        for question, old, new in zip(asked, was, is_, strict=True)
        if theirs and (what := wrong(case, question, old, new, lacks))
    ]
    given = sum(map(sum, before))
    print(f"{len(cases)} cases, {given} rights before, {sum(map(sum, after))} after")
    assert not problems, "\n".join(problems)
    assert sum(not theirs for _, theirs, _, _ in cases) < count / 3
    assert given > count * 2
