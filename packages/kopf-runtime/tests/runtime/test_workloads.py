"""What is read of Pods, Jobs and certificates for an author."""

import contextlib
import fcntl
import os
import ssl
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import kopf
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import kopf_runtime as kr
from kopf_runtime import JobRun
from kopf_runtime.cluster import credentials, proxies, tls
from kopf_runtime.declaring.kinds import JOB, POD, SECRET

META = {"name": "j-1", "uid": "u", "resourceVersion": "1"}
KEY = ec.generate_private_key(ec.SECP256R1())
PEM, STRANGE = (
    key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    for key in (KEY, ec.generate_private_key(ec.SECP256R1()))
)
START = datetime(2026, 1, 1, tzinfo=UTC)
CRASHED = {"exitCode": 1, "message": "the store: refused\n"}
OOM = {"exitCode": 137, "reason": "OOMKilled"}
PULLS = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
NOWHERE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
REPORT = {"exitCode": 0, "message": '{"a":1}'}


def pod(*states: dict[str, Any], init: tuple[Any, ...] = (), conditions: Any = ()) -> kr.Pod:
    status = {
        "initContainerStatuses": [{"state": state} for state in init],
        "containerStatuses": [{"name": "c", "state": state} for state in states],
        "conditions": conditions,
    }
    return msgspec.convert({"metadata": META, "status": status}, kr.Pod)


@pytest.mark.parametrize(
    ("of", "attempt"),
    [
        (pod({"terminated": REPORT}), ('{"a":1}', "", "")),
        (pod({"terminated": {"exitCode": 0}}, init=({"terminated": REPORT},)), ('{"a":1}', "", "")),
        (pod({"terminated": OOM}), ("", "OOMKilled", "")),
        (pod({"terminated": CRASHED}), ("", "the store: refused", "")),
        (pod({"terminated": {"exitCode": 3}}), ("", "it ended with 3", "")),
        (pod({"waiting": PULLS}), ("", "", "Back-off pulling image")),
        (pod({"waiting": {"reason": "ContainerCreating"}}), ("", "", "")),
        (pod(conditions=(NOWHERE,)), ("", "", "no")),
        (pod(conditions=({**NOWHERE, "status": "True"},)), ("", "", "")),
    ],
)
def test_what_a_pod_reports_or_why_it_failed_or_waits(
    of: kr.Pod, attempt: tuple[str, str, str]
) -> None:
    assert of.attempt() == attempt


@pytest.mark.parametrize(
    ("of", "trouble"),
    [
        (pod({"waiting": PULLS}), ("ImagePullBackOff", "Back-off pulling image")),
        (pod({"waiting": {"reason": "PodInitializing"}}), ("", "")),
        (pod({"terminated": OOM}), ("OOMKilled", "it ended with exit code 137.")),
        (pod(conditions=(NOWHERE,)), ("Unschedulable", "no")),
    ],
)
def test_why_a_pod_does_not_run(of: kr.Pod, trouble: tuple[str, str]) -> None:
    assert of.trouble("c") == trouble


BOOM = '{"level":"error","msg":"boom","error":"no disk"}\n'


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (CRASHED, "1: the store: refused"),
        ({"exitCode": 1, "message": BOOM + '{"level":"info","msg":"ends"}'}, "1: boom: no disk"),
        # R2: its message is empty without a policy, and if the kernel ended it
        ({"exitCode": 1, "reason": "Error"}, "1: back-off 40s"),
        (OOM, "137: OOMKilled"),
        # R2: other names of the text
        ({"exitCode": 1, "message": '{"level":"FATAL","message":"no"}\nends'}, "1: no"),
        ({"exitCode": 1, "message": '{"level":"error","text":"no"}'}, '1: {"level":"error",'),
        # R3: a line that is nested too deeply
        ({"exitCode": 1, "message": BOOM + '{"a":' + "[" * 2000 + "]" * 2000 + "}"}, "1: boom: no"),
    ],
)
def test_how_its_last_container_ended_is_known_while_it_waits(
    last: dict[str, Any], why: str
) -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    container = {"name": "c", "state": waits, "restartCount": 3, "lastState": {"terminated": last}}
    status = {"containerStatuses": [container]}
    crashed = msgspec.convert({"metadata": META, "status": status}, kr.Pod)

    reason, text = crashed.trouble("c")
    assert reason == "CrashLoopBackOff"
    assert text.startswith(f"it ended with exit code {why}")
    assert (crashed.crashes(3), crashed.crashes(4)) == (True, False)
    if "message" in last:  # R8: one text, before it waits and while it does
        assert pod({"terminated": last}).trouble("c") == ("Error", text)
        assert pod({"terminated": last}).trouble("") == ("Error", f"Container c: {text}")


