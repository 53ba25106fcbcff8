"""The keys of a release, and what is signed and attested with them; by cosign, without internet.

cosign writes to no transparency log and requests no certificate: the public key alone is enough to
verify. It does not sign again what is signed already. Used by `hack.commands.release`.
"""

import os
import tempfile
from pathlib import Path

from hack.pack.project import REFERENCE
from hack.rig import golang, oci
from hack.rig.run import HackError, output

#: The variable that has the passphrase of both keys; cosign reads it itself.
PASSPHRASE = "COSIGN_PASSWORD"  # noqa: S105 -- the variable's name

# Both are needed: https://github.com/sigstore/cosign/issues/5043
_OFFLINE = ("--use-signing-config=false", "--tlog-upload=false")
_SECONDS = 300


class Keys:
    """The folder of the keys; the private ones are encrypted with one passphrase."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Of cosign: it signs all that is in the registry.
        self.private, self.public = folder / "cosign.key", folder / "cosign.pub"
        #: Of OpenPGP: they sign the charts as Helm checks them.
        self.charts_private, self.charts_public = folder / "charts.key", folder / "charts.gpg"

    @property
    def owner(self) -> str:
        """Whom the charts' key names."""
        return f"The {REFERENCE.name} maintainers"

    def make(self) -> None:
        """Make the keys; raise HackError where the folder has some."""
        if self.folder.exists() and any(self.folder.iterdir()):
            raise HackError(f"{self.folder} is not empty; name another folder with KEYS=")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        passphrase = {PASSPHRASE: os.environ.get(PASSPHRASE, "")}
        cosign, pgp = golang.programs(["cosign", "pgp-key"])
        output([cosign, "generate-key-pair"], cwd=self.folder, env=passphrase)
        email = f"{REFERENCE.name}@{REFERENCE.domain}"
        output([pgp, self.owner, email, self.folder], env=passphrase)

    def check(self) -> None:
        """Raise HackError where a key is missing, or the passphrase does not open them."""
        every = (self.private, self.public, self.charts_private, self.charts_public)
        if missing := [file.name for file in every if not file.is_file()]:
            raise HackError(
                f"{self.folder} lacks {', '.join(missing)}; `make release-keys` makes the keys, "
                "and KEYS= names the folder that has yours"
            )
        passphrase = {PASSPHRASE: os.environ.get(PASSPHRASE, "")}
        try:
            said = _cosign("public-key", "--key", self.private, env=passphrase)
        except HackError as error:
            raise HackError(
                f"the passphrase in {PASSPHRASE} does not open {self.private}; set that variable "
                "to the one that the key was made with"
            ) from error
        if said.strip() != self.public.read_text().strip():
            raise HackError(f"{self.public} is not the public key of {self.private}; replace it")

    def fingerprint(self) -> str:
        """Return the fingerprint of the charts' key, as Artifact Hub shows it."""
        pgp = golang.program("pgp-key")
        return output([pgp, "--fingerprint", self.charts_public]).strip()


def sign(keys: Keys, ref: str) -> None:
    """Sign what a registry has by its digest, and each image that an index lists.

    cosign would sign them all at once, the index first: a release that ends in between would not
    find out what is left.
    """
    if unsigned := [each for each in (ref, *oci.listed(ref)) if not signed(keys, each)]:
        _cosign(
            *("sign", "--yes", "--key", keys.private, *_OFFLINE),
            *("--allow-http-registry", *unsigned),
        )


def signed(keys: Keys, ref: str) -> bool:
    """Tell whether something in a registry is signed with the key, apart from what it lists."""
    return _verifies("verify", "--key", keys.public, "--allow-http-registry", ref)


def attest(keys: Keys, ref: str, kind: str, predicate: str) -> None:
    """State something of what a registry has by its digest; a kind of statement is made once."""
    if _verifies(
        *("verify-attestation", "--key", keys.public, "--type", kind),
        *("--allow-http-registry", ref),
    ):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(predicate)
        file.flush()
        _cosign(
            *("attest", "--yes", "--key", keys.private, *_OFFLINE, "--allow-http-registry"),
            *("--type", kind, "--predicate", file.name, ref),
        )


def sign_file(keys: Keys, file: Path) -> Path:
    """Sign a file; return the signature, which lies beside it."""
    bundle = file.with_name(f"{file.name}.sigstore.json")
    known = ("verify-blob", "--key", keys.public, "--bundle", bundle, file)
    if not (bundle.is_file() and _verifies(*known)):
        _cosign("sign-blob", "--yes", "--key", keys.private, *_OFFLINE, "--bundle", bundle, file)
    return bundle


def _verifies(command: str, *arguments: str | Path) -> bool:
    try:
        _cosign(command, "--insecure-ignore-tlog=true", *arguments)
    except HackError as error:
        if _is_refusal(str(error)):
            return False
        raise
    return True


def _is_refusal(said: str) -> bool:
    """Tell whether cosign found no signature that fits, rather than no registry."""
    return any(
        sentence in said
        for sentence in ("no signatures found", "no matching", "invalid signature", "none of the")
    )


def _cosign(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
    return output([golang.program("cosign"), *arguments], timeout=_SECONDS, env=env)
