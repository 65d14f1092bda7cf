"""Translates EXPLODE, POSEXPLODE and INLINE in Spark's logical plan, and STACK and JSON_TUPLE, which are INLINE of
structs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.frontends.catalyst.blocks import Block, Named, Reading
from plans.frontends.catalyst.scalars import type_of
from plans.frontends.catalyst.tree import Node
from plans.frontends.fields import at, generated
from plans.queries.algebra import split, unnested


def generate(node: Node, block: Block, reading: Reading, value: Callable[[Node, Block], Expr]) -> Block:
    """Returns the rows with the elements of an array, or the entries of a map, one per row.

    `value` translates an expression over the columns of a block.
    """
    generator = node.tree("generator")
    assert generator is not None, "rows are made by something"
    kind, given = generator.kind.lower(), [value(child, block) for child in generator.children]
    types = [type_of(out.fields["dataType"]) for out in node.trees("generatorOutput")]
    if kind == "stack":
        kind, given = "inline", [_stacked(given[0], given[1:], types)]
    elif kind == "jsontuple":
        kind, given = "inline", [_of_json(*given)]
    if kind not in ("explode", "posexplode", "inline"):
        raise PlanError(f"{generator.kind} of Spark's plan is not supported", hint="use EXPLODE")
    array, shown = generated(kind, *given)
    array = call("outer", array) if node.fields.get("outer") else array
    inside = [source for source in block.sources if source.alias in {split(name)[0] for name in array.columns}]
    if len(inside) != 1 or inside[0].join != "inner" or inside[0].group:
        whole = replace(block, columns=(*block.columns, Named(-1, "array", array)))
        whole = reading.closed(whole)[1]
        array, block, inside = whole.columns[-1].value, replace(whole, columns=whole.columns[:-1]), [*whole.sources]
    made = unnested(inside[0], array, reading.text)
    element = made.qualified(made.table.columns[-1].name)
    outputs = node.trees("generatorOutput")
    columns = [
        Named(out.id, str(out.fields["name"]), at(element, path)) for out, (_, path) in zip(outputs, shown, strict=True)
    ]
    sources = tuple(made if source is inside[0] else source for source in block.sources)
    return replace(block, sources=sources, columns=(*block.columns, *columns))


def _stacked(count: Expr, values: list[Expr], types: list[str]) -> Expr:
    """Returns the rows of STACK(count, values), padded with NULLs."""
    width = len(types)
    padded = [*values, *[NULL] * (int(count.value) * width - len(values))]
    rows = (padded[at : at + width] for at in range(0, len(padded), width))
    return call(
        "array", *(_struct([cast(value, type_) for value, type_ in zip(row, types, strict=True)]) for row in rows)
    )


def _of_json(text: Expr, *names: Expr) -> Expr:
    """Returns the single row of JSON_TUPLE: the values of an object at these names."""
    if any(name.op != "literal" for name in names):
        raise PlanError("JSON_TUPLE takes names as constants", hint="use GET_JSON_OBJECT")
    found = [call("get_json_object", text, lit(f"$['{name.value}']")) for name in names]
    return call("array", _struct(found))


def _struct(values: list[Expr]) -> Expr:
    pairs = ((lit(f"col{number}"), value) for number, value in enumerate(values))
    return call("named_struct", *(part for pair in pairs for part in pair))
