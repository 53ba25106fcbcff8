"""`kopf-kit release x.y.z`: the whole of a release, in one command, or one step of it; and `bump`.

`kopf-kit bump x.y.z` raises the version, and `kopf-kit generate` then writes it everywhere.
"""

import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from kopf_kit.chart import templates
from kopf_kit.image import build
from kopf_kit.olm import catalog
from kopf_kit.program import Entry, Program
from kopf_kit.project import releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME, Release, current, in_registry
from kopf_kit.release import artifacts, charts, files, numbered, signatures
from kopf_kit.release.signatures import Keys, Signer, Workflow
from kopf_kit.release.submission import HUBS, lay_out, problems
from kopf_kit.rig import engine, paths, reading, registry
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import say, step

_CSV = PROJECT.root / "olm" / "csv.yaml"


@click.command()
@click.argument("version")
def bump_command(version: str) -> None:  # noqa: D103 (the program has its help)
    bump(version)


def bump(version: str) -> None:
    """Write the version, its date, today, and the runbooks.

    Raise KitError if the version cannot follow, or an earlier release is not recorded.
    """
    check(version)
    catalog.check_records(version)
    today = f"{datetime.now(UTC):%Y-%m-%d}T00:00:00Z"
    texts = {
        **(_adopted(version, today) if PROJECT.adopted else _own(version, today)),
        PROJECT.root / templates.RUNBOOKS: templates.runbooks(),
        **(files.raised(version) if PROJECT.root == paths.CHECKOUT else {}),
    }
    with reading.all_or_none() as write:
        for file, text in texts.items():
            write(file, text)
    for file in texts:
        print(f"{file.relative_to(paths.CHECKOUT)} written")
    if version == PROJECT.version:
        say(f"{version} is checked out already: only its date changes, to {today[:10]}")


def check(version: str, current: str = PROJECT.version) -> None:
    """Raise KitError if a version cannot follow the one that is checked out."""
    if not version:
        raise KitError(f"the version is missing; give one, for example {_next(current)}")
    try:
        order = catalog.order(version)
    except KitError as error:
        leave_out = "; leave out the v" if version.startswith("v") else ""
        raise KitError(f"{error}{leave_out}") from error
    if order < catalog.order(current):
        raise KitError(
            f"{version} is older than {current}, which is checked out: versions only go up; give "
            f"for example {_next(current)}"
        )
    if version in catalog.known():
        raise KitError(
            f"{version} is released ({catalog.file(version)} in catalog/ records it), and a "
            f"release cannot change; give for example {_next(version)}"
        )


def _next(version: str) -> str:
    major, minor, patch = version.partition("-")[0].split(".")
    return f"{major}.{minor}.{int(patch) + ('-' not in version)}"


def _own(version: str, today: str) -> dict[Path, str]:
    """Return the files with the version and the day of an operator on the runtime."""
    file = PROJECT.version_file
    texts = {file: _replaced(file, {r'^__version__ = ".*"$': f'__version__ = "{version}"'})}
    if PROJECT.has_olm:
        texts[_CSV] = _replaced(_CSV, {r'^    createdAt: ".*"$': f'    createdAt: "{today}"'})
    return texts


def _adopted(version: str, today: str) -> dict[Path, str]:
    """Return PROJECT of an operator on plain kopf, which has them; its code stays as it is."""
    file = PROJECT.root / "PROJECT"
    lines = {
        r"^    version: \d.*$": f"    version: {version}",
        r"^    created: .*$": f'    created: "{today[:10]}"',
    }
    return {file: _replaced(file, lines)}


def _replaced(file: Path, lines: Mapping[str, str]) -> str:
    """Return a file's text with lines replaced; raise KitError unless each matches once."""
    text = reading.text(file)
    for pattern, line in lines.items():
        text, times = re.subn(pattern, line, text, flags=re.MULTILINE)
        if times != 1:
            name = file.relative_to(paths.CHECKOUT)
            raise KitError(f"{name}: {times} lines look like {line}; there must be one")
    return text


FOLDER = paths.BUILD / "release"


@click.command()
@click.argument("version")
def bundle_command(version: str) -> None:
    """Lay out what the hubs of operators take, and record the release in catalog/."""
    lay_out_release(version)


