"""Who an operator is for the API server: its ServiceAccount, among those that manifests have."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kopf_kit.project import container
from kopf_kit.rig.run import KitError

Manifest = dict[str, Any]

#: What the workload, the ServiceAccount or the image of an operator is called.
_OPERATORS = ("operator", "controller", "controller-manager")
#: Words in such a name that say nothing of which operator it is.
_ANY = {
    *("operator", "controller", "manager", "service", "account", "serviceaccount", "sa", "kopf"),
    *("k8s", "kubernetes", "release", "name"),
}


_GROUP = "rbac.authorization.k8s.io"


class Called(NamedTuple):
    """What an operator is called, and its ServiceAccount, where its author says which it is."""

    name: str
    #: NAME, or NAMESPACE/NAME.
    account: str = ""
    #: Where its author writes this.
    where: str = "--account"

    @property
    def said(self) -> tuple[str, str]:
        """The namespace and the name of this ServiceAccount; empty is any."""
        space, _, name = self.account.rpartition("/")
        return space, name


class Home(NamedTuple):
    """The operator's ServiceAccount, and its namespace; empty where no file says it."""

    namespace: str = ""
    account: str = ""


def is_object(manifest: Any) -> bool:
    """Return whether it is an object of Kubernetes with a name."""
    match manifest:
        case {"kind": str(kind), "metadata": {"name": str()}}:
            group = str(manifest.get("apiVersion") or _GROUP).partition("/")[0]
            return kind.removeprefix("Cluster") not in ("Role", "RoleBinding") or group == _GROUP
    return False


def home(objects: Sequence[Manifest], names: str, whose: Called, *, bound: bool) -> Home:
    """Return which ServiceAccount is the operator's, which is called so; raise KitError.

    It is that of its workload, which may not be the only one, or else the only one that is there,
    if its name, or that of its workload, is the operator's.
    """
    called = whose.name
    if whose.account:
        return _said(objects, names, whose, bound=bound)
    subjects = {pair for each in objects for pair in named(each)}
    created = {pair for each in objects for pair in made(each)}
    both = subjects | created
    running, unsure = operators(objects, called, signs=3), False
    if not running:  # a workload of which nothing speaks for it may be another's, too
        bound_to = {name for _, name in subjects}
        unsure = len(bound_to) > 1 and called not in bound_to
        some = operators(objects, called)
        others = {pair for pair in created if pair[1] not in {name for _, name in some}}
        running = _called(some | others if some else both, called)
    unsure = unsure or not _speak(objects, running, called)
    is_one = len(called_so := {name for _, name in running}) == 1
    if is_one and running <= operators(objects, called):  # in one of several namespaces it has them
        to = [one for each in objects for one in whom(each)]
        running = {pair for pair in running if any(_may_be(pair, one) for one in to)} or running
    if is_one and bound and len(running) != 1:
        running = {pair for pair in both if pair[1] in called_so}
    spaces = {space for space, _ in running if space}
    if bound and (unsure or len({name for _, name in running}) > 1 or len(spaces) > 1):
        raise KitError(
            f"{names} have the ServiceAccounts {listed(running | subjects)}, and nothing says "
            f"which of them is the operator's: name it by {whose.where}, or name files with its "
            "roles and bindings alone and its Deployment, which runs `kopf run` or an image called "
            f"{called}"
        )
    name = next(iter(sorted(name for _, name in running)), "")
    # A workload or a ServiceAccount may leave the namespace to kustomize or to kubectl.
    for pairs in (created, subjects):
        spaces = spaces or {space for space, other in pairs if space and other == name}
    return _in(spaces, objects, name)


def _in(spaces: set[str], objects: Sequence[Manifest], name: str) -> Home:
    """Return a ServiceAccount in these namespaces, or in that of other objects, if it is one."""
    spaces = spaces or {
        namespace(each)
        for each in objects
        if each["kind"] in ("Role", "RoleBinding", "ServiceAccount") and namespace(each)
    }
    return Home(next(iter(spaces)) if len(spaces) == 1 else "", name)


def _said(objects: Sequence[Manifest], names: str, whose: Called, *, bound: bool) -> Home:
    """Return the ServiceAccount that the author names, if it is one; raise KitError.

    Of several of that name, the operator's own workload says which. Another's, such as that of a
    dashboard, may run in another namespace under this name, and `default` is in each.
    """
    created, to, run = (
        {pair for each in objects for pair in of(each) if _may_be(pair, whose.said)}
        for of in (made, whom, runs_as)
    )
    if bound and not created | {pair for pair in to if pair[1]} | run:
        every = {pair for each in objects for of in (runs_as, made, named) for pair in of(each)}
        raise KitError(
            f"{names} have no ServiceAccount {whose.account}, as {whose.where} says; there are "
            f"{listed(every)}"
        )
    ours = operators([e for e in objects if runs_as(e) & run], whose.name, signs=3)
    ours = {pair for pair in ours if any(_may_be(pair, one) for one in to)} or ours
    name = whose.said[1]
    others = created | to | (run if name != "default" else set())
    some = ({whose.said}, ours, created if ours else (), others, run)
    spaces: set[str] = next(filter(None, ({at for at, _ in pairs if at} for pairs in some)), set())
    if bound and len(spaces) > 1:
        both = " and ".join(f"{at}/{name}" for at in sorted(spaces))
        raise KitError(
            f"{names} have the ServiceAccounts {both}: name one of them with its namespace by "
            f"{whose.where}"
        )
    return _in(spaces, objects, name)


