"""The context that an author's functions get beside the object."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import kopf_runtime as kr
from runtime import widgets


def test_what_a_function_does_not_get_is_an_error_that_says_which_functions_do() -> None:
    context = kr.Context[kr.Settings](kr.Settings())

    with pytest.raises(
        AttributeError, match=r"no context\.session here: only sync, check, finalize, validate"
    ):
        context.session  # noqa: B018
    with pytest.raises(AttributeError, match=r"no context\.chidlren here$"):
        context.chidlren  # noqa: B018


def test_a_test_of_status_says_only_what_matters_to_it() -> None:
    owner: Any = SimpleNamespace(key=("ns", "one"))
    seen = kr.Observed(None, object=owner, trouble=kr.Trouble("Refused", "No."))

    assert kr.default_status(seen).reason == "Refused"
    assert kr.default_status(replace(seen, trouble=None)).ready


def test_a_test_says_who_has_a_value_of_an_index() -> None:
    hosts = widgets.controller().index(lambda _: [])
    context = kr.Context(kr.Settings(), held={hosts: {"a.example": [("ns", "one")]}})

    assert context.holders(hosts, "a.example") == (("ns", "one"),)
    assert context.holders(hosts, "b.example") == ()
