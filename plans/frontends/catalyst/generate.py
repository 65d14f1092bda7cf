"""EXPLODE, POSEXPLODE and INLINE in Spark's logical plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import Expr, call
from plans.frontends.catalyst.blocks import Block, Named, Reading
from plans.frontends.catalyst.tree import Node
from plans.frontends.fields import at, generated
from plans.queries.algebra import split, unnested


def generate(node: Node, block: Block, reading: Reading, value: Callable[[Node, Block], Expr]) -> Block:
    """Returns the rows with the elements of an array, or the entries of a map, one in each row.

    `value` reads an expression over the columns of a block.
    """
    generator = node.tree("generator")
    assert generator is not None, "rows are made by something"
    kind = generator.kind.lower()
    if kind not in ("explode", "posexplode", "inline"):
        raise PlanError(f"{generator.kind} of Spark's plan is not supported", hint="use EXPLODE")
    array, shown = generated(kind, value(generator.child, block))
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
