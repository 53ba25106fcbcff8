"""The project's home, registry and contact: PROJECT has them, and every other file repeats them.

`make generate` replaces what the chart and `olm/csv.yaml` still say by what PROJECT says.
"""

import re
import subprocess
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from kopf_kit.project import documents
from kopf_kit.rig import paths

KEY = "home.myorg.dev/v1"
CHART = "charts/message-operator/Chart.yaml"


#: A record of a release, which never changes, names its bundle by the digest.
_RELEASED = re.compile(r"^image: \S+@sha256:", re.MULTILINE)


@dataclass(frozen=True)
class Home:
    """Where the project is, and who maintains it."""

    #: The repository's page, such as https://github.com/OWNER/NAME.
    page: str
    maintainers: str
    email: str

    @property
    def registry(self) -> str:
        """Where the images and charts are, by the kit's rule."""
        return f"ghcr.io/{self.page.split('/')[3].lower()}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """All texts that contain it; in the same order for each home."""
        host, _, path = self.page.removeprefix("https://").partition("/")
        owner, _, name = path.rpartition("/")
        raw = f"{self.page}/-/raw/main"
        if host == "github.com":
            raw = f"https://raw.githubusercontent.com/{owner}/{name}/main"
        images = self.registry, f"{self.registry.removeprefix('ghcr.io/')}/message-operator"
        teams = f"@{owner}/{name}-", f"https://{host}/{owner}?tab=packages", f"reviewers: [{owner}]"
        return *astuple(self), raw, *images, *teams


def declared(checkout: Path = paths.CHECKOUT) -> Home:
    """Return what PROJECT says."""
    return Home(**_yaml(checkout / "PROJECT")["plugins"][KEY])


def former(checkout: Path = paths.CHECKOUT) -> Home:
    """Return what the other files say."""
    chart, version = _yaml(checkout / CHART), _yaml(checkout / "olm/csv.yaml")["spec"]
    (maintainer,) = version["maintainers"]
    return Home(chart["home"], maintainer["name"], maintainer["email"])


def write(checkout: Path = paths.CHECKOUT) -> None:
    """Replace the former home in all files that git has by the declared one."""
    words = dict(zip(former(checkout).spellings, declared(checkout).spellings, strict=True))
    # A single pass, so that no replacement is replaced again; the longest first.
    longest = sorted(map(re.escape, words), key=len, reverse=True)
    pattern = re.compile("|".join(longest))
    # What is written last says what the former home was, should this be interrupted.
    last = {checkout / CHART, checkout / "olm/csv.yaml"}
    for file in sorted(files(checkout), key=last.__contains__):
        text = file.read_text(encoding="utf-8")
        if _RELEASED.search(text) and file.parent.name == "bundles":
            continue
        replaced = pattern.sub(lambda match: words[match[0]], text)
        if replaced != text:
            file.write_text(replaced, encoding="utf-8")


def files(checkout: Path = paths.CHECKOUT) -> list[Path]:
    """Return the texts that git has, without links and pictures."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=checkout, check=True, capture_output=True, text=True
    )
    named = (checkout / name for name in listed.stdout.split("\0") if name)
    return [file for file in named if file.is_file() and not file.is_symlink() and _is_text(file)]


def _is_text(file: Path) -> bool:
    return b"\0" not in file.read_bytes()[:8000]


def _yaml(file: Path) -> Any:
    return documents.load(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write()
