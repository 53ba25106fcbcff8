"""TLS with certificates that are texts, such as those of a Secret, and when they expire.

A Secret is one that the object names, and that `reads` shows as a `kr.Secret`, or with the
projection `kr.Secret.texts`.
"""

import functools
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kopf_runtime.declaring.context import Context
from kopf_runtime.declaring.errors import Wait
from kopf_runtime.declaring.kinds import SECRET
from kopf_runtime.declaring.workloads import Secret

#: It is late to renew a certificate once these seconds are left, or only this part of its life if
#: that is less. cert-manager renews it when a third of its life is left.
LATE, LATE_PART = 7 * 86400.0, 0.1


@contextmanager
def file_of(text: bytes) -> Iterator[str]:
    """Yield the path of a file in memory: Python reads certificates only from files.

    So no key is written to a disk, and a container's file system may be read-only.
    """
    number = os.memfd_create("certificate")
    try:
        os.write(number, text)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def as_in_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Have a client accept the certificates that programs in Go accept, such as kubectl.

    From Python 3.13 on, a default context refuses those without an authority key identifier.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@functools.lru_cache(maxsize=256)  # connections are kept for a context
def tls_context(crt: str, key: str, ca: str) -> ssl.SSLContext:
    """Return the TLS context of a client: its certificate, its key, and whom it trusts, as PEM.

    The same texts give the same context. Raise `OSError` if they are not usable.
    """
    if not ca:  # Python would trust what the system trusts
        raise ssl.SSLError("there is no certificate of an authority to trust")
    # Python takes ASCII alone, and a comment may have more.
    tls = as_in_go(ssl.create_default_context(cadata=ca.encode("ascii", "replace").decode()))
    with file_of(crt.encode()) as certificate_file, file_of(key.encode()) as key_file:
        # Without a password, OpenSSL would ask the terminal for the one of an encrypted key.
        tls.load_cert_chain(certificate_file, key_file, password="")
    return tls


class Expiry(NamedTuple):
    """When the first of some certificates expires (`at`), and when it is `late` to renew one.

    Both are in seconds of Unix time. `secret` is the name of the Secret with the first one.
    """

    at: float
    late: float
    secret: str = ""


@functools.lru_cache(maxsize=512)  # it is asked at each look
def expiry(crt: str, ca: str) -> Expiry:
    """Return when a certificate or its authority expires, in seconds of Unix time.

    Of several authorities with the same subject, the last one to expire counts. Raise `ValueError`
    if there is no certificate. It needs the extra `webhooks`.
    """
    from cryptography import x509  # 19 MB of memory, which few need

    chain, trusted = (x509.load_pem_x509_certificates(text.encode()) for text in (crt, ca))
    signers = [authority for authority in trusted if authority.subject == chain[-1].issuer]
    signers.sort(key=lambda signer: signer.not_valid_after_utc)
    validities = [
        (certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())
        for certificate in (*chain, *signers[-1:])
    ]
    late = min(end - min(LATE, LATE_PART * (end - start)) for start, end in validities)
    return Expiry(min(end for _, end in validities), late)


def text_of(context: Context[Any], secret: str, key: str) -> str:
    """Return the value of a `key` of a `secret`; raise `Wait` if either is missing."""
    view = context.read(SECRET, secret)
    text: str = (view.texts() if isinstance(view, Secret) else view).get(key, "")
    if not text:
        raise Wait("SecretIncomplete", f"Secret {secret} has no {key}.")
    return text


def tls_of(context: Context[Any], secret: str) -> ssl.SSLContext:
    """Return the TLS context of a client from a `secret`; raise `Wait` if that is not usable."""
    parts = [text_of(context, secret, key) for key in ("tls.crt", "tls.key", "ca.crt")]
    try:
        return tls_context(*parts)
    except (OSError, ValueError) as error:
        raise Wait("SecretInvalid", f"Secret {secret}: {error}.") from None


def expiry_of(context: Context[Any], secrets: Iterable[str]) -> Expiry | None:
    """Return when the first certificate of several `secrets` expires; None if there are none.

    Raise `Wait` if one is not usable. It needs the extra `webhooks`.
    """
    expiries = []
    for secret in secrets:
        texts = (text_of(context, secret, key) for key in ("tls.crt", "ca.crt"))
        try:
            expiries.append(expiry(*texts)._replace(secret=secret))
        except ValueError as error:
            raise Wait("SecretInvalid", f"Secret {secret}: {error}.") from None
    late = min((each.late for each in expiries), default=0.0)
    return min(expiries)._replace(late=late) if expiries else None