@pytest.mark.parametrize(
    ("conditions", "run"),
    [
        ((), JobRun(True)),
        (({"type": "Suspended", "status": "True"},), JobRun(True)),
        (({"type": "Complete", "status": "True"},), JobRun(True, "", at=60.0)),
        (({"type": "Failed", "status": "True", "reason": "Late"},), JobRun(True, "Late")),
        (({"type": "Failed", "status": "False"},), JobRun(True)),
    ],
)
def test_the_state_of_a_job_is_read_from_its_conditions(conditions: Any, run: JobRun[Any]) -> None:
    status: dict[str, Any] = {"conditions": conditions}
    if run.at:
        status["completionTime"] = "1970-01-01T00:01:00Z"
    assert msgspec.convert({"metadata": META, "status": status}, kr.Job).run() == run


def test_a_job_has_the_reports_and_failures_of_its_pods_in_their_order() -> None:
    attempts = [
        kr.Attempt("{2}", waiting="none"),
        kr.Attempt(failure="no"),
        kr.Attempt("{1}"),
        kr.Attempt("{0}"),
    ]
    pods: Any = [
        SimpleNamespace(key=("ns", name), created=9 - number, view=attempt)
        for number, (name, attempt) in enumerate(
            zip(("b-1-x", "b-1-y", "b-1-z", "b-10-x"), attempts, strict=True)
        )
    ]
    job: Any = SimpleNamespace(kind=JOB, key=("ns", "b-1"), view=JobRun(True, ""))
    context = kr.StepContext(None, children=[job], descendants={POD: pods})

    assert JobRun.of(context, "b-1", list) == JobRun(True, "", ["{1}", "{2}"], 1, "no", 0.0, "none")
    assert JobRun.of(context, "b-2", list) == JobRun()


def day(number: float) -> float:
    return (START + timedelta(days=number)).timestamp()


