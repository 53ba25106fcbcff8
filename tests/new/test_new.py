"""What `make new` writes is a repository that passes its own checks; the tier `new` runs this.

It takes minutes, because the new repository gets a virtual environment of its own.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.make.commands import CHECKOUT, Make
from tests.new.repositories import Repository, kit_in
from tests.support.console import commands

NAME = "cache-operator"
PAGES = ("README.md", "README.ko.md", "docs/verify.md", "docs/verify.ko.md")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A new repository, as an author gets it."""
    folder = tmp_path_factory.mktemp("new") / NAME
    answers = (f"NAME={NAME}", "KIND=Cache", "GROUP=cache.example.com", f"DIR={folder}")
    said = Make(CHECKOUT)("new", *answers, timeout=1500)
    assert "What you edit then" in said
    return Make(folder)


def test_it_passes_its_own_checks_at_once(repository: Make) -> None:
    repository("check", timeout=1700)


@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_a_page_names_what_there_is(repository: Make, page: str) -> None:
    typed = commands((repository.folder / page).read_text())
    files = repository.folder.glob("charts/*/Chart.yaml")
    charts = {f"charts/{file.parent.name}" for file in files}
    images = {NAME, *(f"{NAME}-{part}" for part in ("bundle", "catalog", "release"))}

    for line in typed:
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            repository("--dry-run", *words[1:])
        for manifest in re.findall(r"apply -f (\S+)", line):
            assert (repository.folder / manifest).is_file()
    published = re.findall(r"(?:\$REGISTRY|ghcr\.io/myorg)/([\w/-]+)", "\n".join(typed))
    assert published
    assert set(published) <= charts | images


@pytest.mark.parametrize("page", PAGES)
def test_each_link_of_a_page_leads_to_a_file_that_there_is(repository: Make, page: str) -> None:
    file = repository.folder / page
    links = re.findall(r"\]\((?!https:)([^)#]+)[^)]*\)", file.read_text())

    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_an_edit_of_the_kind_reaches_everything(repository: Make) -> None:
    module = repository.folder / "operator" / "cache_operator" / "operator.py"
    module.write_text(module.read_text().replace("max_length=1024", "max_length=2048"))

    said = repository("generate", "verify", timeout=1500)

    for generated in (
        "charts/cache-operator/templates/crd.yaml",
        "bundle/manifests/cache.example.com_caches.yaml",
        "deploy/crds.yaml",
    ):
        assert f"{generated} written" in said
        assert "maxLength: 2048" in Path(repository.folder, generated).read_text()


def test_an_edit_of_the_sample_reaches_everything(repository: Make) -> None:
    sample = repository.folder / "examples" / "sample.yaml"
    sample.write_text(sample.read_text().replace("Hello!", "Good morning!"))

    repository("generate", "verify", timeout=1500)

    for shown, times in (
        ("charts/cache-operator/Chart.yaml", 1),
        ("charts/cache-operator/templates/_sample.tpl", 1),
        # The description, the examples, and the one that the console offers first.
        ("bundle/manifests/cache-operator.clusterserviceversion.yaml", 3),
    ):
        text = Path(repository.folder, shown).read_text()
        assert (text.count("Good morning!"), text.count("Hello!")) == (times, 0), shown


def test_a_newer_kit_reaches_everything(repository: Make, tmp_path: Path) -> None:
    Repository(repository.folder).begin()
    kit = kit_in(tmp_path / "kit")
    template = "templates/service.yaml"
    kit.edit(f"charts/message-operator/{template}", "kind: Service", "# newer\nkind: Service")

    said = repository("kit-update", f"FROM={kit.folder}", timeout=1500)

    assert f"hack/reference/charts/message-operator/{template} updated" in said
    assert f"charts/cache-operator/{template} written" in said
    repository("verify", timeout=1500)
