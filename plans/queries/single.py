"""Relations that have at most one row, whatever the tables hold.

>>> from plans import parse
>>> tables = {"t": {"columns": {"k": "int64", "v": "int64"}, "key": ["k"]}}
>>> at_most_one(parse("SELECT v FROM t WHERE k = 3", tables)), at_most_one(parse("SELECT k FROM t WHERE v = 3", tables))
(True, False)
>>> at_most_one(parse("SELECT v, SUM(k) AS s FROM t WHERE v = 3 GROUP BY v", tables))
True
"""

from __future__ import annotations

from plans.queries.algebra import Group, Over, Query, Relation, Source, Top
from plans.queries.conjunction import column_pair


def at_most_one(relation: Relation) -> bool:
    """Returns whether a relation certainly has at most one row. False may also mean that this is unknown."""
    if isinstance(relation, Top):
        return (relation.limit <= 1 and not relation.keys) or at_most_one(relation.input)
    if isinstance(relation, Over):
        return at_most_one(relation.input)
    if isinstance(relation, Group):
        return relation.whole or _fixed_keys(relation) or at_most_one(relation.input)
    if not isinstance(relation, Query):
        return False
    known = _fixed(relation)
    if relation.distinct and all(expr.columns <= known for _, expr in relation.outputs):
        return True
    left = list(relation.sources)
    while True:
        single = [source for source in left if source.join != "inner" or _is_single(source, known)]
        if not single:
            return not left
        left = [source for source in left if source not in single]
        for source in single:  # its columns have one value, and so do the columns equal to them
            if source.join == "left" and not _is_single(source, known):
                return False
            known |= {f"{source.alias}.{column.name}" for column in source.table.columns}
        known = _closed(relation, known)


def joined_as_value(relation: Relation) -> str:
    """Returns how a relation that is used as a value is joined: `single`, unless it certainly has at most one row."""
    return "left" if at_most_one(relation) else "single"


def _fixed_keys(group: Group) -> bool:
    """Returns whether all grouping keys are constant."""
    if not isinstance(group.input, Query):
        return False
    known, columns = _fixed(group.input), dict(group.input.outputs)
    return all(columns[key].columns <= known for key in group.keys)


def _fixed(query: Query) -> set[str]:
    """Returns the columns that conditions set equal to a constant."""
    found = set()
    for part in (part for one in query.conditions for part in one.conjuncts()):
        if part.op == "eq":
            for side, other in (part.args, part.args[::-1]):
                bare = side.args[0] if side.op == "cast" else side
                if bare.op == "col" and not other.columns:
                    found.add(str(bare.value))
    return _closed(query, found)


def _closed(query: Query, known: set[str]) -> set[str]:
    """Returns the columns with one value, including those that conditions equate with them."""
    pairs = [column_pair(part) for one in query.conditions for part in one.conjuncts()]
    found = set(known)
    while True:
        new = {
            side.value for pair in pairs if pair is not None and {one.value for one in pair} & found for side in pair
        }
        if new <= found:
            return found
        found |= new


def _is_single(source: Source, known: set[str]) -> bool:
    """Returns whether a source has at most one row, given the columns that have one value."""
    if source.input is not None:
        return at_most_one(source.input)
    key = source.table.key or (tuple(c.name for c in source.table.columns) if source.table.distinct else ())
    names = {column.name.lower(): column.name for column in source.table.columns}
    return bool(key) and all(f"{source.alias}.{names[name.lower()]}" in known for name in key)
