"""The operator may do what it needs where it watches, and nothing else anywhere."""

import pytest

from chart.helm import (
    CLUSTER_NAME,
    FULLNAME,
    NAMESPACE,
    PROGRAMS,
    Manifest,
    Values,
    find,
    names,
    render,
)

#: (group, resource): verbs, in each namespace that is watched.
NEEDED = {
    ("acme.example.com", "widgets"): {"get", "list", "watch"},
    ("acme.example.com", "widgets/status"): {"patch"},
    ("", "configmaps"): {"get", "list", "watch", "create", "patch", "delete"},
    ("", "events"): {"create", "patch"},
}
CERTIFIED = {"enabled": True, "secretName": "a"}
SUBJECTS = [{"kind": "ServiceAccount", "name": FULLNAME, "namespace": NAMESPACE}]


def granted(role: Manifest) -> dict[tuple[str, str], set[str]]:
    """Return the verbs that a role grants, by group and resource."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs


def test_all_namespaces_are_watched_by_one_cluster_role() -> None:
    manifests = render()

    assert granted(find(manifests, "ClusterRole", CLUSTER_NAME)) == NEEDED
    binding = find(manifests, "ClusterRoleBinding", CLUSTER_NAME)
    assert binding["roleRef"]["kind"] == "ClusterRole"
    assert binding["roleRef"]["name"] == CLUSTER_NAME
    assert binding["subjects"] == SUBJECTS


def test_listed_namespaces_get_a_role_each_and_nothing_is_bound_cluster_wide() -> None:
    manifests = render({"watchNamespaces": ["team-a", "team-b"]})

    roles = {m["metadata"]["namespace"]: m for m in manifests if m["kind"] == "Role"}
    bindings = {m["metadata"]["namespace"]: m for m in manifests if m["kind"] == "RoleBinding"}
    for namespace in ("team-a", "team-b"):
        assert granted(roles[namespace]) == NEEDED
        assert bindings[namespace]["roleRef"]["name"] == roles[namespace]["metadata"]["name"]
        assert bindings[namespace]["subjects"] == SUBJECTS
    assert ("ClusterRole", "", CLUSTER_NAME) not in names(manifests)
    assert "ClusterRoleBinding" not in {m["kind"] for m in manifests}


def test_selected_namespaces_take_the_cluster_role_and_the_right_to_list_namespaces() -> None:
    manifests = render({"watchNamespaceSelector": "team=a"})

    role = find(manifests, "ClusterRole", CLUSTER_NAME)
    assert granted(role) == NEEDED | {("", "namespaces"): {"list", "watch"}}
    assert find(manifests, "ClusterRoleBinding", CLUSTER_NAME)["subjects"] == SUBJECTS


@pytest.mark.parametrize(
    "values",
    [{"watchNamespaceSelector": "team=a"}, {"metrics": {"secure": CERTIFIED}}],
    ids=["selected", "secure"],
)
def test_p4_releases_of_one_name_in_two_namespaces_share_no_object(values: Values) -> None:
    without = {"crds": {"install": False}, **values}
    one, other = (names(render(without, namespace=namespace)) for namespace in ("one", "other"))

    assert {kind for kind, namespace, _ in one if not namespace} >= {"ClusterRoleBinding"}
    assert not {*one} & {*other}


def test_a_namespace_s_administrator_can_install_it_beside_another_release() -> None:
    manifests = render({"crds": {"install": False}, "watchNamespaces": [NAMESPACE]})

    assert {namespace for _, namespace, _ in names(manifests)} == {NAMESPACE}


def test_the_lease_is_the_only_one_that_can_be_touched() -> None:
    role = find(render(), "Role", f"{FULLNAME}-leader-election")

    assert role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [FULLNAME],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]


def test_without_an_election_no_lease_can_be_touched() -> None:
    manifests = render({"leaderElection": {"enabled": False}})

    assert "Role" not in {m["kind"] for m in manifests}


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["team-a"]}], ids=["all", "listed"])
def test_no_role_of_the_operator_has_a_wildcard_or_sees_secrets(values: Values) -> None:
    for role in render(values):
        if role["kind"] in ("Role", "ClusterRole"):
            assert all("*" not in (*key, *verbs) for key, verbs in granted(role).items())
            assert "secrets" not in {resource for _, resource in granted(role)}


def test_roles_can_be_left_to_the_administrator() -> None:
    without: Values = {"rbac": {"create": False}, "watchNamespaces": ["team-a"]}
    manifests = render({**without, "metrics": {"secure": CERTIFIED}})

    assert not {"Role", "RoleBinding", "ClusterRoleBinding"} & {m["kind"] for m in manifests}
    users = {f"widgets.acme.example.com-{role}" for role in ("view", "edit", "admin")}
    assert {name for kind, _, name in names(manifests) if kind == "ClusterRole"} == users


def test_who_may_view_or_edit_a_namespace_may_view_or_edit_its_widgets() -> None:
    manifests = render()
    view = find(manifests, "ClusterRole", "widgets.acme.example.com-view")
    edit = find(manifests, "ClusterRole", "widgets.acme.example.com-edit")

    assert aggregated_to(view) == {"view", "edit", "admin"}
    assert granted(view) == {("acme.example.com", "widgets"): {"get", "list", "watch"}}
    assert aggregated_to(edit) == {"edit", "admin"}
    assert granted(edit) == {
        ("acme.example.com", "widgets"): {"create", "update", "patch", "delete", "deletecollection"}
    }


def test_who_administers_a_namespace_has_all_that_he_must_grant_the_operator() -> None:
    admin = find(render(), "ClusterRole", "widgets.acme.example.com-admin")

    assert aggregated_to(admin) == {"admin"}
    assert granted(admin) == {
        ("acme.example.com", "widgets/status"): NEEDED["acme.example.com", "widgets/status"]
    }


def aggregated_to(role: Manifest) -> set[str]:
    """Return the cluster's own roles that this one becomes a part of."""
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    labels = role["metadata"]["labels"]
    return {label.removeprefix(prefix) for label in labels if label.startswith(prefix)}


def test_users_roles_come_with_the_kind() -> None:
    roles = [m for m in render({"crds": {"install": False}}) if m["kind"] == "ClusterRole"]

    assert [role["metadata"]["name"] for role in roles] == [CLUSTER_NAME]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_upgrade_can_take_users_roles_out_of_the_cluster_s_own(program: str) -> None:
    # They are kept by Helm: left out of the upgrade, they would go on granting.
    manifests = render({"crds": {"aggregateRoles": False}}, program=program)

    for name in ("view", "edit", "admin"):
        role = find(manifests, "ClusterRole", f"widgets.acme.example.com-{name}")
        assert aggregated_to(role) == set()


def test_users_roles_stay_when_the_operator_goes_so_that_widgets_can_be_deleted() -> None:
    for name in ("view", "edit", "admin"):
        role = find(render(), "ClusterRole", f"widgets.acme.example.com-{name}")
        assert role["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