def lay_out_release(version: str) -> None:
    """Run `kopf-kit release bundle`; raise KitError with everything that is wrong."""
    release = _release(version)
    if mistakes := problems(release, lay_out(release, FOLDER)):
        raise KitError("\n".join(["the bundle cannot be released:", *mistakes]))
    say(f"Laid out in {FOLDER.relative_to(paths.CHECKOUT)}, which OLM's validators take. Next:")
    if "@" in release.bundle_image:
        file = catalog.record(release)
        say(f"  commit {file.relative_to(paths.CHECKOUT)}: the release is recorded there")
        say("and, to offer it on OperatorHub.io and on OpenShift:")
        for hub, repository in HUBS.items():
            say(
                f"  copy {hub}/operators into a fork of {repository}, and open a pull request there"
            )
    else:
        say(f"  cd {FOLDER.relative_to(paths.CHECKOUT)}")
        say(f"  docker build -f bundle.Dockerfile -t {release.bundle_image} .")
        say(f"  docker push {release.bundle_image}")
        say("and the same command again with BUNDLE_IMG=…@sha256:…, which the push prints.")


def _release(version: str) -> Release:
    """Return the release that the command line names; raise KitError if it names none."""
    if not version:
        raise KitError(
            f"the version is missing; give the one that is checked out, {PROJECT.version}"
        )
    catalog.order(version)
    if version != PROJECT.version:
        raise KitError(
            f"{version} is to be released, but what is checked out is {PROJECT.version}: check it "
            f"out, or raise the version (`kopf-kit bump {version}`)"
        )
    catalog.check_records(version)
    if os.environ.get("REGISTRY"):
        build.check_given("IMG", "BUNDLE_IMG", *(pods.variable for pods in PROJECT.images))
        engine.up()
        pushed = in_registry(build.prefix())
        return Release(
            version=version,
            image=_looked_up("IMG", pushed.image),
            pod_images={
                pods.name: _looked_up(pods.variable, pushed.pod_images[pods.name])
                for pods in PROJECT.images
            },
            bundle_image=_looked_up("BUNDLE_IMG", pushed.bundle_image),
        )
    return Release(
        version=version,
        image=_pinned("IMG"),
        pod_images={image.name: _pinned(image.variable) for image in PROJECT.images},
        bundle_image=_pinned("BUNDLE_IMG", current().bundle_image),
    )


def _looked_up(variable: str, pushed: str) -> str:
    """Return the image that a variable names, or else the pushed one, by its digest."""
    return build.looked_up(os.environ.get(variable) or pushed, variable)


def _pinned(variable: str, default: str = "") -> str:
    """Return the image in a variable; raise KitError if it is not named by digest."""
    image = os.environ.get(variable, "")
    if not image and default:
        return default
    if image:
        build.check_form(image, variable)
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]{64}", image):
        raise KitError(
            f"{variable}={image} has no digest; set {variable}=registry/name@sha256:…, as "
            "`docker push` prints it"
            if image
            else f"{variable} is missing; set {variable}=registry/name@sha256:…"
        )
    return image


_STEPS = {
    "all": ("release:everything", "do the whole of a release: a version alone means this"),
    "keys": ("release:keys", "make the keys that releases are signed with"),
    "bundle": ("release:bundle_command", "record a release; lay out community-operators' files"),
}


