"""Tests whether two plans or programs differ only in names and the order of atoms.

A join core is a structure: atoms that read columns into variables, predicates over variables, outputs. The join tree is
ignored. Two structures are compared by color refinement: the color of a variable is refined by its occurrences, the
color of an atom by its variables, until nothing changes. Remaining ties are broken by trying. Stages of programs are
compared from the first to the last; the columns that they read of one another are compared by position. Names of output
columns, tables and their columns are visible to users, so they must be equal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from plans.expressions.expr import Expr
from plans.payloads.payload import COUNTED
from plans.plan import BagAtom, Node, Output
from plans.program import Maintainable, Program, program_of
from plans.programs.reads import feeds, occurrences
from plans.programs.stages import Feed, GroupStage, JoinStage, Stage, outputs_of
from plans.schema import STAGE, source_of
from plans.time.windows import Window

MAX_TRIALS = 2000
_FLAT = ("and", "or")
_UNORDERED = (*_FLAT, "eq", "ne", "nseq")
_MIRROR = {"gt": "lt", "ge": "le"}

Colours = Mapping[str, str]
_lower: Callable[[str], str] = str.lower


def isomorphic(one: Maintainable, other: Maintainable) -> bool:
    """Returns True if both give the same output columns and, by their form, the same rows from the same tables.

    Also returns False if the comparison would take more than ``MAX_TRIALS`` trials. Cost: a trial is O(atoms ·
    variables).
    """
    same = _names(one.output) == _names(other.output) and _windows(one) == _windows(other)
    return same and _last_label(one, other)


def difference(one: Maintainable, other: Maintainable) -> str:
    """Returns a description of what differs in the second query, if the two are not isomorphic."""
    for what, of in (("relations", _relations), ("columns", _columns)):
        before, now = of(one), of(other)
        if before != now:
            return f"it reads the {what} {_listed(now)}, not {_listed(before)}"
    if _windows(one) != _windows(other):
        return f"its windows are {_of_windows(other)}, not {_of_windows(one)}"
    if _names(one.output) != _names(other.output):
        return f"its output is {_shown(other.output)}, not {_shown(one.output)}"
    return "it has the same relations, columns and outputs, but joins, filters or computes in another way"


def _windows(query: Maintainable) -> dict[str, Window]:
    windows = query.windows if isinstance(query, Program) else ()
    return {window.relation.lower(): replace(window, relation="", by=window.by.lower()) for window in windows}


def _of_windows(query: Maintainable) -> str:
    return "; ".join(f"{name}: {window}" for name, window in sorted(_windows(query).items())) or "none"


def _names(output: Iterable[Output]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in output]


def _shown(output: Iterable[Output]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in output)


def _relations(query: Maintainable) -> Counter[str]:
    return Counter(atom.relation.lower() for atom in set(occurrences(query)))


def _columns(query: Maintainable) -> Counter[str]:
    found: set[str] = set()
    for atom in occurrences(query):
        read = {*atom.columns, *(atom.predicate.columns if atom.predicate is not None else ())}
        found |= {f"{atom.relation}.{name}".lower() for name in read}
    return Counter(found)


def _listed(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({times} times)" if times > 1 else name for name, times in sorted(names.items()))


# -- stages -----------------------------------------------------------------------------------------------------------


def _last_label(one: Maintainable, other: Maintainable) -> bool:
    """Returns True if the last stages are equal. Every stage is labelled by the first stage that equals it."""
    known: list[_Form] = []
    last = []
    for query in (one, other):
        labels: list[int] = []
        stages = (query if isinstance(query, Program) else program_of(query)).stages
        for number, stage in enumerate(stages):
            form = _form(stage, stages[:number], labels)
            found = next((i for i, seen in enumerate(known) if _alike(seen, form)), len(known))
            if found == len(known):
                known.append(form)
            labels.append(found)
        last.append(labels[-1])
    return last[0] == last[1]


@dataclass(frozen=True)
class _Atom:
    """``fixed``: everything except its variables; ``reads``: (column, variable) pairs."""

    fixed: str
    reads: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Form:
    """A stage as a structure. A stage other than a join has only ``fixed``.

    ``variables``: their fixed colors; ``ordered``: expressions that must be equal in this order; ``residual``: in any
    order.
    """

    fixed: str
    variables: Mapping[str, str]
    atoms: tuple[_Atom, ...]
    ordered: tuple[Expr, ...]
    residual: tuple[Expr, ...]
    terms: tuple[tuple[tuple[str, str], ...], ...]


_COLUMNS = (
    "keys", "arguments", "where", "column", "default", "since", "until", "summed", "bound", "low", "high", "point",
    "needs", "factors", "of",
)  # fmt: skip
"""The fields of stages, and of their parts, that name columns of the feeds."""


def _form(stage: Stage, before: tuple[Stage, ...], labels: list[int]) -> _Form:
    if isinstance(stage, JoinStage):
        return _of_join(stage, before, labels)
    places = {one.name: f"sum {i}" for i, one in enumerate(stage.summed)} if isinstance(stage, GroupStage) else {}
    for number, feed in enumerate(feeds(stage)):
        for i, column in enumerate(feed.columns):
            places.setdefault(column.name, f"{number} {i}")
    fixed: list[Any] = [[_feed(feed, before, labels) for feed in feeds(stage)]]
    if isinstance(stage, GroupStage):
        # The terms of the join's payload, which are part of its form, determine the summed values.
        fixed.append([(one.type, one.bits, one.digits) for one in stage.summed])
        inner = places | {aggregate.name: f"aggregate {i}" for i, aggregate in enumerate(stage.aggregates)}
        fixed.append(_shape((stage.outputs, stage.having), inner))
        stage = replace(stage, outputs=(), having=None, summed=(), exported=(), imported=())
    return _Form(repr((fixed, _shape(stage, places))), {}, (), (), (), ())


def _shape(value: Any, places: Mapping[str, str], of: str = "") -> Any:
    """Returns a part of a stage, in its field `of`, with positions in place of the names of columns, and without feeds
    and names of outputs."""
    if isinstance(value, Expr):
        return _text(value, places.__getitem__)
    if of == "terms" and isinstance(value, tuple) and value and isinstance(value[0], str):  # a factor and its kind
        return [places[value[0]], value[1]]
    if isinstance(value, tuple):
        return [_shape(part, places, of) for part in value]
    if isinstance(value, Feed) or not is_dataclass(value):
        return None if isinstance(value, Feed) else places.get(value, value) if of in _COLUMNS else value
    parts = [_shape(getattr(value, one.name), places, one.name) for one in fields(value) if one.name != "name"]
    return [type(value).__name__, *parts]


def _feed(feed: Feed, before: tuple[Stage, ...], labels: list[int]) -> str:
    if isinstance(feed.source, str):
        source, column = feed.source.lower(), _lower
    else:
        source, column = f"#{labels[feed.source]}", _places(before[feed.source])
    columns = [(output.type, _text(output.expr, column)) for output in feed.columns]
    return repr((source, columns, None if feed.where is None else _text(feed.where, column), feed.weight))


def _places(stage: Stage) -> Callable[[str], str]:
    """Returns the function from the names of a stage's columns to their positions."""
    places = {column.name.lower(): str(i) for i, column in enumerate(outputs_of(stage))}
    return lambda name: places[name.lower()]


