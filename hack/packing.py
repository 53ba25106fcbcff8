"""The kubectl plugin as one file, its manifest for krew, and the pages of its knowledge.

The bytes are the same on every machine: every file has the same date, and nothing is compressed,
because a compressor's output depends on its version.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import paths
from kubectl_message import knowledge
from kubectl_message.knowledge.alerts import ALERTS
from kubectl_message.knowledge.entry import HOME
from kubectl_message.knowledge.events import EVENTS

PACKAGE = PROJECT.root / "kubectl_message"
#: kubectl finds a plugin by its program's name.
PROGRAM = "kubectl-message"
ARCHIVE = f"{PROGRAM}.zip"
MANIFEST = "message.yaml"

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\n\nfrom kubectl_message.__main__ import main\n\nsys.exit(main())\n"
_EXECUTABLE, _PLAIN = 0o100755, 0o100644


def write(folder: Path) -> None:
    """Write the program, and its archive and manifest for krew."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_bytes(program())
    (folder / PROGRAM).chmod(0o755)
    (folder / ARCHIVE).write_bytes(archive())
    (folder / MANIFEST).write_text(manifest())


def program() -> bytes:
    """Return the plugin as a zipapp, which any Python 3.9 or newer can run."""
    sources = {
        file.relative_to(PACKAGE.parent).as_posix(): (file.read_bytes(), _PLAIN)
        for file in PACKAGE.rglob("*.py")
    }
    return _SHEBANG + _zip({"__main__.py": (_MAIN, _PLAIN), **sources})


def archive() -> bytes:
    """Return the archive that krew downloads, with the program and its licence."""
    licence = (paths.CHECKOUT / "LICENSE").read_bytes()
    return _zip({PROGRAM: (program(), _EXECUTABLE), "LICENSE": (licence, _PLAIN)})


def manifest() -> str:
    """Return the manifest for krew's index and for `krew install --manifest`."""
    # Windows cannot start a zipapp by its first line.
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    platform = {
        "selector": {"matchExpressions": [systems]},
        "uri": f"{HOME}/releases/download/v{PROJECT.version}/{ARCHIVE}",
        "sha256": hashlib.sha256(archive()).hexdigest(),
        "bin": PROGRAM,
    }
    spec = {
        "version": f"v{PROJECT.version}",
        "homepage": f"{HOME}/blob/v{PROJECT.version}/docs/plugin.md",
        "shortDescription": "Say how Messages fare, why, and what to do",
        "description": "For those who use message-operator: all Messages at a glance, why one "
        "does not print and what to do about it, and a check of the operator itself. In English "
        "and Korean.",
        "caveats": "It needs Python 3.9 or newer on the PATH as python3.",
        "platforms": [platform],
    }
    written = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PROGRAM.removeprefix("kubectl-")},
        "spec": spec,
    }
    return json.dumps(written, indent=2) + "\n"  # JSON is YAML


def _zip(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, (content, mode) in sorted(files.items()):
            about = zipfile.ZipInfo(name)  # dated 1980, the earliest date in a zip file
            about.create_system, about.external_attr = 3, mode << 16
            file.writestr(about, content)
    return packed.getvalue()


# --- the pages of its knowledge -------------------------------------------------------------------

_PAGES = {
    "en": (
        "docs/reasons.md",
        "Reasons and alerts",
        "This page lists each reason of a Message's `Ready` condition, each of its Events, and "
        "each alert of the chart, and says what to do about it. While the Pod prints the text as "
        "declared, the condition is `True` with the reason `PodRunning`. `kubectl message why "
        "NAME` and `kubectl message explain REASON` ([the plugin](plugin.md)) print the same. "
        "What the tables call the details is the condition's message: where a reason has several "
        "causes, it tells them apart.",
        ("Reasons", "reason", "what it is", "what to do"),
        ("Events", "Event", "type", "what it is", "what to do"),
        ("Alerts", "alert", "what it is", "what to do"),
        "the webhook's choice",
    ),
    "ko": (
        "docs/reasons.ko.md",
        "이유와 알림",
        "Message의 `Ready` 컨디션에 나오는 이유(reason)와 Message의 이벤트, 차트의 알림마다 "
        "무엇을 해야 하는지 설명합니다. 파드가 선언한 대로 텍스트를 출력하는 동안 컨디션은 "
        "`True`이고 이유는 `PodRunning`입니다. `kubectl message why NAME`과 `kubectl message "
        "explain REASON`([플러그인](plugin.ko.md))도 같은 내용을 출력합니다. 표에서 자세한 "
        "내용이란 컨디션의 메시지를 말하며, 원인이 여러 가지인 이유는 이 메시지로 구별합니다.",
        ("이유", "이유", "뜻", "할 일"),
        ("이벤트", "이벤트", "유형", "뜻", "할 일"),
        ("알림", "알림", "뜻", "할 일"),
        "웹훅이 정한 이유",
    ),
}


def files() -> dict[Path, str]:
    """Return the pages of the plugin's knowledge, by path; none for another project."""
    if not PACKAGE.is_dir():
        return {}
    return {paths.CHECKOUT / _PAGES[language][0]: _page(language) for language in _PAGES}


def _page(language: str) -> str:
    _, title, about, reasons, events, alerts, other = _PAGES[language]
    translation, called, suffix = {
        "en": ("ko", "한국어", ".md"),
        "ko": ("en", "English", ".ko.md"),
    }[language]
    lines = [
        f"# {title}",
        "<!-- Generated by hack/packing.py of kubectl_message/knowledge: do not edit, "
        "`make generate` -->",
        *("", f"[{called}]({Path(_PAGES[translation][0]).name})", "", about, ""),
        *_heads(*reasons),
        *(
            _row(", ".join(f"`{name}`" for name in entry.reasons) or other, entry, language)
            for entry in knowledge.ENTRIES
        ),
        "",
        *_heads(*events),
        *(_row(f"`{event.reason}` | {event.type}", event, language) for event in EVENTS),
        "",
        *_heads(*alerts),
        *(
            _row(f"[{alert.name}](runbooks{suffix}#{alert.name.lower()})", alert, language)
            for alert in ALERTS
        ),
    ]
    return "\n".join(lines) + "\n"


def _heads(title: str, *heads: str) -> list[str]:
    return [f"## {title}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]


def _row(name: str, known: object, language: str) -> str:
    says, todo = (getattr(getattr(known, part), language) for part in ("says", "todo"))
    words = {"pod": "msg-NAME", "name": "NAME", "namespace": "NAMESPACE"}
    says = says.format(**words)
    return f"| {name} | {says[0].upper()}{says[1:]} | {todo.format(**words)} |"
