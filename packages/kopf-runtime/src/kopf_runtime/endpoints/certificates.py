"""Makes the certificate of the webhooks, keeps it in a Secret, and rotates it.

Every replica does the same, with or without the Lease, because nothing can be served before there
is a certificate; a write to the Secret that comes second is refused. The API server trusts the
certificates in the `caBundle` of the CRDs and of the webhook configurations. So a new certificate
first waits in the Secret until all of them trust both it and the former one, and is served then.
"""

import asyncio
import base64
import logging
import random
import ssl
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kopf_runtime.cluster.client import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Client
from kopf_runtime.cluster.tls import file_of
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.errors import ApiError, Backoff
from kopf_runtime.declaring.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Kind,
)
from kopf_runtime.declaring.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds that a certificate is valid, and of them those in which it is replaced.
LIFE, RENEW = 90 * 86400.0, 30 * 86400.0
#: Seconds before its making from which it is valid, as the API servers' clocks may differ.
SKEW = 3600.0
#: Seconds between two looks at the Secret, and at those that are to trust it.
LOOK, TRUST = 10.0, 60.0
#: Seconds for which a new certificate waits, until each API server has seen what trusts it.
TRUST_SETTLES = 30.0
#: Certificates that are trusted: the former one, the present one and the next.
_TRUSTED = 3
_CA, _CERTIFICATE, _KEY, _NEXT = "ca.crt", "tls.crt", "tls.key", "next.pem"
_END = b"-----END CERTIFICATE-----\n"


