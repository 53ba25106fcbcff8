"""What an author's templates add to the chart is in the bundle, or is refused in a sentence."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bundle.package import release, render_with, rendered, write
from kopf_kit.olm import bundle, manifests
from kopf_kit.olm.bundle import findings
from kopf_kit.project import documents
from kopf_kit.project.releases import NAME
from kopf_kit.rig.run import KitError

#: As an author writes it: rights of the operator and of people, a webhook, and what both need.
TEMPLATE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes-of-widget-operator}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-of-widget-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes-of-widget-operator}
subjects: [{kind: ServiceAccount, name: widget-operator, namespace: widget-operator}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: auditors}
rules: [{apiGroups: [acme.example.com], resources: [widgets], verbs: [list]}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: phrases
  namespace: {{ .Release.Namespace }}
  labels: {helm.sh/chart: widget-operator-1}
  annotations: {helm.sh/resource-policy: keep, a: b}
data: {hello: world}
---
apiVersion: v1
kind: Secret
metadata: {name: filled-later}
---
apiVersion: v1
kind: Service
metadata: {name: webhook}
spec:
  selector: {app.kubernetes.io/name: widget-operator}
  ports: [{port: 443, targetPort: 9443}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: messages}
webhooks:
  - name: widgets.acme.example.com
    clientConfig: {service: {name: webhook, namespace: widget-operator, path: /validate}}
    rules:
      - apiGroups: [acme.example.com]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [widgets]
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
"""


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Return a function that adds a template to the chart."""
    return functools.partial(render_with, monkeypatch, tmp_path, "own.yaml")


def test_it_is_carried(templates: Callable[[str], None], tmp_path: Path) -> None:
    templates(TEMPLATE)

    files = bundle.bundle(release("1.2.3"))

    carried = {path: documents.load(text) for path, text in files.items()}
    ours = {"manifests/widget-operator.clusterserviceversion.yaml"}
    ours |= {"manifests/acme.example.com_widgets.yaml"}
    there = {path for path in carried if path.startswith("manifests/")} - ours
    assert there == {
        "manifests/auditors.clusterrole.yaml",
        "manifests/filled-later.secret.yaml",
        "manifests/phrases.configmap.yaml",
        "manifests/webhook.service.yaml",
    }
    phrases = carried["manifests/phrases.configmap.yaml"]
    assert phrases["metadata"] == {
        "name": "phrases",
        "labels": {"app.kubernetes.io/version": "1.2.3"},
        "annotations": {"a": "b"},
    }
    spec = carried["manifests/widget-operator.clusterserviceversion.yaml"]["spec"]
    (wide,) = spec["install"]["spec"]["clusterPermissions"]
    assert wide["serviceAccountName"] == NAME
    assert wide["rules"][-1] == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    (webhook,) = spec["webhookdefinitions"]
    assert webhook.pop("rules")[0]["resources"] == ["widgets"]
    assert webhook == {
        "type": "ValidatingAdmissionWebhook",
        "generateName": "widgets.acme.example.com",
        "deploymentName": NAME,
        "containerPort": 443,
        "targetPort": 9443,
        "webhookPath": "/validate",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": "None",
    }
    # OLM's own programs take it.
    assert findings(write(files, tmp_path / "bundle")) == []


def test_olm_v1_installs_it(templates: Callable[[str], None]) -> None:
    templates(TEMPLATE.rpartition("---")[0])  # the renderer here has no provider of certificates

    made = rendered(bundle.bundle(release("1.2.3")), NAME)

    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in made}
    expected = {("ClusterRole", "auditors"), ("ConfigMap", "phrases"), ("Service", "webhook")}
    assert expected < names
    rules = [
        rule for manifest in made if manifest["kind"] == "ClusterRole" for rule in manifest["rules"]
    ]
    assert {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]} in rules


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: own}",
            "OLM does not install this kind",
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: own}\ndata: {a: Yg==}",
            "its values would be readable by everybody in the bundle",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: kube-system}",
            "it is in the namespace kube-system, but OLM chooses one",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: own\n"
            "  annotations: {helm.sh/hook: post-install}",
            "it is a hook of Helm",
        ),
        (
            TEMPLATE.partition("---")[2].partition("---")[0].replace("nodes-of-widget-", "own"),
            "the chart has no ClusterRole ownoperator, so OLM cannot bind it",
        ),
        (
            TEMPLATE.rpartition("---")[2] + "    matchConditions: [{}]",
            "OLM does not support matchConditions of widgets.acme.example.com",
        ),
        (TEMPLATE.rpartition("---")[2], "calls port 443, which the Service webhook lacks"),
        (
            TEMPLATE.rpartition("---")[2].replace(
                "{service: {name: webhook, namespace: widget-operator, path: /validate}}",
                "{url: 'https://a'}",
            ),
            "widgets.acme.example.com has a URL",
        ),
    ],
)
def test_what_a_bundle_cannot_carry_is_refused_in_a_sentence(
    text: str, sentence: str, templates: Callable[[str], None]
) -> None:
    templates(text)

    with pytest.raises(KitError) as error:
        bundle.bundle(release("1.2.3"))

    assert str(error.value).startswith("widget-operator: a bundle for OLM cannot carry ")
    assert sentence in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            '{tls.key: {{ (genCA "a" 1).Key | b64enc }}}',
            "widget-operator: Secret own contains a private key",
        ),
        (
            "{password: {{ randAlphaNum 16 | b64enc }}}",
            "widget-operator: Secret own is rendered differently each time",
        ),
    ],
    ids=["private-key", "random"],
)
def test_no_secret_is_written_into_a_generated_file(
    data: str, sentence: str, templates: Callable[[str], None]
) -> None:
    templates(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: own}}\ndata: {data}")

    with pytest.raises(KitError, match=sentence):
        manifests.files()


def test_a_manifest_that_is_no_longer_generated_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(bundle.BUNDLE, tmp_path / "bundle")
    former = folder / "manifests" / "former.configmap.yaml"
    former.write_text("kind: ConfigMap")
    monkeypatch.setattr(bundle, "BUNDLE", folder)

    assert bundle.leftovers(bundle.files()) == [former]
    assert bundle.leftovers([]) == []  # where no bundle is generated
