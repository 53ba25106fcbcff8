"""What `kopf-kit deploy` gives a chart whose webhooks need a certificate of somebody else's."""

import json
import ssl
import sys
from pathlib import Path

import pytest

from kopf_kit.cli import deploy
from kopf_kit.cli.crd import NAMESPACE, RELEASE
from kopf_kit.project import documents, registered
from kopf_kit.project.registered import Webhook
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.steps import Step

#: Keeps what is applied in a file beside it, and shows the certificate of that.
_KUBECTL = """\
#!{python}
import base64, sys, yaml
from pathlib import Path
file = Path(__file__).with_name("applied")
if "apply" in sys.argv:
    file.write_text(sys.stdin.read())
elif not file.exists():
    sys.exit("Error from server (NotFound)")
else:
    *_, secret = yaml.safe_load_all(file.read_text())
    print(base64.b64encode(secret["stringData"]["tls.crt"].encode()).decode())
"""


def test_in_a_kind_cluster_webhooks_get_a_certificate_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(_KUBECTL.format(python=sys.executable))
    kubectl.chmod(0o755)
    kind = Cluster("a", tmp_path / "a", None, kubectl, kubectl, "localhost:5001", existing=False)
    theirs = Cluster("b", tmp_path / "b", None, kubectl, kubectl, None, existing=True)
    work = Step("deploy", tmp_path / "log")
    assert deploy._certificate(kind, work) == []  # of an operator on the runtime, which makes it

    handler = Webhook("validating", "/validating/a", {}, "a")
    monkeypatch.setattr(registered, "of", lambda _: [handler])
    assert deploy._certificate(theirs, work) == []
    first, again = deploy._certificate(kind, work), deploy._certificate(kind, work)

    assert first == again
    option, values = map(str, first)
    webhooks = json.loads(values.removeprefix("webhooks="))
    assert (option, webhooks["certificate"]) == ("--set-json", "secret")
    namespace, secret = documents.load_all((tmp_path / "applied").read_text())
    assert namespace["metadata"]["name"] == secret["metadata"]["namespace"] == NAMESPACE
    assert secret["metadata"]["name"] == webhooks["secretName"]
    (trusted,) = ssl.create_default_context(cadata=webhooks["caBundle"]).get_ca_certs()
    assert trusted["subjectAltName"] == (("DNS", f"{RELEASE}-webhook.{NAMESPACE}.svc"),)
