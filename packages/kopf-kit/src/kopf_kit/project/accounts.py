"""Who an operator is for the API server: its ServiceAccount, among those that manifests have."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kopf_kit.project import container
from kopf_kit.rig.run import KitError

Manifest = dict[str, Any]

#: Words that say nothing of which operator it is; the latter do not say that it is one, either.
_ANY = {
    *("operator", "controller", "manager", "service", "account", "serviceaccount", "sa", "kopf"),
    *("k8s", "kubernetes", "release", "name"),
}
_OTHERS = {"deployment", "system", "role", "bot"}


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

    It is the one for which most speaks: its name, and the workloads that run as it. A name that
    many operators have speaks for it if there is no other.
    """
    if whose.account:
        return _said(objects, names, whose, bound=bound)
    called = whose.name
    subjects, created, run = (
        {pair for each in objects for pair in of(each)} for of in (named, made, runs_as)
    )
    found = {pair: _evidence(objects, pair, called) for pair in subjects | created | run}
    best = max(found.values(), default=())
    running = {pair for pair, signs in found.items() if signs == best}
    unsure = _doubtful(objects, found, running, called)
    is_one = len({name for _, name in running}) == 1
    # Its own workload is in several namespaces, and has them in one.
    if is_one and running <= operators(objects, called, signs=3):
        to = [one for each in objects for one in whom(each)]
        running = {pair for pair in running if any(_may_be(pair, one) for one in to)} or running
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


def _evidence(objects: Sequence[Manifest], pair: tuple[str, str], called: str) -> tuple[bool, ...]:
    """Return what speaks for a ServiceAccount to be the operator's, the strongest sign first."""
    name = pair[1]
    workloads = [_signs(each, called) for each in objects if pair in runs_as(each)]
    # At last, that a workload leaves the namespace to kustomize or to kubectl.
    return max(
        (exact, name == called, image, kopf, is_called(name, called), fits, not pair[0])
        for exact, image, kopf, fits in workloads or [(False,) * 4]
    )


def _doubtful(
    objects: Sequence[Manifest],
    found: Mapping[tuple[str, str], tuple[bool, ...]],
    running: set[tuple[str, str]],
    called: str,
) -> bool:
    """Return whether that for which most speaks may yet be another's ServiceAccount."""
    subjects = {pair for each in objects for pair in named(each)}
    names = {name for _, name in running}
    exact, *strong = next((found[pair][:4] for pair in running), (True,))  # a Group may have them
    # One runs kopf, and another is called as the operator.
    kopf = {name for (_, name), signs in found.items() if any(signs[2:4])}
    so = {name for _, name in subjects | running if is_called(name, called)}
    if exact or (kopf and so and not kopf & so):
        return not exact
    if any(strong):
        return False
    if len({name for _, name in subjects}) > 1:
        return True
    if any(any(found[pair][4:6]) for pair in running):
        return False
    # A name such as `operator`, of the account or of its workload, is that of any.
    of = {name for each in objects if runs_as(each) & running for name in _names(each)} | names
    is_only = all(any(_may_be(pair, one) for one in running) for pair in found)
    return not (is_only and any(map(_is_any, of)))


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
        there = {pair for each in objects for of in (runs_as, made, named) for pair in of(each)}
        raise KitError(
            f"{names} have no ServiceAccount {whose.account}, as {whose.where} says; there are "
            f"{listed(there)}"
        )
    ours = operators([e for e in objects if runs_as(e) & run], whose.name, signs=3)
    ours = {pair for pair in ours if any(_may_be(pair, one) for one in to)} or ours
    name = whose.said[1]
    every = run if name != "default" else operators(objects, whose.name, signs=4) & run
    others = created | to | every
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
    names, listed = _names(workload), workload["spec"]["template"]["spec"]["containers"]
    return (
        called in names,
        any(is_called(name, called, after=True) for name in names[1:]),
        any(container.runs_kopf(each) for each in listed if isinstance(each, dict)),
        any(is_called(name, called) for name in names),
    )


def _names(workload: Manifest) -> list[str]:
    """Return what a workload is called, and then its images."""
    listed = workload["spec"]["template"]["spec"]["containers"]
    images = [container.called(str(e.get("image"))) for e in listed if isinstance(e, dict)]
    return [str(workload["metadata"]["name"]), *images]


def fits(name: str, called: str) -> bool:
    """Return whether a name is of the operator that is called so, or of any operator."""
    return _is_any(name) or is_called(name, called)


def is_called(name: str, called: str, *, after: bool = False) -> bool:
    """Return whether a name is of the operator that is called so; or has this `after` others.

    It may follow the name of a release, and have other words that say nothing.
    """
    words = _words(called) - _ANY - _OTHERS
    if words and "-" in called and name.endswith(f"-{called}"):
        return True
    same = _words(name) - _ANY - _OTHERS == words != set()
    return not after and (same or name.replace("-", "") == called.replace("-", ""))


def _is_any(name: str) -> bool:
    """Return whether a name is one that many operators have."""
    return _words(name) <= _ANY


def _words(name: str) -> set[str]:
    return {*re.split(r"\W+|_", name.lower())} - {""}


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
