"""A release is signed with keys, or without any by the workflow of GitHub that runs it."""

from pathlib import Path

import pytest

from kopf_kit.cli import release
from kopf_kit.release.signatures import Keys, Workflow


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the variables that GitHub sets for a job that may ask for a token."""
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of this job")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    ref = "example/notes-operator/.github/workflows/release.yaml@refs/tags/v1.2.3"
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", ref)
    monkeypatch.delenv("KEYS", raising=False)


@pytest.mark.usefixtures("workflow")
def test_a_workflow_that_may_ask_for_a_token_signs_in_its_own_name() -> None:
    signer = release.signer()

    assert isinstance(signer, Workflow)
    assert signer.verifying == (
        "--certificate-identity=https://github.com/example/notes-operator/.github/workflows/"
        "release.yaml@refs/tags/v1.2.3",
        "--certificate-oidc-issuer=https://token.actions.githubusercontent.com",
    )
    assert "--key" not in signer.signing


@pytest.mark.usefixtures("workflow")
def test_keys_that_are_named_are_taken_there_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEYS", str(tmp_path))

    signer = release.signer()

    assert isinstance(signer, Keys)
    assert signer.folder == tmp_path


def test_elsewhere_the_keys_of_the_checkout_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEYS", raising=False)
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)

    assert isinstance(release.signer(), Keys)