# -- join cores -------------------------------------------------------------------------------------------------------


def _of_join(stage: JoinStage, before: tuple[Stage, ...], labels: list[int]) -> _Form:
    plan = stage.plan
    atoms = []
    for atom, weight in _weighed(stage):
        number, column = source_of(atom.relation.lower()), _lower
        if isinstance(number, int):
            column = _places(before[number])
        source = f"{STAGE}{labels[number]}" if isinstance(number, int) else number
        where = None if atom.predicate is None else _text(atom.predicate, column)
        reads = zip(map(column, atom.columns), atom.attributes, strict=True)
        padded = isinstance(atom, Node) and atom.padded
        made = _Atom(repr((source, where, weight, padded)), tuple(sorted(reads)))
        if weight == COUNTED or made not in atoms:  # an atom that only filters may occur twice
            atoms.append(made)
    terms = plan.payload.terms if plan.payload is not None else ()
    return _Form(
        repr(("join", stage.mode, plan.payload is not None, [column.type for column in plan.output])),
        {name: repr((attribute.type, attribute.null_safe)) for name, attribute in plan.attributes.items()},
        tuple(atoms),
        tuple(column.expr for column in plan.output),
        plan.residual,
        tuple(tuple((what, name) for _, name, what in term) for term in terms),
    )


