import pytest

from kopf_runtime.declaring import settings
from message_operator.operator import manager
from message_operator.settings import LITTLE, Settings


def parse(argv: list[str]) -> Settings:
    return settings.parse(manager.program, Settings, argv, {})


def test_the_defaults_are_for_production() -> None:
    found = parse([])

    assert found.message_image == "docker.io/library/busybox:1.37"
    assert found.message_user == "auto"
    assert found.message_pod.resources == LITTLE
    assert found.lease_name == "message-operator"


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "localhost/busybox",
        "localhost:5001/a__b/c-d:1.37_x",
        "[fd00::1]:5000/busybox:latest",
        f"Registry.example:443/team/busybox:1.37@sha256:{'0a' * 32}",
    ],
)
def test_every_image_that_a_pod_takes_is_accepted(image: str) -> None:
    assert parse([f"--message-image={image}"]).message_image == image


def test_the_greatest_user_of_kubernetes_is_accepted() -> None:
    assert parse(["--message-user=2147483647"]).message_user == 2147483647


def test_the_pod_template_is_json() -> None:
    found = parse(['--message-pod={"nodeSelector": {}, "tolerations": [{"key": "spot"}]}'])

    assert found.message_pod.node_selector == {}
    assert found.message_pod.tolerations == [{"key": "spot"}]


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--message-pull-policy=Often", "'Often' is not one of Always, IfNotPresent, Never"),
        ("--message-pull-secrets=a,B", "'B' is not a valid name"),
        ("--message-user=root", "--message-user: 'root' is not a whole number"),
        ("--message-user=0", "--message-user: '0' is not a whole number of at least 1"),
        ("--message-user=-5", "--message-user: '-5' is not a whole number of at least 1"),
        ("--message-user=2147483648", "of at least 1 and at most 2147483647"),
        ("--message-image=", "--message-image: '' is not a valid image"),
        ("--message-image=Busy Box", "'Busy Box' is not a valid image"),
        ("--message-image=busybox@sha256:abc", "'busybox@sha256:abc' is not a valid image"),
        ("--message-image=büsybox", "'büsybox' is not a valid image"),
        ("--message-pod={", "is not a valid Pod template"),
        ('--message-pod={"image": "x"}', "any of labels, annotations, nodeSelector"),
        ('--message-pod={"securityContext": {"runAsUser": 7}}', "by --message-user instead"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    flag: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse([flag])

    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err