def certificate(days: int, subject: str, issuer: str) -> str:
    """Return a certificate as PEM that expires after so many days."""
    owner, maker = (
        x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])
        for name in (subject, issuer)
    )
    builder = x509.CertificateBuilder().subject_name(owner).issuer_name(maker)
    builder = builder.public_key(KEY.public_key()).serial_number(1).not_valid_before(START)
    signed = builder.not_valid_after(START + timedelta(days=days)).sign(KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


LEAF, SHORT, LONG = certificate(9, "leaf", "a"), certificate(5, "a", "a"), certificate(99, "a", "a")


@pytest.mark.parametrize(
    ("crt", "ca", "days"),
    [
        (LEAF, LONG, 9),
        (LEAF, SHORT, 5),
        (LEAF, SHORT + LONG, 9),  # an authority that was renewed
        (LEAF, certificate(1, "b", "b") + LONG, 9),  # one that is replaced
        (certificate(9, "leaf", "i") + certificate(7, "i", "a"), LONG, 7),
    ],
)
def test_what_expires_first_counts_of_a_certificate_and_those_that_signed_it(
    crt: str, ca: str, days: int
) -> None:
    assert tls.expiry(crt, ca).at == day(days)


@pytest.mark.parametrize(
    ("leaf", "authority", "late"),
    [(100, 1000, 93), (10, 1000, 9), (100, 101, 93), (100, 50, 45), (365, 360, 353)],
)
def test_it_is_late_to_renew_one_a_week_or_a_tenth_of_its_life_before_its_end(
    leaf: int, authority: int, late: int
) -> None:
    expiry = tls.expiry(certificate(leaf, "leaf", "a"), certificate(authority, "a", "a"))
    assert expiry.late == pytest.approx(day(late))


def secrets(**values: Any) -> kr.Context[None]:
    """Return the context of an object that names Secrets."""
    return kr.Context(
        None, namespace="ns", reads={SECRET: {("ns", n): v for n, v in values.items()}}
    )


def test_of_several_secrets_the_first_certificate_that_expires_is_known_with_its_secret() -> None:
    b = {"tls.crt": certificate(5, "leaf", "a"), "ca.crt": LONG}
    context = secrets(a={"tls.crt": LEAF, "ca.crt": LONG}, b=b)

    expiry = kr.expiry_of(context, ["a", "b"])
    assert expiry is not None
    assert (expiry.at, expiry.secret) == (day(5), "b")
    assert expiry.late == pytest.approx(day(4.5))
    assert kr.expiry_of(context, []) is None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (None, "Secret ns/a does not exist"),
        ({"tls.crt": LEAF, "tls.key": "", "ca.crt": LONG}, r"Secret a has no tls\.key"),
        ({"tls.crt": LEAF, "tls.key": "none", "ca.crt": LONG}, "Secret a: "),
        ({"tls.crt": LEAF, "tls.key": PEM, "ca.crt": "none"}, "Secret a: "),
        ({"tls.crt": LEAF, "tls.key": STRANGE, "ca.crt": LONG}, "Secret a: "),
        # R6: such a text comes of bytes that are no text
        ({"tls.crt": LEAF, "tls.key": PEM, "ca.crt": "\ufffd"}, "Secret a: "),
    ],
)
def test_a_secret_that_is_not_usable_is_waited_for(values: dict[str, str] | None, why: str) -> None:
    with pytest.raises(kr.Wait, match=why):
        kr.tls_of(secrets(a=values), "a")


def test_r6_and_r10_any_comment_and_a_secret_without_a_projection_are_read() -> None:
    parts = {"tls.crt": LEAF, "tls.key": PEM, "ca.crt": f"# Főtanúsítvány\n{LONG}"}
    data = {name: text.encode() for name, text in parts.items()}
    context = secrets(a=parts, b=msgspec.convert({"metadata": META, "data": data}, kr.Secret))

    assert kr.tls_of(context, "a") is kr.tls_of(context, "b")
    assert kr.tls_of(context, "a").cert_store_stats()["x509"] == 1
    assert kr.text_of(context, "b", "tls.key") == PEM
    of_a, of_b = (kr.expiry_of(context, [name]) for name in "ab")
    assert of_a is not None
    assert of_b == of_a._replace(secret="b")


def test_r7_nobody_is_asked_for_the_password_of_a_key() -> None:
    """OpenSSL asks the terminal for it, so the program needs one of its own."""
    encrypted = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key = KEY.private_bytes(*form, encrypted).decode()
    code = f"import kopf_runtime as kr; kr.tls_context({LEAF!r}, {key!r}, {LONG!r})"
    terminal, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as program:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # it has ended
            while b"pass phrase" not in said and (part := os.read(terminal, 4096)):
                said += part
        program.kill()
    os.close(terminal)

    assert b"pass phrase" not in said
    assert b"SSLError" in said


@pytest.mark.parametrize("authority", ["", " ", "no certificate", "# 인증서"])
def test_r7_a_client_trusts_nobody_whom_its_secret_does_not_name(authority: str) -> None:
    with pytest.raises(OSError, match=r"."):
        kr.tls_context(LEAF, PEM, authority)


def test_certificates_are_checked_as_in_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 refuses those without an authority key identifier, which kubectl accepts."""
    former = ssl.create_default_context

    def strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = former(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    api = kopf.ConnectionInfo(server="https://localhost")

    contexts = (
        kr.tls_context(LEAF, PEM, certificate(98, "a", "a")),
        credentials.Credentials(api).ssl,
        proxies.trust(urlsplit("https://localhost")),
    )

    for context in contexts:
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT
