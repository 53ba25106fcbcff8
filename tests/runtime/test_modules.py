from pathlib import Path

OPERATOR = Path(__file__).parents[2] / "operator"
LIMIT = 250  # lines: what one sitting can read


def test_no_module_of_the_operator_is_too_long_to_read_at_once() -> None:
    modules = sorted(OPERATOR.rglob("*.py"))
    lengths = {str(file.relative_to(OPERATOR)): file.read_text().count("\n") for file in modules}

    assert modules
    assert {name: lines for name, lines in lengths.items() if lines > LIMIT} == {}