class Certificates:
    """The certificate of the webhooks' service; `context` serves it once there is one."""

    def __init__(
        self, client: Client, settings: Settings, webhooks: Iterable[Webhook], crds: Iterable[Kind]
    ) -> None:
        from cryptography import x509  # noqa: F401 (tells early that it is not installed)

        self._client, self._settings = client, settings
        self._secret = SECRET.path(settings.own_namespace, settings.webhook_secret)
        #: What the API server asks at: others may convert the same kind, such as another release.
        self._service = settings.own_namespace, settings.webhook_service
        service = f"{settings.webhook_service}.{settings.own_namespace}.svc"
        self._names = [service, f"{service}.cluster.local"]
        #: What is to trust it: kinds, names, and those of their webhooks.
        self._trusting = [(CUSTOM_RESOURCE_DEFINITION, str(kind), [""]) for kind in crds]
        for kind, which in (
            (VALIDATING_WEBHOOK_CONFIGURATION, "validating"),
            (MUTATING_WEBHOOK_CONFIGURATION, "mutating"),
        ):
            names = [webhook.name for webhook in webhooks if webhook.kind == which]
            if names and settings.webhook_configuration:
                self._trusting.append((kind, settings.webhook_configuration, names))
        self._data: dict[str, bytes] = {}  # what is served
        self._newest: ssl.SSLContext | None = None
        self._bundle, self._look_again = b"", 0.0
        #: Why the API server cannot ask yet; empty as soon as it could once.
        self.untrusted = "the certificate of the webhooks is not trusted yet"
        self._logged: set[str] = set()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        if self._newest is not None:  # else the handshake fails, as there is no certificate
            connection.context = self._newest

    async def run(self) -> None:
        """Keep the certificate and those that trust it up to date."""
        backoff, logged = Backoff(), ""
        while True:
            try:
                pause = await self._step()
                backoff.reset()
                logged = ""
            except (ApiError, ValueError) as error:
                pause = backoff.next()
                if (text := str(error)) != logged and getattr(error, "status", 0) != 409:
                    logged = text
                    logger.warning(
                        "The certificate of the webhooks cannot be looked after: %s", text
                    )
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311

    async def _step(self) -> float:
        """Look at the Secret, and take one step; return the seconds until the next one."""
        secret = await self._find(self._secret)
        data = _decoded(secret or {})
        version = (secret or {}).get("metadata", {}).get("resourceVersion", "")
        if not self._serve(data):
            if secret is not None:
                logger.warning(
                    "Secret %s has no usable %s and %s; they are made again",
                    self._settings.webhook_secret,
                    _CERTIFICATE,
                    _KEY,
                )
            # Who serves has what the API server trusts.
            await self._write(self._data or self._generate(await self._trusted()), version)
            return 0.0
        await self._trust(data[_CA])
        if waiting := _pair(data.get(_NEXT, b"")):
            await asyncio.sleep(TRUST_SETTLES)
            await self._write({_CA: data[_CA], **waiting}, version)
            logger.info("Serving the webhooks with a new certificate")
            return 0.0
        if self._due(data[_CERTIFICATE]):
            new = self._generate(data[_CA])
            new[_NEXT] = new[_KEY] + new[_CERTIFICATE]
            await self._write(new | {name: data[name] for name in (_CERTIFICATE, _KEY)}, version)
            return 0.0
        return LOOK

    # --- the Secret -------------------------------------------------------------------------------

    async def _find(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._client.ask("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, data: Mapping[str, bytes], version: str) -> None:
        """Write the Secret as it was read at a version; the error has status 409 if it has changed.

        A new one is applied, not posted, because a role can restrict that to a name. Each replica
        does so as another manager, so the second one is refused.
        """
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        metadata = {
            "name": self._settings.webhook_secret,
            "namespace": self._settings.own_namespace,
        }
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
        if not version:
            await self._client.ask(
                "PATCH",
                self._secret,
                body,
                content_type=APPLY_PATCH,
                query=f"fieldManager={self._settings.identity[-128:]}",
                fenced=False,
            )
            return
        changes = {"metadata": {"resourceVersion": version}, "data": {_NEXT: None} | encoded}
        await self._client.ask(
            "PATCH", self._secret, changes, content_type=MERGE_PATCH, fenced=False
        )

    def _serve(self, data: dict[str, bytes]) -> bool:
        """Serve with what the Secret holds; return whether that is possible."""
        pair = {name: data.get(name, b"") for name in (_CA, _CERTIFICATE, _KEY)}
        if pair == {name: self._data.get(name) for name in pair}:
            return True
        context = _loaded(pair[_KEY] + pair[_CERTIFICATE])
        if context is None or not _issued(pair[_CERTIFICATE], pair[_CA]):
            return False
        self._newest, self._data = context, pair
        return True

    # --- those that trust it ----------------------------------------------------------------------

    async def _trusted(self) -> bytes:
        """Return what the API server trusts now: other replicas may still serve with it."""
        askers = [await self._asker(kind, name) for kind, name, _ in self._trusting]
        bundles = [bundle for asker in askers if asker for bundle in self._asking(asker).values()]
        return b"".join(dict.fromkeys(part for bundle in bundles for part in _split(bundle)))

    async def _trust(self, bundle: bytes) -> None:
        """Make the existing CRDs and webhook configurations trust these certificates."""
        if time.monotonic() < self._look_again and self._bundle == bundle:
            return
        complete, missing, failed = True, "", None
        for kind, name, names in self._trusting:
            crd = kind is CUSTOM_RESOURCE_DEFINITION
            try:
                if not await self._write_trust(kind, name, names, bundle):
                    complete = False
                    # A configuration is installed after the Deployment, and a CRD before it.
                    missing = missing if crd else f"{kind.kind} {name} has no webhook of ours yet"
            except ApiError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        self._bundle, self._look_again = bundle, time.monotonic() + TRUST * complete
        self.untrusted = missing and self.untrusted and missing

    async def _write_trust(self, kind: Kind, name: str, names: list[str], bundle: bytes) -> bool:
        """Make one of them trust the bundle; return whether all its webhooks do now."""
        asker = await self._asker(kind, name) or {}
        asking = {hook: trusted for hook, trusted in self._asking(asker).items() if hook in names}
        crd = kind is CUSTOM_RESOURCE_DEFINITION
        if any(trusted != bundle for trusted in asking.values()):
            # No apply: nobody else could take out a webhook of which we own a part.
            client = {"clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}
            part: dict[str, Any] = {"webhooks": [{"name": hook, **client} for hook in asking]}
            if crd:
                part = {"spec": {"conversion": {"webhook": client}}}
            part["metadata"] = {"resourceVersion": asker["metadata"]["resourceVersion"]}
            await self._client.ask(
                "PATCH",
                kind.path(name=name),
                part,
                fenced=False,
                content_type=MERGE_PATCH if crd else STRATEGIC_PATCH,
                query=f"fieldManager={self._client.manager}-certificates",
            )
        if crd and asker and not asking:
            self._warn_once(f"{name} is converted by somebody else, or not at all, and left alone")
        return len(asking) == len(names)

    async def _asker(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Return the CRD or configuration; None if it does not exist, or is not ours to change."""
        try:
            return await self._find(kind.path(name=name))
        except ApiError as error:
            crd = kind is CUSTOM_RESOURCE_DEFINITION
            if error.status != 403 or not crd or not self._settings.namespaces:
                raise
        self._warn_once(
            f"{name} is left to those who install it, as this operator has no right to it: they "
            f"write {_CA} of the Secret {self._settings.webhook_secret} into its "
            "spec.conversion.webhook.clientConfig.caBundle"
        )
        return None

    def _asking(self, asker: dict[str, Any]) -> dict[str, bytes]:
        """Return the trusted certificates of each webhook in an object that calls our Service."""
        return {
            name: _decode(client.get("caBundle", ""))
            for name, client in _clients(asker).items()
            if (service := client.get("service"))
            and (service["namespace"], service["name"]) == self._service
        }

    def _warn_once(self, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            logger.warning("%s", text)

    # --- certificates -----------------------------------------------------------------------------

    def _due(self, certificate: bytes) -> bool:
        from cryptography import x509

        leaf = x509.load_pem_x509_certificate(certificate)
        try:
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return True
        if names.get_values_for_type(x509.DNSName) != self._names:
            return True
        return leaf.not_valid_after_utc.timestamp() - self._client.now() < RENEW

    def _generate(self, trusted: bytes) -> dict[str, bytes]:
        """Return a new certificate with its key, and what to trust: the latest former ones, too.

        Its authority signs nothing else, because the key of that is not kept.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        now = datetime.fromtimestamp(self._client.now(), UTC)
        root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = _name(f"{self._client.manager} {x509.random_serial_number():x}"[-60:])

        def signed(subject: x509.Name, own: Any, extensions: Iterable[Any]) -> bytes:
            builder = x509.CertificateBuilder(
                issuer,
                subject,
                own.public_key(),
                x509.random_serial_number(),
                now - timedelta(seconds=SKEW),
                now + timedelta(seconds=LIFE),
            )
            for extension, critical in extensions:
                builder = builder.add_extension(extension, critical)
            certificate = builder.sign(root, hashes.SHA256())
            return certificate.public_bytes(serialization.Encoding.PEM)

        ca = signed(issuer, root, [(x509.BasicConstraints(ca=True, path_length=0), True)])
        alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in self._names])
        usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        leaf = signed(_name("webhooks"), key, [(alternative, False), (usage, False)])
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        bundle = b"".join([*_split(trusted)[1 - _TRUSTED :], ca])
        return {_CA: bundle, _CERTIFICATE: leaf, _KEY: private}


def _name(text: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _clients(asker: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the clients of an object's webhooks by name; a conversion's has no name."""
    conversion = asker.get("spec", {}).get("conversion", {}).get("webhook")
    webhooks = [{"name": "", **conversion}] if conversion else asker.get("webhooks", [])
    return {webhook["name"]: webhook["clientConfig"] for webhook in webhooks}


def _decoded(secret: dict[str, Any]) -> dict[str, bytes]:
    return {name: _decode(value) for name, value in (secret.get("data") or {}).items()}


def _decode(text: str) -> bytes:
    return base64.b64decode(text or "")


def _split(bundle: bytes) -> list[bytes]:
    """Return the certificates of a bundle that can be read."""
    from cryptography import x509

    certificates = []
    for part in bundle.split(_END)[:-1]:
        try:
            x509.load_pem_x509_certificate(part + _END)
        except ValueError:
            continue
        certificates.append(part + _END)
    return certificates


def _issued(certificate: bytes, bundle: bytes) -> bool:
    from cryptography import exceptions, x509

    leaf = x509.load_pem_x509_certificate(certificate)
    for authority in _split(bundle):
        try:
            leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        except (ValueError, TypeError, exceptions.InvalidSignature):
            continue
        return True
    return False


def _pair(pem: bytes) -> dict[str, bytes]:
    """Return a key and its certificate from both in one text; empty if they are not usable."""
    key, begin, certificate = pem.partition(b"-----BEGIN CERTIFICATE-----")
    return {_KEY: key, _CERTIFICATE: begin + certificate} if pem and _loaded(pem) else {}


def _loaded(pem: bytes) -> ssl.SSLContext | None:
    """Return a context that serves with a key and its certificate; None if they are not usable."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        with file_of(pem) as file:
            context.load_cert_chain(file, password="")
    except OSError:
        return None
    return context
