"""The reference pages that are made of what the code declares, in English and Korean.

Titles are in both languages here; `reference_korean` has the Korean of what the code says, and of
the heads of tables. PROJECT names this module, so `make generate` writes the pages; `site` asks
where a page is to be edited.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hack import reasons, reference_api, reference_kit, reference_rights, reference_tables
from hack.reference_tables import Body
from kopf_kit.pack.project import PROJECT
from kopf_kit.plugin.text import Text
from kopf_kit.rig import paths

FOLDER = paths.CHECKOUT / "docs" / "reference"


class Page(NamedTuple):
    """A page; `source` is the file that somebody edits to change it."""

    title: Text
    about: Text
    source: Path
    body: Body


_RUNTIME = paths.CHECKOUT / "packages" / "kopf-runtime" / "src" / "kopf_runtime"
PAGES = {
    "message-api": Page(
        Text("The Message API", "Message API"),
        Text(
            "Every field of the kind, as the API server checks it. [Messages](../messages.md) "
            "explains how to use them.",
            "이 종류의 모든 필드와 API 서버가 확인하는 조건입니다. 사용하는 방법은 "
            "[Message](../messages.ko.md)에 있습니다.",
        ),
        PROJECT.code / "messages.py",
        reference_tables.kinds,
    ),
    "values": Page(
        Text("The chart's values", "차트의 값"),
        Text(
            "Set them with `--set` or `--values`. The chart refuses other keys, and combinations "
            "that cannot work. Its [README](../../charts/message-operator/README.md) has examples.",
            "`--set`이나 `--values`로 지정합니다. 다른 키나 함께 쓸 수 없는 조합은 거부합니다. "
            "예제는 [README](../../charts/message-operator/README.md)(영어)에 있습니다.",
        ),
        PROJECT.chart / "values.yaml",
        reference_tables.values,
    ),
    "flags": Page(
        Text("Flags and environment variables", "플래그와 환경 변수"),
        Text(
            "Almost every flag of the operator has an environment variable. A flag wins over its "
            "variable. The chart sets them from its [values](values.md).",
            "오퍼레이터의 플래그에는 대부분 환경 변수가 있습니다. 둘 다 있으면 플래그를 "
            "사용합니다. 차트는 [값](values.ko.md)에 따라 플래그를 지정합니다.",
        ),
        PROJECT.code / "settings.py",
        reference_tables.flags,
    ),
    "metrics": Page(
        Text("Metrics", "메트릭"),
        Text(
            "The operator serves these at `/metrics`, in Prometheus' format, beside those of its "
            "Python process (`process_*`, `python_*`). All durations are in seconds. [Monitor the "
            "operator](../monitoring.md) shows how to collect them.",
            "오퍼레이터는 `/metrics`에서 다음 메트릭을 프로메테우스 형식으로 제공합니다. Python "
            "프로세스의 메트릭(`process_*`, `python_*`)도 함께 제공합니다. 시간의 단위는 모두 "
            "초입니다. 수집하는 방법은 [오퍼레이터 모니터링하기](../monitoring.ko.md)에 있습니다.",
        ),
        _RUNTIME / "cluster" / "metrics.py",
        reference_tables.metrics,
    ),
    "rights": Page(
        Text("Roles and rights", "롤과 권한"),
        Text(
            "Every rule of every role that the chart creates, and why it is there. The rules for "
            "Messages and Pods follow from what the operator's code declares; tests show that no "
            "rule can be left out, and that the operator has no other rights.",
            "차트가 만드는 모든 롤의 규칙과 그 이유입니다. Message와 파드에 대한 규칙은 "
            "오퍼레이터의 코드가 선언한 것에서 생성됩니다. 필요 없는 규칙이 없다는 것과, "
            "오퍼레이터에 다른 권한이 없다는 것을 테스트로 확인합니다.",
        ),
        PROJECT.chart / "templates" / "rbac.yaml",
        reference_rights.roles,
    ),
    "runtime-api": Page(
        Text("The runtime's public names", "런타임의 공개 이름"),
        Text(
            "These are the names that `import kopf_runtime as kr` offers, with their docstrings. "
            "[The runtime](../runtime.md) explains how to use them.",
            "`import kopf_runtime as kr`로 사용하는 이름입니다. 자세한 설명은 소스의 docstring이며 "
            "영어입니다. 사용하는 방법은 [런타임](../runtime.ko.md)에 있습니다.",
        ),
        reference_api.PUBLIC,
        reference_api.names,
    ),
    "kopf-kit": Page(
        Text("The commands of kopf-kit", "kopf-kit의 명령"),
        Text(
            "In the repository of an operator, run them with `uv run kopf-kit`; elsewhere, with "
            "`uvx kopf-kit`.",
            "오퍼레이터의 저장소에서는 `uv run kopf-kit`으로, 다른 곳에서는 `uvx kopf-kit`으로 "
            "실행합니다.",
        ),
        paths.CHECKOUT / "packages" / "kopf-kit" / "src" / "kopf_kit" / "__main__.py",
        reference_kit.commands,
    ),
}


def files() -> dict[Path, str]:
    """Return the texts of the pages, and of those of the reasons, by path."""
    return reasons.files() | {
        FOLDER / f"{name}{suffix}": "\n".join(_lines(name, page, language)) + "\n"
        for name, page in PAGES.items()
        for language, suffix in (("en", ".md"), ("ko", ".ko.md"))
    }


def source(page: Path) -> Path | None:
    """Return what is edited to change a page in FOLDER, or None for any other page."""
    if page.parent != FOLDER:
        return None
    return PAGES[page.name.partition(".")[0]].source


def _lines(name: str, page: Page, language: str) -> Iterator[str]:
    def say(en: str, ko: str) -> str:
        return ko if language == "ko" else en

    yield f"# {say(*page.title)}"
    by = page.source.relative_to(paths.CHECKOUT)
    yield f"<!-- Generated by hack/reference.py of {by}: do not edit, `make generate` -->"
    yield ""
    yield say(f"[한국어]({name}.ko.md)", f"[English]({name}.md)")
    yield ""
    yield say(*page.about)
    yield from page.body(say)
