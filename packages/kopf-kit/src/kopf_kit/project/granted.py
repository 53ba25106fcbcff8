"""What the roles that an author wrote allow, and where: nothing here gets wider than they give it.

The files may have other objects, too. If they bind roles, the operator has what is bound to its
ServiceAccount, there. Without any binding, a ClusterRole is for what the operator watches, and a
Role for its own namespace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kopf_kit.project import accounts, adopted, written
from kopf_kit.project.accounts import Called, Home
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

Manifest = dict[str, Any]
Rule = dict[str, list[str]]

#: In the chart's value `watchNamespaces`, the namespace that the operator itself is in.
OWN = "$(POD_NAMESPACE)"
_HINT = "`rights` names files with roles"
_FIELDS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")
#: Groups of Kubernetes whose resources are all in namespaces.
_IN_NAMESPACES = {
    *("apps", "autoscaling", "batch", "extensions", "policy"),
    *("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"),
}
#: The resources of Kubernetes that are in no namespace, by their group.
_OF_THE_CLUSTER = {
    "": ("componentstatuses", "namespaces", "nodes", "persistentvolumes", "users", "groups"),
    "admissionregistration.k8s.io": (
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        *("mutatingwebhookconfigurations", "validatingadmissionpolicies"),
        *("validatingadmissionpolicybindings", "validatingwebhookconfigurations"),
    ),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "apiregistration.k8s.io": ("apiservices",),
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews", "uids", "userextras"),
    "authorization.k8s.io": (
        *("selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"),
    ),
    "certificates.k8s.io": ("certificatesigningrequests", "clustertrustbundles", "signers"),
    "flowcontrol.apiserver.k8s.io": ("flowschemas", "prioritylevelconfigurations"),
    "kopf.dev": ("clusterkopfpeerings",),
    "metrics.k8s.io": ("nodes",),
    "networking.k8s.io": ("ingressclasses", "ipaddresses", "servicecidrs"),
    "node.k8s.io": ("runtimeclasses",),
    "rbac.authorization.k8s.io": ("clusterrolebindings", "clusterroles"),
    "resource.k8s.io": ("deviceclasses", "devicetaintrules", "resourceslices"),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": (
        *("csidrivers", "csinodes", "storageclasses", "volumeattachments"),
        "volumeattributesclasses",
    ),
}


@dataclass
class Grants:
    """Rules, each with its reason, by where they hold."""

    #: In each watched namespace, or in the cluster if the operator watches all.
    watched: list[tuple[str, Rule]] = field(default_factory=list)
    #: In the operator's own namespace.
    own: list[tuple[str, Rule]] = field(default_factory=list)
    #: In the cluster, whichever namespaces are watched: about what is in no namespace.
    cluster: list[tuple[str, Rule]] = field(default_factory=list)
    #: Those of `watched` that the author gives in the whole cluster.
    everywhere: list[tuple[str, Rule]] = field(default_factory=list)
    #: Sentences on what the chart does not give.
    left_out: list[str] = field(default_factory=list)

    def add(self, other: "Grants") -> None:
        """Add the rules and sentences of another that are not among them."""
        self.watched += [each for each in other.watched if each not in self.watched]
        self.own += [each for each in other.own if each not in self.own]
        self.cluster += [each for each in other.cluster if each not in self.cluster]
        self.everywhere += [each for each in other.everywhere if each not in self.everywhere]
        self.left_out += [each for each in other.left_out if each not in self.left_out]

    @property
    def rules(self) -> list[Rule]:
        """All rules, wherever they hold."""
        return [rule for _, rule in (*self.watched, *self.own, *self.cluster)]


class _Role(NamedTuple):
    file: Path
    name: str
    manifest: Manifest

    @property
    def rules(self) -> list[Rule]:
        return self.manifest.get("rules") or []

    def __str__(self) -> str:
        return f"the {self.manifest['kind']} {self.name} in {self.file.name}"


def split(rules: Iterable[tuple[str, Rule]], crds: Sequence[Manifest]) -> Grants:
    """Return rules of the whole cluster: what is in namespaces, and what is in none."""
    specs = [crd["spec"] for crd in crds if crd["spec"].get("scope") == "Cluster"]
    wide = {(spec["group"], spec["names"]["plural"]) for spec in specs}
    wide |= {(group, name) for group, names in _OF_THE_CLUSTER.items() for name in names}
    grants = Grants()
    for why, rule in rules:
        for here, part in _parts(rule, wide):
            (grants.cluster if here else grants.watched).append((why, part))
    grants.everywhere += grants.watched
    return grants


def unsure(rules: Iterable[Rule], crds: Sequence[Manifest]) -> Iterator[str]:
    """Yield a sentence on the kinds of which only a cluster knows whether they are in namespaces.

    The rules are those of an operator that watches some namespaces alone.
    """
    known = {*_OF_THE_CLUSTER, *_IN_NAMESPACES, "*"}
    own = {f"{crd['spec']['names']['plural']}.{crd['spec']['group']}" for crd in crds}
    names = {
        f"{resource.partition('/')[0]}.{group}": None
        for rule in rules
        for group in {*rule.get("apiGroups", ())} - known
        for resource in rule["resources"]
        if resource != "*"
    }
    if others := [name for name in names if name not in own]:
        yield (
            f"only a cluster knows whether {', '.join(others)} are in namespaces, and the chart "
            "gives the rights to them in those that it watches: if they are in none, write a "
            "ClusterRole for them, and its binding, into the chart's templates"
        )


def _parts(rule: Rule, wide: set[tuple[str, str]]) -> Iterator[tuple[bool, Rule]]:
    """Yield the parts of a rule, and whether each is about what is in no namespace."""
    if rule.get("nonResourceURLs"):
        yield True, rule
        return
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for group in rule["apiGroups"]:
        known = wide if group != "*" else {("*", name) for _, name in wide}
        halves: tuple[list[str], list[str]] = ([], [])
        for resource in rule["resources"]:
            halves[(group, resource.partition("/")[0]) in known].append(resource)
        groups.setdefault((tuple(halves[0]), tuple(halves[1])), []).append(group)
    for halves_, of in groups.items():
        for here, resources in enumerate(halves_):
            if resources:
                yield bool(here), {**rule, "apiGroups": of, "resources": [*resources]}


def read(
    files: Sequence[Path], called: Called, crds: Sequence[Manifest], namespaces: Sequence[str]
) -> Grants:
    """Return what an operator, called so, may do by these files; raise KitError if none says it.

    `crds` are its own, and `namespaces` those that it watches by default.
    """
    objects = [
        (file, each)
        for file in files
        for each in adopted.manifests_in(file, _HINT)
        if accounts.is_object(each)
    ]
    roles = [
        _Role(file, each["metadata"]["name"], _checked(file, each))
        for file, each in objects
        if is_role(each)
    ]
    names = ", ".join(map(str, files))
    for file in {*files} - {
        of
        for of, each in objects
        if is_role(each)
        or any(of(each) for of in (accounts.bound, accounts.runs_as, accounts.made))
    }:
        raise KitError(f"{file} has no role and no binding of one; name files with these")
    bindings = [(file, each) for file, each in objects if accounts.bound(each)]
    home = accounts.home([each for _, each in objects], names, called, bound=bool(bindings))
    for role in roles:
        if any(_is(other, role.manifest, home) and other.rules != role.rules for other in roles):
            raise KitError(f"{names} have {role} twice, with other rules; keep one")
    where = _bound(roles, bindings, home, names) if bindings else _unbound(roles, home, names)
    return _granted(where, roles, crds, home, namespaces)


def namespace(files: Sequence[Path], called: Called) -> str:
    """Return the namespace of the ServiceAccount of an operator; empty where no file says it.

    One that only a role is in may be what it watches, installed elsewhere.
    """
    read = (each for file in files for each in adopted.manifests_in(file, _HINT))
    objects = [each for each in read if accounts.is_object(each)]
    bound = any(map(accounts.bound, objects))
    home = accounts.home(objects, ", ".join(map(str, files)), called, bound=bound)
    said = {pair for each in objects for pair in (*accounts.named(each), *accounts.runs_as(each))}
    return home.namespace if home in said else ""


def is_role(manifest: Manifest) -> bool:
    """Return whether an object is a Role or a ClusterRole."""
    return manifest["kind"] in ("Role", "ClusterRole")


def _checked(file: Path, role: Manifest) -> Manifest:
    """Return a role; raise KitError where a rule is none that the API server takes."""
    rules = reading.shaped(role, written.Role, file).get("rules") or []
    for number, rule in enumerate(rules, 1):
        where = f"{file}: rule {number} of the {role['kind']} {role['metadata']['name']}"
        about = bool(rule.get("apiGroups") and rule.get("resources"))
        if bool(rule.get("nonResourceURLs")) == about:
            raise KitError(
                f"{where} must have either `apiGroups` with `resources` or `nonResourceURLs`"
            )
    kept = [{key: value for key in _FIELDS if (value := rule.get(key))} for rule in rules]
    return {**role, "rules": kept}


#: A role, the namespace in which it is bound, or None in the whole cluster; or a sentence.
_Bound = tuple[_Role | None, str | None, str]


def _bound(
    roles: Sequence[_Role], bindings: Sequence[tuple[Path, Manifest]], home: Home, names: str
) -> list[_Bound]:
    """Return the roles that are bound to the operator, each with where."""
    where: list[_Bound] = []
    for file, binding in bindings:
        whose = [one for space, one in accounts.whom(binding) if space in ("", home.namespace)]
        if not {"", home.account} & {*whose}:
            continue
        space = None if binding["kind"] == "ClusterRoleBinding" else accounts.namespace(binding)
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        if space is None and kind == "Role":
            raise KitError(
                f"{file.name}: the ClusterRoleBinding {binding['metadata']['name']} binds the Role "
                f"{name}, which no API server takes: bind a ClusterRole, or use a RoleBinding"
            )
        fitting = [
            role
            for role in roles
            if _is(role, {"kind": kind, "metadata": {"name": name, "namespace": space}}, home)
        ]
        if fitting:
            where.append((fitting[0], space, ""))
        else:
            sentence = (
                f"{file.name} binds the operator to the {kind} {name}, whose rules none of the "
                "files has, so the chart does not give them: name their file with --rights, or a "
                "role with what the operator uses of them, which `kopf-kit rights record` writes"
            )
            where.append((None, space, sentence))
    held = {id(role) for role, _, _ in where}
    if where and not any(role for role, _, _ in where):
        raise KitError(next(sentence for _, _, sentence in where))
    if not where:
        others = accounts.listed({pair for _, each in bindings for pair in accounts.named(each)})
        raise KitError(
            f"{names} bind no role to the operator's ServiceAccount {accounts.listed([home])}, but "
            f"to {others or 'others'}; name the files with its roles and bindings"
        )
    for role in roles:
        if id(role) not in held and not _is_selected(role, [each for each, _, _ in where if each]):
            sentence = f"{role} is not bound to the operator, so the chart does not have its rules"
            where.append((None, None, sentence))
    return where


def _is(role: _Role, other: Manifest, home: Home) -> bool:
    """Return whether a role is an object of this kind, name and, if it is in any, namespace."""
    kind, about = other["kind"], other["metadata"]
    space = str(about.get("namespace") or "")
    here = kind == "ClusterRole" or _same(accounts.namespace(role.manifest), space, home)
    return (role.manifest["kind"], role.name) == (kind, about["name"]) and here


def _same(one: str, other: str, home: Home) -> bool:
    return (one or home.namespace) == (other or home.namespace)


def _unbound(roles: Sequence[_Role], home: Home, names: str) -> list[_Bound]:
    """Return the roles of files without a binding, each with where it holds."""
    spaces = {
        accounts.namespace(role.manifest) for role in roles if role.manifest["kind"] == "Role"
    }
    if len(spaces - {"", home.namespace}) > 1:
        listed = ", ".join(sorted(spaces))
        raise KitError(
            f"{names} have Roles in the namespaces {listed}, and nothing says which of them is the "
            "operator's: name the file with its RoleBindings, too"
        )
    return [
        (role, accounts.namespace(role.manifest) if role.manifest["kind"] == "Role" else None, "")
        for role in roles
    ]


def _granted(
    where: Sequence[_Bound],
    roles: Sequence[_Role],
    crds: Sequence[Manifest],
    home: Home,
    namespaces: Sequence[str],
) -> Grants:
    """Return the rules of bound roles by where they hold in the chart."""
    grants = Grants()

    def place(space: str | None) -> str | None:
        """Return a namespace as the chart watches it, of which its own has another name."""
        is_own = {*namespaces} > {OWN} and space is not None and _same(space, "", home)
        return OWN if is_own else space

    spaces = {id(role): {place(at) for r, at, _ in where if r is role} for role, _, _ in where}
    for role, space, left_out in where:
        if role is None:
            grants.add(Grants(left_out=[left_out]))
            continue
        rules, sentences = _rules(role, roles)
        given = [(f"The handlers need it: {role.file.name} has it.", rule) for rule in rules]
        grants.add(Grants(left_out=sentences))
        if space is None:
            grants.add(split(given, crds))
            continue
        # What is in no namespace, such as a URL, nobody may touch by a RoleBinding.
        given = [(why, rule) for why, rule in given if not rule.get("nonResourceURLs")]
        if place(space) in namespaces and spaces[id(role)].issuperset(namespaces):
            grants.add(Grants(watched=given))
        elif _same(space, "", home):
            grants.add(Grants(own=given))
        elif None not in spaces[id(role)]:  # it holds there as everywhere
            sentence = (
                f"{role} holds in the namespace {space}, and the chart gives rights in the "
                "operator's own namespace, in all that it watches, or in the cluster: so it does "
                "not give these; write a template for them into the chart's templates"
            )
            grants.add(Grants(left_out=[sentence]))
    return grants


def _rules(role: _Role, roles: Sequence[_Role]) -> tuple[list[Rule], list[str]]:
    """Return the rules of a role: those of the ClusterRoles that it aggregates, if it does so."""
    if not role.manifest.get("aggregationRule"):
        return role.rules, []
    selected, found = [role], list[_Role]()
    while selected:  # one that is selected may aggregate others
        by = selected.pop()
        for other in roles:
            if _is_selected(other, [by]) and not any(other is each for each in found):
                found.append(other)
                selected += [other] if other.manifest.get("aggregationRule") else []
    plain = [other for other in found if not other.manifest.get("aggregationRule")]
    sentence = (
        f"{role} has the rules of all ClusterRoles with its labels, and the chart only those of "
        f"these files: {', '.join(other.name for other in plain) or 'none'}"
    )
    return [rule for other in plain for rule in other.rules], [sentence]


def _is_selected(role: _Role, by: Sequence[_Role]) -> bool:
    """Return whether Kubernetes adds the rules of a ClusterRole to one that aggregates."""
    labels = role.manifest["metadata"].get("labels") or {}
    return role.manifest["kind"] == "ClusterRole" and any(
        _selects(selector, labels)
        for other in by
        if other is not role
        for selector in (other.manifest.get("aggregationRule") or {}).get("clusterRoleSelectors")
        or ()
    )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(
        labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()
    ):
        return False
    for need in selector.get("matchExpressions") or ():
        value, values = labels.get(need["key"]), need.get("values") or ()
        fits = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not fits[need["operator"]]:
            return False
    return True