class _Release(Program):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a step; a version in its place asks for all steps."""
        is_step = args[0] in self.entries or args[0].startswith("-")
        return super().resolve_command(ctx, args if is_step else ["all", *args])


command = _Release(
    "release",
    {name: Entry("Steps", f"kopf_kit.cli.{where}", text) for name, (where, text) in _STEPS.items()},
    help="Do the whole of a release (REGISTRY=… KEYS=…), or one step of it.",
    subcommand_metavar="VERSION | STEP [VERSION]",
)


@click.command()
@click.argument("version")
def everything(version: str) -> None:  # noqa: D103 (the program has its help)
    release(version)


@click.command()
def keys() -> None:  # noqa: D103
    ours = _keys()
    ours.make()
    say(f"{ours.folder} has the keys: keep the .key files and the passphrase to yourself")


def _keys() -> Keys:
    given = os.environ.get("KEYS")
    return Keys(Path(given).expanduser().resolve() if given else paths.BUILD / "keys")


def signer() -> Signer:
    """Return the running workflow of GitHub if it may sign and KEYS is not set, else the keys."""
    may_sign = "ACTIONS_ID_TOKEN_REQUEST_TOKEN" in os.environ
    return Workflow() if may_sign and not os.environ.get("KEYS") else _keys()


def release(version: str) -> None:
    """Run `kopf-kit release`; raise KitError if something prevents it."""
    destination, who = build.prefix(), signer()
    _check(version, who, destination)
    if version != PROJECT.version:
        _commit_version(version)
    if releases.commit_of(version) is None:
        _write_runbooks()
    try:
        published = _publish(destination, who)
        _sign(published, who)
    except KitError as error:
        log = paths.log("release")
        log.write_text(f"{error}\n")
        raise KitError(
            f"{version} is not complete in {destination} ({error.reason}): what was published "
            f"stays there, and the same command goes on from there; {log} has the whole message"
        ) from error
    if releases.commit_of(version) is None:
        releases.tag(version)
    say(f"{version} is released; its files are in {(FOLDER / version).relative_to(paths.CHECKOUT)}")
    for name, ref in published.items():
        say(f"  {name}: {ref}")
    say(f"Next: git push origin HEAD v{version}")


def _check(version: str, signer: Signer, destination: str) -> None:
    """Raise KitError with what would end the release later, before anything is changed."""
    tagged = releases.commit_of(version) if version else None
    if tagged and tagged != releases.head():
        raise KitError(
            f"{version} is released: v{version} is commit {tagged[:12]}, and another one "
            f"is checked out. Raise the version, or check out v{version} to publish it elsewhere"
        )
    if version != PROJECT.version:
        check(version)
    catalog.check_records(version)
    numbered.check_changelog(numbered.changelog(), version)
    releases.check_clean()
    files.check()
    signer.check()
    if registry.is_local(destination):
        registry.up()
    try:
        registry.digest(_files(destination, version))
    except KitError as error:
        raise KitError(
            f"REGISTRY={destination} cannot be read ({error.reason}); log in "
            "(docker login), or name another one"
        ) from error
    artifacts.check()


def _commit_version(version: str) -> None:
    """Commit the raised version, and begin again as it."""
    subject = f"release: raise the version to {version}"
    with step(f"Version {version}"), releases.change(subject) as at:
        folders = filter(None, (paths.python_path(at), os.environ.get("PYTHONPATH")))
        ours = {"PYTHONPATH": os.pathsep.join(folders)}
        if (own := paths.CHECKOUT / ".venv").is_dir():
            ours["VIRTUAL_ENV"] = str(own)  # an adopted operator's, which git does not have
        for command in (["bump", version], ["generate"]):
            output([sys.executable, "-m", "kopf_kit", *command], cwd=at, env=ours, timeout=300)
    os.execv(sys.executable, [sys.executable, "-m", "kopf_kit", "release", version])  # noqa: S606


def _write_runbooks() -> None:
    """Commit the runbooks, unless git has them: alerts link to the page at the version's tag."""
    with releases.change(f"release: write the runbooks of {PROJECT.version}") as at:
        page = at / PROJECT.root.relative_to(paths.CHECKOUT) / templates.RUNBOOKS
        page.parent.mkdir(exist_ok=True)
        page.write_text(templates.runbooks())


def _publish(destination: str, signer: Signer) -> Mapping[str, str]:
    """Put all of a release into a registry; return what is there, by its digest."""
    version, date = PROJECT.version, releases.date()
    folder, collection = FOLDER / version, f"{destination}/charts"
    release = artifacts.publish(destination, date)
    packed = _emptied(FOLDER / f"{version}-charts")
    package = charts.pack(packed, release, collection, date)
    published = {}
    with step(f"Chart {package.name} into {collection}"):
        chart = published[f"charts/{NAME}"] = charts.push(package, collection, version)
        if owners := charts.push_owners(chart):
            published[f"charts/{NAME}:{charts.OWNERS}"] = owners
    published |= {NAME: release.image, **release.pod_images}
    if PROJECT.has_olm:
        with step(f"Bundle {release.bundle_image}"):
            release = artifacts.publish_bundle(release, date)
        if releases.commit_of(version) is None:
            _record(release)
        published[f"{NAME}-bundle"] = release.bundle_image
        published[f"{NAME}-catalog"] = artifacts.publish_catalog(release, destination)
    with step(f"Files {_files(destination, version)}"):
        files.write(folder, release, published, date, signer.public)
        carrier = files.push(folder, _files(destination, version), date)
        (folder.parent / "image.md").write_text(files.sizes(release, date))
    published[f"{NAME}-release"] = carrier
    (folder.parent / "subjects.txt").write_text(files.subjects(folder, published))
    return published


def _record(release: Release) -> None:
    """Commit the record of the release in catalog/, unless it is there."""
    with releases.change(f"release: record {release.version}") as at:
        catalog.record(release, at / PROJECT.root.relative_to(paths.CHECKOUT))


def _sign(published: Mapping[str, str], signer: Signer) -> None:
    """Sign all that is published; attest what the operator's image holds."""
    version, date = PROJECT.version, releases.date()
    for ref in published.values():
        with step(f"Signature of {ref}"):
            signatures.sign(signer, ref)
    image = published[NAME]
    with step(f"Attestations of {image}"):
        for platform in registry.platforms(image).values():
            materials = files.image_materials(platform, version, date)
            signatures.attest(signer, platform, "cyclonedx", materials)
    signatures.sign_file(signer, FOLDER / version / files.CHECKSUMS)


def _files(destination: str, version: str) -> str:
    return f"{destination}/{NAME}-release:v{version}"


def _emptied(folder: Path) -> Path:
    for file in folder.glob("*.tgz*"):
        file.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
