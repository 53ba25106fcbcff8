import contextvars
import json
import logging
import sys
from typing import Any

import pytest

from kopf_runtime.reporting import logs

NASTY = "\x1b[2J\r\nERROR forged\x00\u202e\x9b"


def line(message: str, **more: object) -> logging.LogRecord:
    record = logging.LogRecord("a.logger", logging.INFO, "", 0, message, (), None)
    record.__dict__.update(more)
    return record


def as_json(record: logging.LogRecord) -> dict[str, str]:
    found: dict[str, str] = json.loads(logs.Json().format(record))
    return found


def test_each_line_names_what_it_is_about() -> None:
    def tell() -> tuple[dict[str, Any], str]:
        logs.about(("ns", "hello"))
        return as_json(line("done")), logs.Text().format(line("done"))

    found, text = contextvars.copy_context().run(tell)

    assert (found["namespace"], found["name"], found["message"]) == ("ns", "hello", "done")
    assert text.endswith("INFO    ns/hello: done")
    assert "namespace" not in as_json(line("done"))


def test_a_line_of_kopf_names_its_object() -> None:
    found = as_json(line("seen", k8s_ref={"namespace": "ns", "name": "hello"}))

    assert (found["namespace"], found["name"]) == ("ns", "hello")


@pytest.mark.parametrize("form", [logs.Text(), logs.Json()])
def test_a_text_can_neither_forge_a_line_nor_steer_a_terminal(form: logging.Formatter) -> None:
    made = form.format(line(NASTY))

    assert made.isprintable()
    assert len(made.splitlines()) == 1
    assert "\\x1b[2J" in made.replace("\\\\", "\\")


def test_ordinary_texts_stay_readable() -> None:
    assert logs.escape("안녕하세요, 🌍!") == "안녕하세요, 🌍!"


def test_an_endless_line_is_cut() -> None:
    assert len(logs.escape("x" * 100_000)) < logs.MAX_CHARACTERS + 50


def test_a_traceback_is_escaped_too() -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        record = line("failed", exc_info=sys.exc_info())

    assert logs.Text().format(record).replace("\n", "").isprintable()
    assert "Traceback" in as_json(record)["exception"]
    assert as_json(record)["exception"].replace("\n", "").isprintable()
