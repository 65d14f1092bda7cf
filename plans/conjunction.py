"""From a query over columns to atoms over variables.

Columns that the query equates form one *variable*; a predicate moves to every atom that has all its variables; a
variable with a constant value disappears (which can make a cyclic query acyclic); what is left across atoms is
*residual*. An atom keeps a column only if it is joined, output or residual: everything else is projected away before
the engine sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from plans.errors import PlanError
from plans.expressions.build import Expr, call, cast, col, conjoin
from plans.query import Query, Source, split
from plans.schema import Table, decimal_parts

_CONSTANT_TYPES = ("bool", "int32", "int64", "string", "date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Attribute:
    """A variable: its type, and whether NULL joins with NULL in it (`<=>`)."""

    name: str
    type: str
    null_safe: bool = False


@dataclass(frozen=True)
class Atom:
    """An occurrence of a table: `columns[i]` holds the variable `attributes[i]`; `predicate` is over table columns."""

    name: str
    relation: str
    attributes: tuple[str, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None


@dataclass(frozen=True)
class Conjunction:
    """Atoms, residual predicates and outputs over variables, with set semantics.

    `fixed` are the variables whose value follows from an output row: output ones, and those that keys derive from them.
    """

    text: str
    atoms: tuple[Atom, ...]
    attributes: dict[str, Attribute]
    residual: tuple[Expr, ...]
    outputs: tuple[tuple[str, Expr], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()


class _Classes:
    """Union-find over qualified columns, with what is known of each class."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.type: dict[str, str] = {}
        self.plain: set[str] = set()  # roots with at least one `=` (not `<=>`)
        self.edges: list[tuple[str, str, bool]] = []

    def add(self, column: Expr) -> None:
        self.parent.setdefault(column.value, column.value)
        self.type.setdefault(column.value, column.type)

    def find(self, name: str) -> str:
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def join(self, left: Expr, right: Expr, null_safe: bool) -> None:
        self.add(left)
        self.add(right)
        a, b = self.find(left.value), self.find(right.value)
        type_ = join_type(left, right, self.type[a], self.type[b])
        plain = {a, b} & self.plain or not null_safe
        self.parent[b] = a
        self.type[a] = type_
        if plain:
            self.plain.add(a)


def join_type(left: Expr, right: Expr, one: str, two: str) -> str:
    """The type of a variable that joins columns of types `one` and `two`; PlanError if they do not join."""
    if one == two:
        return one
    if {one, two} == {"int32", "int64"}:
        return "int64"
    p, q = decimal_parts(one), decimal_parts(two)
    if p and q and p[1] == q[1]:
        return f"decimal({max(p[0], q[0])},{p[1]})"
    raise PlanError(
        f"{left.value} = {right.value} joins {one} with {two}",
        hint="the two columns of a join must have the same type; convert one of them before it enters the stream",
    )


def _column_pair(expr: Expr) -> tuple[Expr, Expr] | None:
    """The two columns of `a = b` or `a <=> b`, looking through the casts that align their types."""
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
    """Column and literal of `column = literal`."""
    if expr.op != "eq":
        return None
    for left, right in (expr.args, expr.args[::-1]):
        bare = left.args[0] if left.op == "cast" and left.args[0].type == "int32" else left
        fits = bare.type in _CONSTANT_TYPES and right.op == "literal" and right.value is not None
        if bare.op == "col" and fits and right.type in ("int64", bare.type) and _is_literal_of(right, bare.type):
            return bare, right
    return None


def _is_literal_of(literal: Expr, type_: str) -> bool:
    """Whether the value is one of the type: 5000000000 is none of int32."""
    return cast(literal, type_).op == "literal"


