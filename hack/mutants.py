"""Mutants of a module: the same code with one small change, by the operators of Cosmic Ray."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from cosmic_ray.ast import Visitor, ast_nodes, get_ast
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Keyword
from parso.tree import search_ancestor

#: One near neighbour for each comparison; tests notice the others sooner.
_COMPARISONS = (
    "Eq_NotEq",
    "NotEq_Eq",
    "Lt_LtE",
    "LtE_Lt",
    "Gt_GtE",
    "GtE_Gt",
    "Is_IsNot",
    "IsNot_Is",
)
_OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{name}" for name in _COMPARISONS),
    *(
        f"core/ReplaceBinaryOperator_{name}"
        for name in ("Add_Sub", "Sub_Add", "Mul_Div", "BitAnd_BitOr")
    ),
    *("core/AddNot", "core/ReplaceUnaryOperator_Delete_Not", "core/ExceptionReplacer"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/NumberReplacer"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/ZeroIterationForLoop"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"),
)

_STATEMENTS = ("simple_stmt", "if_stmt", "for_stmt", "while_stmt", "with_stmt", "try_stmt")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant: `before` is the line that it changes, as it was."""

    line: int
    before: str
    after: str
    source: str
    #: The first line of the statement, and whether it is inside a function.
    statement: int
    inside: bool

    @property
    def change(self) -> str:
        """Return the line before and after, as the table names it."""
        return f"{self.before} -> {self.after}"


class _RemoveStatement(Operator):  # type: ignore[misc]
    """Replaces a call, an assignment to an attribute or item, or a `raise` by `pass`."""

    def mutation_positions(self, node):  # type: ignore[no-untyped-def]
        if node.type == "simple_stmt" and self._matters(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    @staticmethod
    def _matters(statement) -> bool:  # type: ignore[no-untyped-def]
        if statement.type == "expr_stmt":
            target, operator = statement.children[:2]
            return bool(target.type == "atom_expr" and operator.type != "annassign")
        return statement.type in ("atom_expr", "await", "atom", "raise_stmt", "del_stmt")

    def mutate(self, node, index):  # type: ignore[no-untyped-def]
        first = node.children[0].get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls):  # type: ignore[no-untyped-def]
        return ()


class _Once(Visitor):  # type: ignore[misc]
    """Applies an operator at one of its positions."""

    def __init__(self, operator: Operator, occurrence: int) -> None:
        self.operator, self.left = operator, occurrence

    def visit(self, node):  # type: ignore[no-untyped-def]
        for index, _ in enumerate(self.operator.mutation_positions(node)):
            if self.left == 0:
                node = self.operator.mutate(node, index)
            self.left -= 1
        return node


def mutants(source: str) -> Iterator[Mutant]:
    """Yield each mutant of a module's source whose code differs from it."""
    lines, seen = source.splitlines(), {source}
    tree = get_ast(source)
    for operator in (_RemoveStatement(), *(get_operator(name)() for name in _OPERATORS)):
        places = [
            (place[0][0], node)
            for node in ast_nodes(tree)
            for place in operator.mutation_positions(node)
        ]
        for occurrence, (line, node) in enumerate(places):
            statement = search_ancestor(node, *_STATEMENTS) or node
            signature = search_ancestor(node, "parameters", "decorator")
            if signature is not None and node.type == "operator":
                continue  # a `*` between parameters multiplies nothing
            if lines[line - 1].lstrip().startswith(("class ", "@dataclass")):
                continue  # the type checker sees who changes what is frozen
            inside = not signature and search_ancestor(node, "funcdef") is not None
            with suppress(AttributeError):  # `except module.Error`, which Cosmic Ray cannot change
                mutated = _Once(operator, occurrence).walk(get_ast(source)).get_code()
                after = mutated.splitlines()
                changed = after[line - 1 : line + len(after) - len(lines)]
                if mutated not in seen:
                    seen.add(mutated)
                    text = " ".join(part.strip() for part in changed)
                    yield Mutant(
                        line, lines[line - 1].strip(), text, mutated, statement.start_pos[0], inside
                    )
