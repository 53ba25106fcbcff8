"""Who signs a release, and what is signed and attested in that name, by cosign.

`Keys` sign without internet: cosign writes to no transparency log and requests no certificate, so
the public key alone is enough to verify. `Workflow` signs without keys, as the workflow of GitHub
that runs. Nothing is signed again that is signed already. Used by `kopf_kit.cli.release`.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kopf_kit.rig import registry, tools
from kopf_kit.rig.run import Argument, KitError, output

#: The variable that has the passphrase of the keys; cosign reads it itself.
PASSPHRASE = "COSIGN_PASSWORD"  # noqa: S105 -- the variable's name

# Both are needed: https://github.com/sigstore/cosign/issues/5043
_OFFLINE = ("--use-signing-config=false", "--tlog-upload=false")
_SECONDS = 300


class Signer(Protocol):
    """Who signs a release."""

    @property
    def signing(self) -> Sequence[Argument]:
        """The options that cosign signs with."""
        ...

    @property
    def verifying(self) -> Sequence[Argument]:
        """The options that cosign verifies with."""
        ...

    @property
    def public(self) -> Sequence[Path]:
        """The files that a release publishes, for those who verify it."""
        ...

    def check(self) -> None:
        """Raise KitError where nothing can be signed."""
        ...


class Workflow:
    """The running workflow of GitHub: cosign gets a certificate in its name, and needs no key.

    https://docs.sigstore.dev/cosign/signing/overview
    """

    signing: Sequence[Argument] = ()
    public: Sequence[Path] = ()

    @property
    def verifying(self) -> Sequence[Argument]:
        """The options that cosign verifies with."""
        server, workflow = (os.environ[f"GITHUB_{name}"] for name in ("SERVER_URL", "WORKFLOW_REF"))
        issuer = "https://token.actions.githubusercontent.com"
        return (
            f"--certificate-identity={server}/{workflow}",
            f"--certificate-oidc-issuer={issuer}",
        )

    def check(self) -> None:
        """Do nothing: GitHub gives a token whenever it is asked for one."""


class Keys:
    """The folder of cosign's keys; the private one is encrypted with a passphrase."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.private, self.cosign_public = folder / "cosign.key", folder / "cosign.pub"
        self.signing: Sequence[Argument] = ("--key", self.private, *_OFFLINE)
        self.verifying: Sequence[Argument] = (
            *("--key", self.cosign_public, "--insecure-ignore-tlog=true"),
        )
        self.public: Sequence[Path] = (self.cosign_public,)

    def make(self) -> None:
        """Make the keys; raise KitError where the folder has some."""
        if self.folder.exists() and any(self.folder.iterdir()):
            raise KitError(f"{self.folder} is not empty; name another folder with KEYS=")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        passphrase = {PASSPHRASE: os.environ.get(PASSPHRASE, "")}
        output([tools.path("cosign"), "generate-key-pair"], cwd=self.folder, env=passphrase)

    def check(self) -> None:
        """Raise KitError where a key is missing, or the passphrase does not open them."""
        if missing := [
            file.name for file in (self.private, self.cosign_public) if not file.is_file()
        ]:
            raise KitError(
                f"{self.folder} lacks {', '.join(missing)}; `kopf-kit release keys` makes them, "
                "and KEYS= names the folder that has yours"
            )
        passphrase = {PASSPHRASE: os.environ.get(PASSPHRASE, "")}
        try:
            printed = _cosign("public-key", "--key", self.private, env=passphrase)
        except KitError as error:
            raise KitError(
                f"the passphrase in {PASSPHRASE} does not open {self.private}; set that variable "
                "to the one that the key was made with"
            ) from error
        if printed.strip() != self.cosign_public.read_text().strip():
            raise KitError(
                f"{self.cosign_public} is not the public key of {self.private}; replace it"
            )


def sign(signer: Signer, ref: str) -> None:
    """Sign what a registry has by its digest, and each image that an index lists.

    cosign would sign them all at once, the index first: a release that ends in between would not
    find out what is left.
    """
    if unsigned := [image for image in (ref, *registry.listed(ref)) if not signed(signer, image)]:
        _cosign("sign", "--yes", *signer.signing, "--allow-http-registry", *unsigned)


def signed(signer: Signer, ref: str) -> bool:
    """Tell whether something in a registry is signed, apart from what it lists."""
    return _verifies("verify", *signer.verifying, "--allow-http-registry", ref)


def attest(signer: Signer, ref: str, kind: str, predicate: str) -> None:
    """State something of what a registry has by its digest; a kind of statement is made once."""
    options = ("--type", kind, "--allow-http-registry")
    if _verifies("verify-attestation", *signer.verifying, *options, ref):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(predicate)
        file.flush()
        _cosign("attest", "--yes", *signer.signing, *options, "--predicate", file.name, ref)


def sign_file(signer: Signer, file: Path) -> Path:
    """Sign a file; return the signature, which lies beside it."""
    bundle = file.with_name(f"{file.name}.sigstore.json")
    options: Sequence[Argument] = ("--bundle", bundle, file)
    if not (bundle.is_file() and _verifies("verify-blob", *signer.verifying, *options)):
        _cosign("sign-blob", "--yes", *signer.signing, *options)
    return bundle


def _verifies(*arguments: Argument) -> bool:
    try:
        _cosign(*arguments)
    except KitError as error:
        if _is_refusal(str(error)):
            return False
        raise
    return True


def _is_refusal(message: str) -> bool:
    """Tell whether cosign found no signature that fits, rather than no registry."""
    return any(
        sentence in message
        for sentence in ("no signatures found", "no matching", "invalid signature", "none of the")
    )


def _cosign(*arguments: Argument, env: dict[str, str] | None = None) -> str:
    return output([tools.path("cosign"), *arguments], timeout=_SECONDS, env=env)
