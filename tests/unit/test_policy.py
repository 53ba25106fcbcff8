"""The page of the policy names the versions that the project is built and tested with."""

import re
from pathlib import Path

import pytest

from kopf_kit.release import changelog
from kopf_kit.rig import dockerfiles, versions
from kopf_kit.rig.paths import CHECKOUT

PAGES = ("policy.md", "policy.ko.md")


def column(page: str) -> dict[str, str]:
    """Return the versions that a page names, by the first column of its table of them."""
    text = (CHECKOUT / "docs" / page).read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    return {name: value for name, value in rows if re.search(r"\d", value)}


@pytest.mark.parametrize("page", PAGES)
def test_the_versions_are_those_that_are_tested(page: str) -> None:
    kubernetes, helm, olm, images, python = column(page).values()

    assert re.findall(r"[\d.]+", kubernetes) == [versions.OLDEST, versions.NEWEST]
    assert re.search(rf"(from |, ){next(iter(versions.NODES))}( on|부터는)", text_of(page))
    (oldest, _), (_, below) = versions.FITTING["helm3"], versions.FITTING["helm4"]
    assert re.findall(r"[\d.]+", helm) == [".".join(map(str, oldest)), str(below[0] - 1)]
    assert olm == versions.OLM
    assert images == ", ".join(dockerfiles.SUPPORTED)
    project = (CHECKOUT / "pyproject.toml").read_text()
    assert f'requires-python = ">={python.split()[0]}"' in project


@pytest.mark.parametrize("page", PAGES)
def test_the_headings_that_it_promises_are_those_of_the_changelog(page: str) -> None:
    promised = set(re.findall(r'"([A-Z][\w ]+)"', re.sub(r"\s+", " ", text_of(page))))

    template = Path(changelog.__file__).with_suffix(".toml").read_text()
    assert promised == {"Before you upgrade", "Deprecated"}
    assert all(f"\n### {heading}\n" in template for heading in promised)


def text_of(page: str) -> str:
    return (CHECKOUT / "docs" / page).read_text()
