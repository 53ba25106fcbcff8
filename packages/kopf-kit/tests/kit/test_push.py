"""What is pushed names the registry that the user names, and nothing of any other."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bundle.package import DIGEST, release, write_both
from chart.helm import render
from kopf_kit.cli import deploy, push
from kopf_kit.cli import release as cli_release
from kopf_kit.image import build
from kopf_kit.image.build import image_parts, pinned, prefix
from kopf_kit.olm import catalog
from kopf_kit.project import documents, releases
from kopf_kit.release import artifacts as olm_images
from kopf_kit.release import charts
from kopf_kit.rig import cluster, dockerfiles, engine, paths, public_images, registry
from kopf_kit.rig.run import KitError
from kopf_offline import entry
from message_operator import __version__

CHART = Path(__file__).parents[4] / "charts" / "message-operator"
STALE = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "localhost:5001"),
        ("localhost:5001", "localhost:5001"),
        ("registry.example.com/you/", "registry.example.com/you"),
        ("ghcr.io/you", "ghcr.io/you"),
        ("registry:5000/a/b-c/d_e", "registry:5000/a/b-c/d_e"),
        ("10.0.0.1:5000", "10.0.0.1:5000"),
    ],
)
def test_a_registry_is_a_host_and_may_have_a_port_and_a_path(
    given: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", given)

    assert prefix() == used


@pytest.mark.parametrize(
    "given",
    [
        *("https://ghcr.io/you", "you", "you/name", "ghcr.io/You", "ghcr.io/you:1.0", "/you"),
        *("r.example:99999/x", "r.example:0/x"),
        *("ghcr.io//you", "ghcr.io/you name", "ghcr.io/you@sha256:0", "oci://ghcr.io/you", "-"),
    ],
)
def test_what_is_no_registry_is_refused_in_a_sentence(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", given)

    with pytest.raises(KitError) as error:
        prefix()

    assert str(error.value) == (
        f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, without "
        "https:// and without a tag, for example REGISTRY=registry.example.com/you"
    )


YOURS = "registry.example.com/you"
WRONG_IMAGES = [
    *("UPPER/Case", "bad image", "x:1:2", f"{YOURS}/x@sha256:abc", "https://r/x:1", ":1", "한국/x"),
    *(f"{YOURS}/X:1", f"{YOURS}/x:", f"{YOURS}/x:{'t' * 129}", "r.example:99999/x:1"),
]


@pytest.mark.parametrize(
    ("command", "variable", "given"),
    [
        *((build.build, "IMG", image) for image in WRONG_IMAGES),
        (build.push, "IMG", "x:1:2"),
        (lambda: deploy.deploy_command.main([], standalone_mode=False), "IMG", "x:1:2"),
        *(
            (run, name, "x:1:2")
            for run in (push.push_bundle, push.push_catalog, push.push_chart)
            for name in ("IMG", "MESSAGE_IMG")
        ),
        *(
            (lambda: cli_release.lay_out_release(__version__), name, "x:1:2")
            for name in ("IMG", "MESSAGE_IMG", "BUNDLE_IMG")
        ),
        (lambda: cli_release._pinned("IMG"), "IMG", "x:1:2"),
    ],
)
def test_what_is_no_image_is_refused_before_anything_is_started(
    command: Callable[[], object], variable: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "up", lambda: pytest.fail("the engine is started"))
    monkeypatch.setattr(cluster, "up", lambda: pytest.fail("the cluster is started"))
    monkeypatch.setenv("REGISTRY", YOURS)
    monkeypatch.setenv(variable, given)

    with pytest.raises(KitError) as error:
        command()

    assert str(error.value) == (
        f"{variable}={given} is not a valid image; use [host[:port]/]name[:tag] or …@sha256:…, the "
        "name in lower case, without https:// and without spaces, for example "
        f"{variable}=registry.example.com/you/name:1.0"
    )


@pytest.mark.parametrize(
    "given",
    ["mine", "you/mine:A_1", "localhost/x", "R.example:5000/a/b-c", f"10.0.0.1:5/x:1@{STALE}"],
)
def test_an_image_that_is_only_built_needs_no_registry(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMG", given)

    assert build.reference() == given


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Stand in for Docker: it has former images, and prints this when it pushes an index.

    A pull prints something, too, or fails. What it is called with is in the file.
    """
    releases.current()  # remembered: Helm renders the chart while it can still be found
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(engine, "up", lambda: None)

    def write(pushed: str = "", pulled: str = "exit 1") -> Path:
        calls = tmp_path / "calls"
        script = tmp_path / "docker"
        script.write_text(
            f"""#!/bin/sh
            echo "$@" >>{calls}
            case "$1 $2" in
              "manifest push") echo '{pushed}' ;;
              "image inspect") echo {YOURS}/message-operator@{STALE} ;;
              "pull "*) {pulled} ;;
            esac
            """
        )
        script.chmod(0o755)
        calls.touch()
        return calls

    return write


