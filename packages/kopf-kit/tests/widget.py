"""A small operator of Widgets, on which the tests of chart and bundle work.

It is what `kopf-kit new` writes, with an image for Pods of its own. The kit works on the repository
that it is imported in.
"""

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_FOLDER = "KOPF_KIT_WIDGET"
_NAME = ("widget-operator", "--kind=Widget", "--group=acme.example.com", "--no-lock")
_VALUES = """\
widgetPod:
  image:
    # -- Registry of the widget Pods' image; empty if the repository contains it
    registry: docker.io
    # -- Repository of the widget Pods' image
    # @schema {minLength: 1}
    repository: library/busybox
    # -- Tag of the widget Pods' image
    # @schema tag
    tag: "1.37"
    # -- Digest of the widget Pods' image (sha256:…), which is pulled whatever the tag is
    # @schema digest
    digest: ""
"""
#: What is changed of what `kopf-kit new` writes.
_CHANGES = {
    "PROJECT": (
        (
            "    # `images`, beside",
            "    images:\n      - {name: widget, values: widgetPod.image}\n    #",
        ),
        ("v1alpha1", "v1"),
    ),
    "operator/widget_operator/operator.py": (
        ('"v1alpha1"', '"v1"'),
        (
            '    """\n\n\nmanager',
            '    """\n\n    widget_image: str = kr.flag('
            '"docker.io/library/busybox:1.37", "the Pods\' image", kr.image)\n\n\nmanager',
        ),
    ),
    "examples/sample.yaml": (("v1alpha1", "v1"),),
    "charts/widget-operator/Chart.yaml": (("v1alpha1", "v1"),),
}


def enter() -> None:
    """Work on the widget operator, unless PROJECT names another one; make it once a session."""
    if os.environ.get("PROJECT"):
        return
    if "kopf_kit.rig.paths" in sys.modules:
        raise RuntimeError("run these tests by themselves: the kit works on one project a process")
    if _FOLDER not in os.environ:  # else it is that of the session's first process
        scratch = tempfile.mkdtemp(prefix="widget-")
        atexit.register(shutil.rmtree, scratch)
        os.environ[_FOLDER] = str(_make(Path(scratch, "widget-operator")))
    with contextlib.chdir(os.environ[_FOLDER]):
        from kopf_kit.project.definition import PROJECT
        from kopf_kit.rig import steps

    steps.scrub_for_tests(PROJECT.environment)


def _make(folder: Path) -> Path:
    kit = (sys.executable, "-m", "kopf_kit")
    _run(*kit, "new", *_NAME, str(folder), folder=folder.parent)
    for name, changes in _CHANGES.items():
        file = folder / name
        text = file.read_text()
        for before, after in changes:
            assert before in text, f"{name} has no {before}"
            text = text.replace(before, after)
        file.write_text(text)
    (folder / "charts/widget-operator/values.own.yaml").write_text(_VALUES)
    _run(*kit, "generate", folder=folder)
    return folder


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
