"""Translates a query over columns into atoms over variables.

Columns that the query equates form one *variable*. A predicate moves to every atom that has all its variables. A
variable with a constant value disappears (which can make a cyclic query acyclic). A predicate across atoms is
*residual*. An atom keeps a column only if it is joined, output or read by a residual predicate; all other columns are
projected away before the engine reads the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from plans.errors import PlanError
from plans.expressions.build import FALSE, Expr, call, cast, col, conjoin, substitute
from plans.plan import Attribute
from plans.queries.algebra import Query, split
from plans.queries.duplicates import fixed_by_output, repetition
from plans.queries.variables import Classes, join_type
from plans.schema import Table

_CONSTANT_TYPES = ("bool", "int32", "int64", "string", "date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Atom:
    """An occurrence of a table: `columns[i]` holds the variable `attributes[i]`; `predicate` is over table columns.

    `padded`: if it has no row for the variables that it shares with other atoms, a row of NULLs replaces it.
    """

    name: str
    relation: str
    attributes: tuple[str, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None
    padded: bool = False


@dataclass(frozen=True)
class Conjunction:
    """Atoms, residual predicates and outputs over variables.

    `fixed` are the variables whose value follows from an output row: output variables, and those that keys derive from
    them. `counted`: the result is a bag, and the multiplicities of every atom count. `kept`: the variables of columns
    that atoms keep although no expression here reads them.
    """

    text: str
    atoms: tuple[Atom, ...]
    attributes: dict[str, Attribute]
    residual: tuple[Expr, ...]
    outputs: tuple[tuple[str, Expr], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    counted: bool = False
    kept: tuple[str, ...] = ()


EXISTS = "[exists]"
"""Suffix of the name of an atom of a counted query whose rows count once, because it only tests for existence."""


def column_pair(expr: Expr) -> tuple[Expr, Expr] | None:
    """Returns the two columns of `a = b` or `a <=> b`, ignoring casts that align their types."""
    if expr.op not in ("eq", "nseq"):
        return None
    bare = [arg.args[0] if arg.op == "cast" and arg.args[0].op == "col" else arg for arg in expr.args]
    if bare[0].op != "col" or bare[1].op != "col" or bare[0] == bare[1]:
        return None
    if bare != list(expr.args):
        try:
            join_type(bare[0], bare[1], bare[0].type, bare[1].type)
        except PlanError:
            if split(bare[0].value)[0] == split(bare[1].value)[0]:
                return None  # a comparison inside one relation may convert
            raise
        if bare[0].type == bare[1].type or expr.args[0].op == expr.args[1].op == "cast":
            return None  # the query casts them: CAST(a AS DATE) = CAST(b AS DATE) is no equality of a and b
    return bare[0], bare[1]


def _constant(expr: Expr) -> tuple[Expr, Expr] | None:
    """Returns the column and the literal of `column = literal`, or None."""
    if expr.op != "eq":
        return None
    for left, right in (expr.args, expr.args[::-1]):
        bare = left.args[0] if left.op == "cast" and left.args[0].type == "int32" else left
        fits = bare.type in _CONSTANT_TYPES and right.op == "literal" and right.value is not None
        if bare.op == "col" and fits and right.type in ("int64", bare.type) and _is_literal_of(right, bare.type):
            return bare, right
    return None


def _is_literal_of(literal: Expr, type_: str) -> bool:
    """Returns whether the value is in the range of the type: 5000000000 is not an int32."""
    return cast(literal, type_).op == "literal"


def conjunction(query: Query, counted: bool = False, kept: Sequence[Expr] = ()) -> Conjunction:
    """Returns the atoms of a query.

    With `counted`, every source is an atom of its own, because all multiplicities affect the result. Sources of
    existential groups, which must be joined by equalities alone, become atoms whose rows count once. Without `counted`,
    raises PlanError if a row of a query without DISTINCT may occur more than once. `kept` are columns that the atoms
    keep.
    """
    classes, pending, constants = _classes(query)
    for column in kept:
        classes.add(column)
    aliases = {source.alias for source in query.sources}
    assert all(split(name)[0] in aliases for name in classes.parent), "a column is of no source"
    if not (query.distinct or counted):
        error = repetition(query, classes, constants)
        if error is not None:
            raise error
    members: dict[str, list[str]] = {}
    for name in classes.parent:
        members.setdefault(classes.find(name), []).append(name)
    predicates, residual_parts = _place(query, classes, members, constants, pending)
    return _assemble(query, classes, members, constants, predicates, residual_parts, counted, kept)


def is_set(query: Query) -> bool:
    """Returns whether the rows of the query are distinct: it has DISTINCT, or the declared keys prove it."""
    classes, _, constants = _classes(query)
    return query.distinct or repetition(query, classes, constants) is None


def _classes(query: Query) -> tuple[Classes, list[Expr], dict[str, Expr]]:
    """Returns the classes of equal columns, the other conditions, and the constants of the classes."""
    classes = Classes()
    for expr in [*query.conditions, *(expr for _, expr in query.outputs)]:
        for column in _column_exprs(expr):
            classes.add(column)
    pending: list[Expr] = []
    for condition in query.conditions:
        for part in condition.conjuncts():
            pair = column_pair(part)
            if pair is not None:
                classes.join(*pair, part.op == "nseq")
            else:
                pending.append(part)
    return classes, pending, _constants(classes, pending)


def _column_exprs(expr: Expr) -> Iterable[Expr]:
    return (node for node in expr.postorder() if node.op == "col")


def _constants(classes: Classes, pending: list[Expr]) -> dict[str, Expr]:
    """Returns the classes equal to a literal. Their `column = literal` conditions stay pending, and are pushed to every
    atom."""
    constants: dict[str, Expr] = {}
    for part in pending:
        found = _constant(part)
        if found is not None:
            root = classes.find(found[0].value)
            constants.setdefault(root, found[1])
    return constants


def _place(
    query: Query,
    classes: Classes,
    members: dict[str, list[str]],
    constants: dict[str, Expr],
    pending: list[Expr],
) -> tuple[dict[str, Expr], list[Expr]]:
    """Pushes each condition to every source that has a column of each of its classes. Other conditions are residual."""
    predicates: dict[str, list[Expr]] = {}
    residual: list[Expr] = []
    never = False  # a condition without columns is false: all sources are empty
    holders: dict[str, dict[str, str]] = {
        root: dict(reversed([split(name) for name in names])) for root, names in members.items()
    }
    for root, names in members.items():  # two columns of one source in one class: an equality inside the source
        equal = "eq" if root in classes.plain else "nseq"
        for alias, first in holders[root].items():
            for name in names:
                if split(name)[0] == alias and split(name)[1] != first:
                    left, right = _in_source(query, alias, first), _in_source(query, alias, split(name)[1])
                    predicates.setdefault(alias, []).append(call(equal, left, right))
    for part in pending:
        own = {split(name)[0] for name in part.columns}
        if len(own) <= 1 and _constant(part) is None:
            rest = part  # already over one source: its constants are left as written
        else:
            rest = substitute(part, lambda name: _fixed(name, classes, constants)) if _constant(part) is None else part
        known = verdict(rest)
        if known is not None:
            never = never or not known
            continue
        roots = {classes.find(name) for name in rest.columns}
        own = {split(name)[0] for name in rest.columns}
        targets = set.intersection(*(set(holders[root]) for root in roots))
        if len(own) == 1:
            alias = next(iter(own))
            local = substitute(rest, lambda name: col(split(name)[1], _type_of(query, name)))
            predicates.setdefault(alias, []).append(local)
            targets -= own
        elif not targets:
            residual.append(rest)
            continue
        for alias in sorted(targets):
            inside = {name: holders[classes.find(name)][alias] for name in rest.columns}
            local = substitute(rest, partial(_renamed, query, alias, inside))
            predicates.setdefault(alias, []).append(local)
    for source in query.sources:
        if source.join == "padded":  # a condition on its key does not hold for the other side
            parts = [substitute(one, lambda name: col(split(name)[1], _type_of(query, name))) for one in source.on]
            predicates.setdefault(source.alias, []).extend(parts)
    if never:
        return {source.alias: FALSE for source in query.sources}, []
    return {alias: conjoin(parts) for alias, parts in predicates.items() if parts}, residual


def verdict(condition: Expr) -> bool | None:
    """Returns whether a condition without columns holds; None if it has columns."""
    return None if condition.columns else condition.evaluate({}, 1)[0].as_py() is True


def _fixed(name: str, classes: Classes, constants: dict[str, Expr]) -> Expr:
    root = classes.find(name)
    return constants.get(root) or col(name, classes.type[name])


def _type_of(query: Query, name: str) -> str:
    alias, column = split(name)
    return query.source(alias).qualified(column).type


def _renamed(query: Query, alias: str, columns: Mapping[str, str], name: str) -> Expr:
    return _in_source(query, alias, columns[name])


def _in_source(query: Query, alias: str, column: str) -> Expr:
    return col(column, query.source(alias).qualified(column).type)


def _assemble(
    query: Query,
    classes: Classes,
    members: dict[str, list[str]],
    constants: dict[str, Expr],
    predicates: dict[str, Expr],
    residual_parts: list[Expr],
    counted: bool,
    kept: Sequence[Expr],
) -> Conjunction:
    needed = {classes.find(column.value) for column in kept}
    needed |= {classes.find(name) for _, expr in query.outputs for name in expr.columns}
    needed |= {classes.find(name) for expr in residual_parts for name in expr.columns}
    needed |= {root for root, names in members.items() if len({split(name)[0] for name in names}) > 1}
    needed -= set(constants)
    names = _variable_names(query, classes, members, needed)
    joined = {root for root in needed if len(members[root]) > 1}
    attributes = {
        names[root]: Attribute(names[root], classes.type[root], root in joined and root not in classes.plain)
        for root in sorted(needed, key=lambda root: list(names).index(root))
    }

    def variable(name: str) -> Expr:
        root = classes.find(name)
        if root in constants:
            return cast(constants[root], classes.type[root])
        return col(names[root], classes.type[root])

    atoms: list[Atom] = []
    for source in query.sources:
        columns: dict[str, str] = {}
        for column in source.table.columns:
            name = f"{source.alias}.{column.name}"
            if name in classes.parent and classes.find(name) in names:
                columns.setdefault(names[classes.find(name)], column.name)
        atom = Atom(
            source.alias,
            source.table.name,
            tuple(columns),
            tuple(columns.values()),
            predicates.get(source.alias),
            source.join == "padded",
        )
        if counted or not any(replace(atom, name=other.name) == other for other in atoms):
            atoms.append(atom)
    atoms = _without_nulls(atoms, {names[root] for root in joined & classes.plain}, query)
    if counted:
        asked = {source.alias for source in query.sources if source.group}
        atoms = [replace(atom, name=atom.name + EXISTS) if atom.name in asked else atom for atom in atoms]
    outputs = tuple((name, substitute(expr, variable)) for name, expr in query.outputs)
    tables = tuple(dict.fromkeys(source.table for source in query.sources))
    residual = tuple(dict.fromkeys(substitute(expr, variable) for expr in residual_parts))
    known = fixed_by_output(query, classes, constants)
    fixed = frozenset(name for root, name in names.items() if root in known)
    columns_kept = tuple(names[classes.find(column.value)] for column in kept)
    return Conjunction(
        query.text, tuple(atoms), attributes, residual, outputs, tables, query.notes, fixed, counted, columns_kept
    )


def _without_nulls(atoms: list[Atom], joined: set[str], query: Query) -> list[Atom]:
    """Adds predicates that drop the NULLs which the join of two equal atoms dropped before they were merged."""
    uses = Counter(name for atom in atoms for name in atom.attributes)
    out = []
    for atom in atoms:
        predicate = atom.predicate
        for name, column in zip(atom.attributes, atom.columns, strict=True):
            if name in joined and uses[name] == 1:
                known = call("not", call("isnull", _in_source(query, atom.name, column)))
                predicate = known if predicate is None else conjoin([predicate, known])
        out.append(replace(atom, predicate=predicate))
    return out


def _variable_names(query: Query, classes: Classes, members: dict[str, list[str]], needed: set[str]) -> dict[str, str]:
    """Returns a readable name per class.

    It is the query's own name of the variable, else the name of the output, else the name of the column if no other
    class has it, else alias_column.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()

    def take(root: str, *wishes: str) -> None:
        for preferred in wishes:
            if preferred.lower() not in taken:
                names[root] = preferred
                taken.add(preferred.lower())
                return
        take(root, *(f"{wishes[-1]}_{n}" for n in range(2, len(taken) + 3)))

    for column, name in query.names:
        if column in classes.parent and (root := classes.find(column)) in needed and root not in names:
            take(root, name)
    for name, expr in query.outputs:
        if expr.op == "col" and (root := classes.find(expr.value)) in needed and root not in names:
            take(root, name, name + "_1")
    count: dict[str, int] = {}
    for root in needed - set(names):
        for column in {split(name)[1].lower() for name in members[root]}:
            count[column] = count.get(column, 0) + 1
    for root, columns in members.items():
        if root in needed and root not in names:
            alias, column = split(columns[0])
            unique = [split(name)[1] for name in columns if count[split(name)[1].lower()] == 1]
            take(root, *(unique[:1] if unique else []), f"{alias}_{column}")
    return names