def conjunction(query: Query) -> Conjunction:
    """The atoms of a query. PlanError where its bag semantics is not that of a set."""
    classes = _Classes()
    for expr in [*query.conditions, *(expr for _, expr in query.outputs)]:
        for column in _column_exprs(expr):
            classes.add(column)
    pending: list[Expr] = []
    for condition in query.conditions:
        for part in condition.conjuncts():
            pair = _column_pair(part)
            if pair is not None:
                classes.join(*pair, part.op == "nseq")
            else:
                pending.append(part)
    constants = _constants(classes, pending)
    if not query.distinct:
        _check_bag_is_set(query, classes, constants)
    members: dict[str, list[str]] = {}
    for name in classes.parent:
        members.setdefault(classes.find(name), []).append(name)
    predicates, residual_parts = _place(query, classes, members, constants, pending)
    return _assemble(query, classes, members, constants, predicates, residual_parts)


def _column_exprs(expr: Expr) -> Iterable[Expr]:
    return (node for node in expr.postorder() if node.op == "col")


def _constants(classes: _Classes, pending: list[Expr]) -> dict[str, Expr]:
    """Classes fixed to a literal. Their `column = literal` conditions stay pending, to be pushed to every atom."""
    constants: dict[str, Expr] = {}
    for part in pending:
        found = _constant(part)
        if found is not None:
            root = classes.find(found[0].value)
            constants.setdefault(root, found[1])
    return constants


def _place(
    query: Query,
    classes: _Classes,
    members: dict[str, list[str]],
    constants: dict[str, Expr],
    pending: list[Expr],
) -> tuple[dict[str, Expr], list[Expr]]:
    """Push each condition to every source that has a column of each of its classes; the rest is residual."""
    predicates: dict[str, list[Expr]] = {}
    residual: list[Expr] = []
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
            rest = part  # over one source already: constants inside are left as written
        else:
            rest = part.substitute(lambda name: _fixed(name, classes, constants)) if _constant(part) is None else part
        if not rest.columns:
            verdict = rest.evaluate({}, 1)[0].as_py()
            if verdict is True:
                continue
            raise PlanError(f"the condition {part} never holds: the result is always empty", hint="remove it")
        roots = {classes.find(name) for name in rest.columns}
        own = {split(name)[0] for name in rest.columns}
        targets = set.intersection(*(set(holders[root]) for root in roots))
        if len(own) == 1:
            alias = next(iter(own))
            local = rest.substitute(lambda name: col(split(name)[1], _type_of(query, name)))
            predicates.setdefault(alias, []).append(local)
            targets -= own
        elif not targets:
            residual.append(rest)
            continue
        for alias in sorted(targets):
            inside = {name: holders[classes.find(name)][alias] for name in rest.columns}
            local = rest.substitute(partial(_renamed, query, alias, inside))
            predicates.setdefault(alias, []).append(local)
    return {alias: conjoin(parts) for alias, parts in predicates.items()}, residual


def _fixed(name: str, classes: _Classes, constants: dict[str, Expr]) -> Expr:
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
    classes: _Classes,
    members: dict[str, list[str]],
    constants: dict[str, Expr],
    predicates: dict[str, Expr],
    residual_parts: list[Expr],
) -> Conjunction:
    needed = {classes.find(name) for _, expr in query.outputs for name in expr.columns}
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
            source.alias, source.table.name, tuple(columns), tuple(columns.values()), predicates.get(source.alias)
        )
        if not any(replace(atom, name=other.name) == other for other in atoms):
            atoms.append(atom)
    atoms = _without_nulls(atoms, {names[root] for root in joined & classes.plain}, query)
    outputs = tuple((name, expr.substitute(variable)) for name, expr in query.outputs)
    tables = tuple(dict.fromkeys(source.table for source in query.sources))
    residual = tuple(dict.fromkeys(expr.substitute(variable) for expr in residual_parts))
    known = _fixed_by_output(query, classes, constants)
    fixed = frozenset(name for root, name in names.items() if root in known)
    return Conjunction(query.text, tuple(atoms), attributes, residual, outputs, tables, query.notes, fixed)


def _without_nulls(atoms: list[Atom], joined: set[str], query: Query) -> list[Atom]:
    """Where equal atoms were merged into one, the NULLs that their join dropped must go by a predicate."""
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


