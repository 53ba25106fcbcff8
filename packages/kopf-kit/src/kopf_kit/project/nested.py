"""Generated files that git does not have, as those of examples/memcached.

Only the commands and the tests read them, unless PROJECT says `generated: .`. So they are below
build/, in `Project.built`, with copies of what people wrote for the same folders. `generate` writes
them, and each command and test that reads them calls `ensure` first.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import kopf_runtime
from kopf_kit.project.definition import PROJECT, Project
from kopf_kit.rig import paths, reading, tools
from kopf_kit.rig.run import CommandError, KitError, output

#: The folders in which generated files and those that people write are side by side.
_SHARED = (f"charts/{PROJECT.name}", "olm", "catalog")
#: The file that says from which sources the others were generated.
_STAMP = ".generated-from"


def is_nested(project: Project) -> bool:
    """Return whether the project's generated files are not in its own folder."""
    return project.built != project.root


def ensure(project: Project) -> Project:
    """Generate the files of a nested project, unless they are up to date; return the project."""
    if is_nested(project) and not is_current(project):
        tools.path("helm")  # here, so that the terminal shows that it is built
        try:
            output(
                [sys.executable, "-P", "-m", "kopf_kit", "generate", "--unless-current"],
                cwd=paths.CHECKOUT,
                env={"PROJECT": str(project.root.relative_to(paths.CHECKOUT))},
                timeout=300,
            )
        except CommandError as error:
            _, is_sentence, sentence = error.reason.rpartition("error: ")
            raise (KitError(sentence) if is_sentence else error) from error
    return project


def is_current(project: Project) -> bool:
    """Return whether a project's files were generated from its sources as they are now."""
    stamp = project.built / _STAMP
    return stamp.is_file() and reading.text(stamp) == _sources(project)


@contextlib.contextmanager
def generating() -> Iterator[None]:
    """Hold the lock of PROJECT's folder below build/ in the block that writes it."""
    if not is_nested(PROJECT):
        yield
        return
    with tools.lock(f"generate-{tools.digest(str(PROJECT.built))}"):
        sources = _sources(PROJECT)
        if not paths.BUILD.exists():  # else the author knows of it
            paths.BUILD.mkdir()
            (paths.BUILD / ".gitignore").write_text("*\n")
        yield
        (PROJECT.built / _STAMP).write_text(sources)


def copies() -> dict[Path, str]:
    """Return the author's own files in the folders that also have generated files.

    Two are copied with what is generated in them: `kopf_kit.release.numbered` writes the version
    into Chart.yaml, and `kopf_kit.chart.values` tables into README.md.
    """
    completed = [PROJECT.written_chart / name for name in ("Chart.yaml", "README.md")]
    return {
        PROJECT.built / file.relative_to(PROJECT.root): reading.text(file)
        for folder in _SHARED
        for file in (PROJECT.root / folder).rglob("*")
        if is_nested(PROJECT) and file.is_file() and file not in completed
    }


def leftovers(generated: set[Path]) -> list[Path]:
    """Return PROJECT's files below build/ that are not generated any more."""
    files = PROJECT.built.rglob("*") if is_nested(PROJECT) else ()
    return [
        file
        for file in files
        if file.is_file() and file not in generated and file != PROJECT.built / _STAMP
    ]


def _sources(project: Project) -> str:
    """Return a hash of everything that the files of a nested project are generated from.

    An author's repository has its environment and the generated files themselves in its folder.
    """
    runtime = Path(kopf_runtime.__file__).parent
    entries = sorted(project.root.iterdir())
    ours = (entry for entry in entries if entry.name != "build" and not entry.name.startswith("."))
    return tools.digest(paths.KIT, runtime, *ours)
