"""Estimates rates from a sample: how many rows of a relation pass the predicate of each alias.

Two aliases of one relation have different rates if their predicates keep different rows. The rate of an alias is the
number of sampled changes (or, if there are none, of sampled rows) that its predicate keeps.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.files.values import parsed
from plans.plan import Plan
from plans.schema import Table
from plans.types import arrow_type


def sample_rates(made: Plan, sample: Mapping[str, pa.Table]) -> dict[str, float]:
    """Returns the rate of each alias of a plan's query, with which it can be planned again. Relations without a sample
    are left out.

    `sample` maps relations to Arrow tables with the relation's columns. Raises PlanError for an unknown relation or a
    missing column. Cost: one pass over the sample per alias.
    """
    given = {name.lower(): table for name, table in sample.items()}
    for name in given:
        made.table(name)  # a PlanError if the query does not use it
    rates: dict[str, float] = {}
    atoms = [node for node in made.nodes if node.kind == "input"]
    atoms += [atom for node in made.nodes if node.bag is not None for atom in node.bag.atoms]  # type: ignore[misc]
    for atom in atoms:
        table = given.get(atom.relation.lower())
        if table is None or "[" in atom.name:
            continue
        kept = table.num_rows
        if atom.predicate is not None:
            declared = made.table(atom.relation)
            columns = {name: _column(table, declared, name) for name in atom.predicate.columns}
            kept = int(pc.sum(pc.fill_null(atom.predicate.evaluate(columns), False)).as_py() or 0)
        rates[atom.name] = float(kept)
    return rates


def _column(table: pa.Table, declared: Table, name: str) -> pa.Array:
    found = next((column for column in table.column_names if column.lower() == name.lower()), None)
    wanted = declared.column(name)
    assert wanted is not None
    if found is None:
        raise PlanError(f"the sample of {declared.name} has no column {name}", hint="a CSV sample needs a header")
    values, type_ = table.column(found).combine_chunks(), arrow_type(wanted.type)
    try:
        return parsed(values, type_) if pa.types.is_string(values.type) else pc.cast(values, type_)
    except pa.ArrowInvalid as error:
        raise PlanError(f"the sample's column {declared.name}.{name}: {error}") from None