def _weighed(stage: JoinStage) -> Iterator[tuple[Node | BagAtom, str]]:
    """Yields the atoms, and the kind of weight of their rows: empty if the result is a set."""
    payload = stage.plan.payload
    for number, node in enumerate(stage.plan.nodes):
        if node.bag is not None:
            counted = stage.plan.count is not None or (payload is not None and stage.plan.listed)
            weight = COUNTED if counted else ""
            yield from ((atom, weight) for atom in node.bag.atoms)
        elif node.kind != "input":
            continue
        elif payload is not None:
            yield node, payload.kinds[number]
        else:
            yield node, "" if stage.mode == "set" or node.name.endswith("]") else COUNTED


def _alike(one: _Form, other: _Form) -> bool:
    if (one.fixed, len(one.atoms), len(one.variables)) != (other.fixed, len(other.atoms), len(other.variables)):
        return False
    if sorted(atom.fixed for atom in one.atoms) != sorted(atom.fixed for atom in other.atoms):
        return False
    return _matched(one, one.variables, other, other.variables, [MAX_TRIALS])


def _matched(one: _Form, first: Colours, other: _Form, second: Colours, trials: list[int]) -> bool:
    """Returns True if the variables can be matched within their colors."""
    trials[0] -= 1
    if trials[0] < 0:
        return False
    first, second = _refined(one, first), _refined(other, second)
    sizes = Counter(first.values())
    if sizes != Counter(second.values()) or _drawn(one, first) != _drawn(other, second):
        return False
    alike = min((colour for colour, size in sizes.items() if size > 1), key=lambda c: (sizes[c], c), default=None)
    if alike is None:
        return True
    chosen = next(name for name, colour in first.items() if colour == alike)
    marked = {**first, chosen: "chosen"}
    return any(
        _matched(one, marked, other, {**second, name: "chosen"}, trials)
        for name, colour in second.items()
        if colour == alike
    )


def _refined(form: _Form, colours: Colours) -> dict[str, str]:
    """Returns the coarsest stable coloring that refines the given one."""
    present = dict(colours)
    for _ in range(len(present) + 1):
        seen: dict[str, list[str]] = {name: [] for name in present}
        for atom in form.atoms:
            whole = repr((atom.fixed, [(column, present[name]) for column, name in atom.reads]))
            for column, name in atom.reads:
                seen[name].append(f"{column} {whole}")
        for kind, expressions in (("residual", form.residual), *((f"{i}", (e,)) for i, e in enumerate(form.ordered))):
            for expression in expressions:
                for name in expression.columns:
                    marked = {**present, name: "here"}
                    seen[name].append(f"{kind} {_text(expression, marked.__getitem__)}")
        for number, term in enumerate(form.terms):
            for what, name in term:
                seen[name].append(f"{what} in term {number}")
        finer = {name: _digest(repr((present[name], sorted(seen[name])))) for name in present}
        if len(set(finer.values())) == len(set(present.values())):
            return finer
        present = finer
    return present


def _drawn(form: _Form, colours: Colours) -> str:
    """Returns the structure with colors in place of variables."""
    atoms = sorted(repr((a.fixed, [(column, colours[name]) for column, name in a.reads])) for a in form.atoms)
    residual = sorted(_text(expression, colours.__getitem__) for expression in form.residual)
    ordered = [_text(expression, colours.__getitem__) for expression in form.ordered]
    return repr(
        (atoms, residual, ordered, [sorted((what, colours[name]) for what, name in term) for term in form.terms])
    )


def _text(expression: Expr, column: Callable[[str], str]) -> str:
    """Returns an expression as text, with names from ``column``. Operands of commutative operators are sorted."""

    def written(node: Expr, args: list[tuple[str, str, list[str]]]) -> tuple[str, str, list[str]]:
        """Returns the operator, the text, and the operands."""
        value = column(node.value) if node.op == "col" else repr(node.value)
        operands = [text for _, text, _ in args]
        if node.op in _FLAT:
            operands = [text for op, whole, parts in args for text in (parts if op == node.op else [whole])]
        if node.op in _MIRROR:
            operands.reverse()
        if node.op in _UNORDERED:
            operands.sort()
        return node.op, _digest(f"{_MIRROR.get(node.op, node.op)} {node.type} {value} {operands}"), operands

    text: str = expression.fold(written)[1]
    return text


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
