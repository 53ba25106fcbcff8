"""What `make sabotage` changes is there, and so are the tests that should notice."""

import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "packages" / "kopf-runtime"
DEFECTS = tomllib.loads((CHECKOUT / "tests" / "sabotage.toml").read_text())
MODULES = tomllib.loads((PACKAGE / "tests" / "mutation" / "modules.toml").read_text())


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_can_be_applied_and_its_tests_are_there(name: str) -> None:
    defect = DEFECTS[name]

    assert (CHECKOUT / defect["file"]).read_text().count(defect["find"]) == 1
    assert [test for test in defect["tests"].split() if not (CHECKOUT / test).is_file()] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_and_its_tests_are_there_and_each_explanation_is_of_a_line(name: str) -> None:
    entry, source = MODULES[name], PACKAGE / "src" / "kopf_runtime" / name
    files = [PACKAGE / "tests" / "runtime" / f"{test}.py" for test in entry["tests"]]

    assert [file.name for file in (source, *files) if not file.is_file()] == []
    lines = {line.strip() for line in source.read_text().splitlines()}
    explained = (change.partition(" -> ")[0] for change in entry.get("survivors", ()))
    assert [line for line in explained if line not in lines] == []


def test_a_mutant_differs_in_one_line_and_a_statement_is_removed_whole() -> None:
    mutants = pytest.importorskip("hack.mutants", exc_type=ModuleNotFoundError).mutants
    source = "def f(a, b):\n    if a < b:\n        b.append(1)\n"
    changes = [mutant.change for mutant in mutants(source)]

    assert changes == [
        "b.append(1) -> pass",
        "if a < b: -> if a <= b:",
        "if a < b: -> if not a < b:",
        "b.append(1) -> b.append( 2)",
        "b.append(1) -> b.append( 0)",
    ]