def push_operator(monkeypatch: pytest.MonkeyPatch, platforms: str = "") -> str:
    """Push the chart; return the operator's image that it names."""
    named: list[str] = []
    monkeypatch.setenv("REGISTRY", YOURS)
    monkeypatch.setenv("PLATFORMS", platforms)
    monkeypatch.setattr(build, "build", lambda ref: ref)
    monkeypatch.setattr(dockerfiles, "copy", lambda *_: None)
    monkeypatch.setattr(charts, "push_chart", lambda _, release: named.append(release.image))
    push.push_chart()
    return named[0]


def test_an_image_for_several_platforms_is_named_by_the_digest_that_its_push_prints(
    docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    docker(f"Pushed ref to a registry\n{DIGEST}")
    repository = "registry.example.com/you/message-operator"

    for_both = push_operator(monkeypatch, "linux/amd64,linux/arm64")
    for_this_machine = push_operator(monkeypatch, "")

    assert for_both == f"{repository}@{DIGEST}"
    assert for_this_machine == f"{repository}@{STALE}"


def test_an_index_of_which_no_digest_is_known_is_named_by_no_other(
    docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    docker("denied")

    with pytest.raises(KitError, match="printed no digest for registry"):
        push_operator(monkeypatch, "linux/amd64")


@pytest.mark.parametrize("name", [":mine", f"@{DIGEST}"], ids=["tag", "digest"])
def test_an_image_that_is_given_is_named_by_the_digest_that_its_registry_has_now(
    name: str, docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = docker(pulled=f'echo "Digest: {DIGEST}"')
    monkeypatch.setenv("IMG", f"{YOURS}/message-operator{name}")

    assert push_operator(monkeypatch) == f"{YOURS}/message-operator@{DIGEST}"
    assert f"push {YOURS}/message-operator" not in calls.read_text()


@pytest.mark.parametrize("variable", ["IMG", "MESSAGE_IMG"])
def test_an_image_that_its_registry_has_not_is_refused_before_anything_is_built(
    variable: str, docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = docker(pulled="echo manifest unknown >&2; exit 1")
    monkeypatch.setenv(variable, f"{YOURS}/it:mine")

    with pytest.raises(KitError, match=rf"(?s)^{variable}={YOURS}/it:mine cannot be .* unknown"):
        push_operator(monkeypatch)

    assert calls.read_text() == f"pull {YOURS}/it:mine\n"


def test_docker_hub_s_images_are_known_by_the_names_that_docker_has_for_them(
    docker: Callable[..., Path],
) -> None:
    script = docker().with_name("docker")
    script.write_text(f"#!/bin/sh\necho you/message-operator@{DIGEST}\n")

    reference = "docker.io/you/message-operator"
    assert pinned(f"{reference}:1.0") == f"{reference}@{DIGEST}"


@pytest.mark.parametrize("in_reach", [True, False], ids=["pulled", "built"])
def test_the_message_pods_image_goes_to_another_registry_without_the_local_one(
    in_reach: bool, docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = docker()
    monkeypatch.setattr(registry, "up", lambda: pytest.fail("the local registry is started"))
    monkeypatch.setattr(public_images, "are_in_reach", lambda: in_reach)
    monkeypatch.setattr(public_images, "pull", lambda _: "public")
    monkeypatch.setattr(entry, "image", lambda *_: "public")

    dockerfiles.copy(public_images.BUSYBOX, f"{YOURS}/busybox:1")

    assert calls.read_text().splitlines() == [
        f"tag public {YOURS}/busybox:1",
        f"push {YOURS}/busybox:1",
    ]


def test_a5_other_packages_or_another_digest_are_built_again_and_the_same_are_not(
    docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    docker()
    there: set[str] = set()
    monkeypatch.setattr(registry, "up", lambda: None)
    monkeypatch.setattr(registry, "has", lambda tag: tag in there)
    monkeypatch.setattr(public_images, "are_in_reach", lambda: False)
    monkeypatch.setattr(entry, "image", lambda *_: "built")

    def built(*packages: str, ref: str = "docker.io/library/nginx:1.27") -> bool:
        tag = dockerfiles.publish(ref, packages).removeprefix(f"{registry.ADDRESS}/")
        assert tag.startswith("nginx:1.27")
        known = tag in there
        there.add(tag)
        return not known

    assert built("nginx-light")
    assert not built("nginx-light")
    assert built("nginx-light", "dash")
    assert built("nginx-light", ref=f"docker.io/library/nginx:1.27@{DIGEST}")
    assert not built("nginx-light", "dash")


def test_the_message_pods_image_is_an_index_of_the_platforms_that_are_asked_for(
    docker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = docker(pushed=DIGEST, pulled="true")
    both = ["linux/amd64", "linux/arm64"]
    monkeypatch.setattr(public_images, "are_in_reach", lambda: True)
    monkeypatch.setattr(registry, "platforms", lambda _: {each: each[6:] for each in both})

    dockerfiles.copy(public_images.BUSYBOX, f"{YOURS}/busybox:1", targets=both)

    said = calls.read_text()
    for architecture in ("amd64", "arm64"):
        assert f"tag {architecture} {YOURS}/busybox:1-{architecture}\n" in said
        assert f"push {YOURS}/busybox:1-{architecture}\n" in said
    assert pinned(f"{YOURS}/busybox:1") == f"{YOURS}/busybox@{DIGEST}"


def test_the_chart_has_the_images_as_its_defaults_and_every_comment_as_it_was() -> None:
    text = (CHART / "values.yaml").read_text()
    image, message = f"host:5000/you/operator@{DIGEST}", "host:5000/you/busybox:1"

    changed = charts.with_values(
        text,
        {
            **{f"image.{key}": part for key, part in image_parts(image).items()},
            **{f"messagePod.image.{key}": part for key, part in image_parts(message).items()},
        },
    )

    values, ours = documents.load(changed), documents.load(text)
    there = {"registry": "host:5000"}
    ours["image"] |= there | {"repository": "you/operator", "tag": "", "digest": DIGEST}
    ours["messagePod"]["image"] |= there | {"repository": "you/busybox", "tag": "1", "digest": ""}
    assert values == ours
    assert [line for line in changed.splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ]


def test_the_chart_is_pushed_and_names_the_registry_that_it_is_in(tmp_path: Path) -> None:
    images = release(__version__)

    for _ in range(2):  # the second time in the place of the first
        chart = charts.write(tmp_path, images, "registry.example.com/you/charts")

    readme = (chart / "README.md").read_text()
    assert f"oci://registry.example.com/you/charts/{chart.name}" in readme
    for file in ("README.md", "templates/NOTES.txt"):
        assert "oci://ghcr.io" not in (chart / file).read_text()


def test_p6_a_pushed_chart_takes_another_tag(tmp_path: Path) -> None:
    images = release(__version__)

    chart = charts.write(tmp_path, images, "registry.example.com/you/charts")

    def rendered(**values: object) -> tuple[str, str]:
        """Return the operator's image and that of its Pods."""
        (deployment,) = (m for m in render(values, chart=chart) if m["kind"] == "Deployment")
        (operator,) = deployment["spec"]["template"]["spec"]["containers"]
        (flag,) = (
            argument for argument in operator["args"] if argument.startswith("--message-image=")
        )
        return operator["image"], flag.partition("=")[2]

    ours = rendered()
    assert ours == (images.image, images.pod_images["message"])
    tagged = tuple(f"{ref.partition('@')[0]}:mine" for ref in ours)
    assert rendered(image={"tag": "mine"}, messagePod={"image": {"tag": "mine"}}) == tagged


def test_a_value_that_the_chart_has_not_is_no_silent_loss() -> None:
    with pytest.raises(LookupError, match=r"image\.nonsense"):
        charts.with_values("image:\n  tag: a\n", {"image.nonsense": "b"})


@pytest.mark.parametrize("command", [push.push_bundle, push.push_catalog])
def test_a_release_is_not_pushed_again_to_where_it_is_recorded(
    command: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = write_both(tmp_path, __version__)
    monkeypatch.setattr(catalog, "CATALOG", folder)
    monkeypatch.setattr(engine, "up", lambda: (_ for _ in ()).throw(KitError("goes on")))

    monkeypatch.setenv("REGISTRY", "registry.example.com")
    with pytest.raises(KitError, match=rf"^{__version__} is released to registry\.example\.com \("):
        command()
    monkeypatch.setenv("REGISTRY", YOURS)
    with pytest.raises(KitError, match="goes on"):
        command()


def test_a_catalog_keeps_the_releases_that_git_has_and_takes_this_version_from_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = write_both(tmp_path, "0.0.8", "0.0.9")
    shutil.copy2(catalog.CATALOG / catalog.file(__version__), folder / "bundles")
    monkeypatch.setattr(catalog, "CATALOG", folder)

    files = olm_images.catalog_with(release(__version__))

    assert {file for file in files if file.startswith("bundles/")} == {
        f"bundles/v{version}.yaml" for version in ("0.0.8", "0.0.9", __version__)
    }
    blob = documents.load(files[catalog.file(__version__)])
    assert blob["image"] == release(__version__).bundle_image
    assert {image["image"].partition("/")[0] for image in blob["relatedImages"]} == {
        "registry.example.com"
    }
    assert files["bundles/v0.0.9.yaml"] == (folder / "bundles" / "v0.0.9.yaml").read_text()
