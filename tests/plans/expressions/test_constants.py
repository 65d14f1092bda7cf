"""Constants in expressions: they are evaluated once, decide branches of CASE, and mean what equal columns mean."""

from __future__ import annotations

import pyarrow as pa

from plans import Expr
from plans.expressions import evaluate
from plans.expressions.build import FUNCTIONS, call, col, lit
from plans.expressions.functions.function import constant
from tests.plans.expressions import expression_cases as cases

TEXTS = {"s": pa.array(["a/b", "", None, "c"])}
S = col("s", "string")


def _evaluated(monkeypatch, expr: Expr) -> list[str]:
    """Returns the operators that are evaluated for the rows of an expression."""
    prepared = evaluate.Evaluator([expr])
    made: list[str] = []
    apply = evaluate._applied
    monkeypatch.setattr(evaluate, "_applied", lambda node, args: made.append(node.op) or apply(node, args))
    assert len(prepared.evaluate(TEXTS, 4)[0]) == 4
    return made


def test_branches_that_no_row_can_choose_are_not_evaluated(monkeypatch) -> None:
    never, always = call("eq", lit("/"), lit("")), call("eq", lit(1), lit(1))
    unknown = call("eq", lit(1), Expr("literal", "int32"))
    one, other, last = call("upper", S), call("lower", S), call("reverse", S)
    assert _evaluated(monkeypatch, call("case", never, one, other)) == ["lower", "case"]
    assert _evaluated(monkeypatch, call("case", unknown, one, other)) == ["lower", "case"]
    assert _evaluated(monkeypatch, call("case", always, one, other)) == ["upper", "case"]
    some = call("eq", S, lit("c"))
    assert _evaluated(monkeypatch, call("case", never, one, some, other, last)) == ["eq", "lower", "reverse", "case"]
    assert _evaluated(monkeypatch, call("case", some, one, always, other, last)) == ["eq", "upper", "lower", "case"]


def test_expressions_without_columns_are_evaluated_once(monkeypatch) -> None:
    length = call("length", call("concat", lit("a"), call("upper", lit("b"))))
    assert _evaluated(monkeypatch, call("eq", call("length", S), length)) == ["length", "eq"]
    assert length.evaluate({}, 3).to_pylist() == [2, 2, 2]


def _spread(expr: Expr) -> tuple[Expr, dict[str, Expr]]:
    """Returns an expression with columns instead of the literals that are arguments of functions, and these."""
    literals: dict[str, Expr] = {}

    def spread(node: Expr, args: list[Expr]) -> Expr:
        kinds = FUNCTIONS[node.op].kinds(len(args)) if node.op in FUNCTIONS else None
        for i, kind in enumerate(kinds or ()):
            if i < len(args) and args[i].op == "literal" and args[i].value is not None and not constant(kind):
                name = f"literal {len(literals)}"
                literals[name], args[i] = args[i], col(name, args[i].type)
        return Expr(node.op, node.type, tuple(args), node.value)

    return expr.fold(spread), literals


def _shown(values: pa.Array) -> str:
    days, moments = pa.types.is_date(values.type), pa.types.is_timestamp(values.type)
    return repr((values.view(pa.int32() if days else pa.int64()) if days or moments else values).to_pylist())


def test_a_constant_argument_gives_what_a_column_of_it_gives() -> None:
    columns, found = cases.columns(), []
    for sql, _, _ in cases.cases():
        expr = cases.expression(sql)
        spread, literals = _spread(expr)
        more = {name: pa.repeat(one.scalar, cases.ROWS) for name, one in literals.items()}
        if more and _shown(expr.evaluate(columns)) != _shown(spread.evaluate({**columns, **more})):
            found.append(sql)
    assert not found
