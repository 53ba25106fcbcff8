"""What a new repository takes along of this one: the runtime, the tools, and common tests."""

from pathlib import Path

from hack.pack import chart_templates, dockerfile
from hack.pack.project import REFERENCE
from hack.rig import locked, paths
from hack.rig.run import output
from hack.scaffold.answers import Answers

#: Files and folders that are the same there.
SAME = (
    *("operator/kopf_runtime", "operator/bytecode.py", "hack", "tests/projects"),
    *("tests/conftest.py", "tests/chart/helm.py", "tests/chart/pod_security.py"),
    *("tests/bundle/package.py", "tests/support/faults"),
    *(
        f"tests/faults/{name}.py"
        for name in (
            *("conftest", "each"),
            *("test_every_write", "test_replicas", "test_walks", "test_watches"),
        )
    ),
    *("requirements.txt", ".gitignore", "LICENSE", "LICENSES"),
)
#: What of them is about this repository's own operator, or writes new ones.
_LEFT = (
    *(
        f"hack/commands/{name}.py"
        for name in (
            "demo",
            "docs",
            "matrix",
            "new",
            "own_tiers",
            "plugin",
            "sabotage",
        )
    ),
    *(f"hack/pack/{name}.py" for name in ("plugin", "site", "site_text")),
    *(f"hack/pack/reference{part}.py" for part in ("", "_rights", "_tables")),
    "hack/pack/publication/distribution.py",
    "hack/scaffold",
    "tests/projects/test_olm.py",  # it stands on the tests of this repository's own operator
)
#: Where the rig and the pack look for it there.
_REFERENCE = Path("hack", "reference")


def files() -> dict[Path, Path]:
    """Return where each file of the kit is here, by its path in the new repository.

    Git says what there is: nothing that a tool left in a folder goes along.
    """
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    here = filter(None, output(listed, cwd=paths.CHECKOUT).split("\0"))
    same = [
        path
        for path in map(Path, here)
        if _is_in(path, SAME) and not _is_in(path, _LEFT) and (paths.CHECKOUT / path).is_file()
    ]
    made_of = (REFERENCE.root / "PROJECT", dockerfile.FORMER, *chart_templates.sources())
    return {
        **{path: paths.CHECKOUT / path for path in same},
        **{_REFERENCE / file.relative_to(REFERENCE.root): file for file in made_of},
    }


def lock(text: str, answers: Answers) -> str:
    """Return the part of our lock that a new repository needs, as its own `make lock` writes it."""
    askers = ("pyproject.toml", "pyproject.toml:dev", "pyproject.toml:go")
    return locked.part(text, *askers).replace(f"{REFERENCE.name} (", f"{answers.name} (")


def version() -> str:
    """Return what git calls the commit that the kit is taken from."""
    describe = ("git", "describe", "--tags", "--always", "--dirty")
    return output(describe, cwd=paths.CHECKOUT).strip()


def _is_in(path: Path, those: tuple[str, ...]) -> bool:
    """Tell whether a path is one of those, or in a folder of them."""
    return any(path.is_relative_to(one) for one in those)
