"""The image of the operator in Go: its Dockerfile is built, and what is in it starts."""

import subprocess
from pathlib import Path

from kopf_kit.rig import dockerfiles, engine, public_images
from kopf_kit.rig.run import output
from kopf_kit.rig.steps import step
from kopf_offline import golang
from tests.make.commands import CHECKOUT, Make

IMAGE = "message-operator-go:test"
#: Go on what builds the operator's image; the modules come from this machine's proxy of modules.
_GO = "FROM {base}\nCOPY . /usr/local/go\nENV PATH=/usr/local/go/bin:/usr/bin:/bin {settings}\n"


def _bases() -> list[str]:
    """Return the options that replace the public bases, if these cannot be pulled."""
    if public_images.are_in_reach():
        return []
    build, runtime = dockerfiles.python()
    said = output([golang.go(), "env", "GOROOT", "GOPROXY", "GOSUMDB"], timeout=60).split()
    root, settings = said[0], f"GOTOOLCHAIN=local GOPROXY={said[1]} GOSUMDB={said[2]}"
    dockerfile = _GO.format(base=build, settings=settings).encode()
    with step("Go's base image") as work:
        dockerfiles.build(work, "message-operator-go-base:test", Path(root), dockerfile)
    return [
        "ARGS=--build-arg=BUILD_BASE=message-operator-go-base:test "
        f"--build-arg=RUNTIME_BASE={runtime}"
    ]


def test_the_image_of_the_operator_in_go_is_built_and_starts() -> None:
    make = Make(CHECKOUT / "examples" / "in-go", DOCKER_BUILDKIT="1")
    builder = f"CONTAINER_TOOL={engine.builder()}"

    make("docker-build", f"IMG={IMAGE}", builder, *_bases(), timeout=1200)

    run = ["docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", IMAGE]
    ended = subprocess.run([*run, "-help"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "-workers" in ended.stderr
