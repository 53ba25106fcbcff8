"""`kopf-kit release hubs x.y.z`: offers a release to the two hubs of operators.

    GH_TOKEN=… FORKS=you REGISTRY=registry.example.com/you kopf-kit release hubs 0.2.0

lays out what the hubs take (`kopf-kit release bundle`), pushes it to a branch of each hub's fork in
the account FORKS, and opens a pull request with `gh`, GitHub's own program. The command can be
repeated: it brings the branch up to date, and opens no second pull request.
"""

import os
import shutil
import tempfile
from pathlib import Path

import click

from kopf_kit.commands import release_bundle, release_page
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.release_folder import HUBS
from kopf_kit.rig.run import Argument, HackError, output
from kopf_kit.rig.steps import say, step

#: Where the repositories are; a folder in the tests.
GITHUB = "https://github.com"
_SECONDS = 600
#: Git asks `gh` for the password, which is the token.
_LOGIN = ("-c", "credential.helper=", "-c", "credential.helper=!gh auth git-credential")


@click.command()
@click.argument("version")
def command(version: str) -> None:
    """Open a pull request with a release in the repository of each hub of operators."""
    offer(version)


def offer(version: str) -> None:
    """Open the pull requests; raise HackError where something is missing, or GitHub refuses."""
    gh, forks = release_page.program(), os.environ.get("FORKS")
    if not forks:
        raise HackError(
            f"FORKS is not set; name the account of GitHub that has forks of {' and '.join(HUBS)}"
        )
    release_bundle.lay_out_release(version)
    title = f"operator {PROJECT.name} ({version})"
    branch = f"{PROJECT.name}-{version}"
    for hub, repository in HUBS.items():
        with step(f"Pull request in {repository}"), tempfile.TemporaryDirectory() as scratch:
            pushed = _push(hub, repository, f"{forks}/{hub}", branch, title, Path(scratch))
            to = ("--repo", repository)
            listed = _run(gh, "pr", "list", *to, "--head", branch, "--json", "url")
            if pushed and listed.strip() in ("", "[]"):
                about = ("--head", f"{forks}:{branch}", "--title", title, "--body", title)
                _run(gh, "pr", "create", *to, *about)
        say(f"{repository} has the pull request {title}" if pushed else f"{repository} has it")


def _push(hub: str, repository: str, fork: str, branch: str, title: str, clone: Path) -> bool:
    """Push the operator's files to a branch of the fork; return whether the hub lacks them."""
    ours = f"operators/{PROJECT.name}"

    def git(*arguments: Argument) -> str:
        return _run("git", *_LOGIN, "-C", clone, *arguments)

    # The hubs' repositories are large: only our own operator's files are fetched.
    shallow = ("--depth=1", "--filter=blob:none", "--sparse")
    git("clone", "--quiet", *shallow, f"{GITHUB}/{repository}", ".")
    git("sparse-checkout", "set", ours)
    shutil.copytree(release_bundle.FOLDER / hub / ours, clone / ours, dirs_exist_ok=True)
    git("add", "--all", ours)
    if not git("status", "--porcelain"):
        return False
    git("commit", "--quiet", "--signoff", "--message", title)
    git("push", "--quiet", "--force", f"{GITHUB}/{fork}", f"HEAD:refs/heads/{branch}")
    return True


def _run(*command: Argument) -> str:
    return output(command, timeout=_SECONDS)