def operators(objects: Sequence[Manifest], called: str, *, signs: int = 0) -> set[tuple[str, str]]:
    """Return the ServiceAccounts of workloads that may be those of the operator, called so.

    Another, such as a dashboard's, is not the operator's because it alone has rights. One of the
    first so many signs must speak for them, if any.
    """
    running = [(_signs(each, called), pair) for each in objects for pair in runs_as(each)]
    best = max((found for found, _ in running), default=())
    return {pair for found, pair in running if found == best and (any(best[:signs]) or not signs)}


def _signs(workload: Manifest, called: str) -> tuple[bool, ...]:
    """Return what speaks for a workload to be the operator's, the strongest sign first."""
    pod = workload["spec"]["template"]["spec"]
    listed = [each for each in pod["containers"] if isinstance(each, dict)]
    images = {container.called(str(each.get("image"))) for each in listed}
    names = {*images, str(workload["metadata"]["name"]), *(name for _, name in runs_as(workload))}
    return (
        called in names,
        any(bool(called) and called in image for image in images),
        any(map(container.runs_kopf, listed)),
        any(name.endswith(_OPERATORS) for name in names),
    )


def _speak(objects: Sequence[Manifest], running: set[tuple[str, str]], called: str) -> bool:
    """Return whether something speaks for an only ServiceAccount, which may be another's."""
    names = {name for _, name in running}
    if running <= operators(objects, called, signs=3) or len(names) > 1:
        return True
    names |= {str(each["metadata"]["name"]) for each in objects if runs_as(each) & running}
    return any(fits(name, called) for name in names)


def fits(name: str, called: str) -> bool:
    """Return whether a name is of the operator that is called so, or of any operator."""
    return _words(name) in (set(), _words(called))


def _words(name: str) -> set[str]:
    """Return the words of a name, but for those that many operators' have."""
    return {*re.split(r"\W+|_", name.lower())} - _ANY


def _called(accounts: set[tuple[str, str]], called: str) -> set[tuple[str, str]]:
    """Return those that are called as the operator, else as any operator is, else all."""
    exact = {pair for pair in accounts if pair[1] == called}
    return exact or {pair for pair in accounts if pair[1].endswith(_OPERATORS)} or accounts


def namespace(manifest: Manifest) -> str:
    """Return the namespace of an object; empty if it does not say it."""
    return str(manifest["metadata"].get("namespace") or "")


def made(manifest: Manifest) -> set[tuple[str, str]]:
    """Return a ServiceAccount, with its namespace, that an object itself is."""
    is_one = manifest["kind"] == "ServiceAccount"
    return {(namespace(manifest), str(manifest["metadata"]["name"]))} if is_one else set()


def named(manifest: Manifest) -> set[tuple[str, str]]:
    """Return the ServiceAccounts that a binding names, each with its namespace."""
    return {(space, name) for space, name in whom(manifest) if name}


def listed(accounts: Iterable[tuple[str, str]]) -> str:
    """Return ServiceAccounts as text."""
    return ", ".join(sorted(f"{space}/{name or '(none)'}".lstrip("/") for space, name in accounts))


def whom(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the namespace and the name of who has the rights of a binding; empty is any."""
    subjects = manifest.get("subjects")
    for subject in subjects if isinstance(subjects, list) else ():
        about = subject if isinstance(subject, dict) else {}
        name = str(about.get("name"))
        match about.get("kind"), name.split(":"):
            case "ServiceAccount", _ if name:
                yield str(about.get("namespace") or ""), name
            case "User", ["system", "serviceaccount", space, user] if space and user:
                yield space, user
            case "Group", ["system", "serviceaccounts", space] if space:
                yield space, ""
            case "Group", ["system", "serviceaccounts" | "authenticated"]:
                yield "", ""


def _may_be(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


def bound(manifest: Manifest) -> set[tuple[str, str]]:
    """Return the kind and the name of the role that a binding binds."""
    match manifest:
        case {
            "kind": "RoleBinding" | "ClusterRoleBinding",
            "roleRef": {"kind": str(kind), "name": str(name)} as role,
        }:
            return {(kind, name)} if role.get("apiGroup") in (None, "", _GROUP) else set()
    return set()


def runs_as(manifest: Manifest) -> set[tuple[str, str]]:
    """Return the ServiceAccount of a workload's Pods, with its namespace."""
    match manifest:
        case {"spec": {"template": {"spec": {"containers": [*_]} as pod}}}:
            account = pod.get("serviceAccountName") or pod.get("serviceAccount") or "default"
            return {(namespace(manifest), str(account))}
    return set()