def _variable_names(query: Query, classes: _Classes, members: dict[str, list[str]], needed: set[str]) -> dict[str, str]:
    """A readable name per class.

    The query's own name of the variable, else the output's, else the column's if no other class has it, else
    alias_column.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()

    def take(root: str, *wishes: str) -> None:
        for wish in wishes:
            if wish.lower() not in taken:
                names[root] = wish
                taken.add(wish.lower())
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


def _closure(query: Query, classes: _Classes, known: set[str]) -> set[str]:
    """The classes that are fixed once those in `known` are: a row's key fixes the rest of the row."""
    known = set(known)
    todo = [source for source in query.sources if source.table.key]
    progress = True
    while progress:
        progress = False
        for source in list(todo):
            if not _open_columns(source, source.table.key, classes, known):
                names = [f"{source.alias}.{column.name}" for column in source.table.columns]
                known |= {classes.find(name) for name in names if name in classes.parent}
                todo.remove(source)
                progress = True
    return known


def _open_columns(source: Source, columns: Iterable[str], classes: _Classes, known: set[str]) -> list[str]:
    """Those of the columns that `known` does not fix."""
    names = [f"{source.alias}.{_spelled(source.table, column)}" for column in columns]
    return [name for name in names if name not in classes.parent or classes.find(name) not in known]


def _fixed_by_output(query: Query, classes: _Classes, constants: dict[str, Expr]) -> set[str]:
    shown = [name for _, expr in query.outputs if (name := injective(expr)) is not None]
    return _closure(query, classes, {classes.find(name) for name in shown} | set(constants))


def _check_bag_is_set(query: Query, classes: _Classes, constants: dict[str, Expr]) -> None:
    """SQL without DISTINCT: accept it where no result row can occur twice.

    That is so when every table is declared duplicate-free, and the output fixes the row of every table: the closure of
    the output columns under join equalities, constants and keys contains a key of each.
    """
    hint = "write SELECT DISTINCT, or declare the table's key: Table(..., key=(...)) or distinct=True"
    known = _fixed_by_output(query, classes, constants)
    for source in query.sources:
        if source.group:
            continue
        if not (source.table.key or source.table.distinct):
            raise PlanError(
                f"without DISTINCT, {source.alias} must be duplicate-free: table {source.table.name} declares no key",
                hint=hint,
            )
        key = source.table.key or tuple(column.name for column in source.table.columns)
        missing = _open_columns(source, key, classes, known)
        if missing:
            raise PlanError(
                "without DISTINCT, a result row could occur more than once",
                witness=f"the output does not fix {', '.join(missing)}",
                hint="write SELECT DISTINCT, or add these columns to the output",
            )
    for group in query.keys:
        if any(name not in classes.parent or classes.find(name) not in known for e in group for name in e.columns):
            raise PlanError(
                "without DISTINCT, a row of the DISTINCT subquery could lead to several result rows",
                witness="the output does not fix " + ", ".join(str(expr) for expr in group),
                hint="write SELECT DISTINCT in the outer query too, or add these columns to its output",
            )


def _spelled(table: Table, name: str) -> str:
    column = table.column(name)
    return column.name if column is not None else name


def injective(expr: Expr) -> str | None:
    """The variable that a value of the expression fixes: a column, perhaps behind a one-to-one cast."""
    if expr.op == "col":
        return str(expr.value)
    if expr.op != "cast" or expr.args[0].type not in ("int32", "int64", "date", "bool"):
        return None
    source, parts = expr.args[0].type, decimal_parts(expr.type)
    if parts is not None:
        holds = parts[0] - parts[1] >= {"int32": 10, "int64": 19}.get(source, 1)
    else:  # what does not fit becomes NULL
        holds = expr.type == "string" or (source, expr.type) == ("int32", "int64") or source == "bool"
    return injective(expr.args[0]) if holds else None
