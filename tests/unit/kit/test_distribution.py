"""The runtime's Python package, for operators in repositories of their own."""

import re
from pathlib import Path

from kopf_kit.pack.publication import distribution
from kubectl_message.knowledge.entry import HOME
from message_operator import __version__

CHECKOUT = Path(__file__).parents[3]


def test_its_readme_leads_to_the_files_of_its_version() -> None:
    home = f"{HOME}/blob/v{__version__}/"

    links = re.findall(r"\]\(([^)\s]+)\)", distribution.readme())

    assert f"{home}docs/reliability.md" in links
    assert [link for link in links if not link.startswith("https://")] == []
    files = [link.removeprefix(home).partition("#")[0] for link in links if link.startswith(home)]
    assert [file for file in files if not (CHECKOUT / file).exists()] == []
