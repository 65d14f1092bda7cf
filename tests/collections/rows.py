"""Random rows for one query of a collection: few per table, with keys that find rows and values that it asks for."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
from sqlglot import exp

from plans.types import decimal_parts
from tests.collections.texts import FOLDER
from tests.oracles.database import Database, Row
from tests.plans.tpcds_rows import literals

_COLUMN = re.compile(r"(\w+)(?::(\w+(?:\(\d+,\d+\))?)(?:=([\w,]+))?|>(\w+))")
_FIRST = datetime.datetime(2013, 7, 1)
_FEW = 4
_NEGATED = (exp.Not, exp.NEQ)


@dataclass(frozen=True)
class Column:
    """A column: its type, the values that fit, and the table whose keys it holds."""

    name: str
    type: str
    fitting: tuple[str, ...]
    target: str


def tables(collection: str) -> dict[str, tuple[int, tuple[Column, ...]]]:
    """Returns how many rows a table has, and its columns."""
    found = {}
    for line in (FOLDER / f"{collection}.txt").read_text().splitlines():
        head, _, said = line.partition(" ")
        name, _, many = head.partition("*")
        columns = (
            Column(c, type_, tuple(filter(None, fit.split(","))), to) for c, type_, fit, to in _COLUMN.findall(said)
        )
        found[name] = (int(many or _FEW), tuple(columns))
    return found


def schema(collection: str) -> dict[str, dict[str, str]]:
    """Returns the tables of a collection as a schema: the type of a key is that of the column it points to."""
    found = tables(collection)
    return {
        name: {column.name: column.type or found[column.target][1][0].type for column in columns}
        for name, (_, columns) in found.items()
    }


def asked(tree: exp.Expression, collection: str) -> dict[tuple[str, str], list[Any]]:
    """Returns the values that a query compares the columns of each table with, and some near them."""
    named = {table.alias_or_name.lower(): table.name.lower() for table in tree.find_all(exp.Table)}
    types = {name.lower(): {c.lower() for c in columns} for name, columns in schema(collection).items()}
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for node in tree.find_all(exp.EQ, exp.In, exp.Between, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like):
        if node.args.get("negate") or node.find_ancestor(*_NEGATED) is not None:
            continue
        parts = [*node.args.get("expressions", ()), node.expression, node.args.get("low"), node.args.get("high")]
        values = [value for part in parts if isinstance(part, exp.Expression) for value in literals(part)]
        if isinstance(node, (exp.GT, exp.LT)):
            values += [
                value + "1" if isinstance(node, exp.GT) else value[:-1] for value in values if type(value) is str
            ]
        for column in node.this.find_all(exp.Column):
            owners = [named[column.table.lower()]] if column.table.lower() in named else list(types)
            for owner in owners:
                if column.name.lower() in types.get(owner, ()):
                    known = found[owner, column.name.lower()]
                    if isinstance(node, exp.Like) and known:
                        known.append(f"{known[-1]}{values[0]}")  # `LIKE '%a%' AND LIKE '%b%'`
                    known += values
    return found


def rows(tree: exp.Expression, collection: str, seed: int) -> Database:
    """Returns a database for a query."""
    random, wishes, types, known = Random(seed), asked(tree, collection), schema(collection), tables(collection)
    used = {table.name.lower() for table in tree.find_all(exp.Table)}
    database = Database({name: types[name] for name in types if name.lower() in used})
    answers = answer(tree, collection)
    for name in database.schema:
        many, columns = known[name]
        made = answers[name]
        for number in range(1, many + 1):
            row: list[Any] = []
            for place, column in enumerate(columns):
                if column.target:
                    row.append(random.choice((1, 1, 2, 3)))  # few, so that rows meet
                elif place == 0 and not column.fitting:
                    row.append(number)
                elif random.random() < 0.04:
                    row.append(None)
                else:
                    asked_for = column.fitting or wishes[name.lower(), column.name.lower()]
                    turn = asked_for[(number + seed) % len(asked_for)] if asked_for else None
                    row.append(_value(random, turn, column.type, exact=bool(column.fitting)))
            made.append((tuple(row), 1))
        database.apply({name: made})
    return database


def answer(tree: exp.Expression, collection: str) -> dict[str, list[tuple[Row, int]]]:
    """Returns rows of tables, one per name in FROM, that make a row of a join together; none of a query
    with groups, subqueries or conditions on two names.

    Columns that are equal have one number. Of what a query compares columns with, DuckDB looks for values that fit.
    """
    found: dict[str, list[tuple[Row, int]]] = defaultdict(list)
    if tree.find(exp.Subquery, exp.Group, exp.With) is not None or tree.args.get("joins") is None:
        return found
    wishes, known = asked(tree, collection), tables(collection)
    kept: dict[str, list[exp.Expression]] = defaultdict(list)
    same: dict[str, str] = {}
    for condition in tree.args["where"].this.flatten():
        columns = [column.sql() for column in condition.find_all(exp.Column)]
        if isinstance(condition, exp.EQ) and len(columns) == 2:
            one, two = (same.get(column, column) for column in columns)
            same |= {column: two for column in (*same, one) if same.get(column, one) == one}
        elif len({column.partition(".")[0] for column in columns}) == 1 and "." in columns[0]:
            kept[columns[0].partition(".")[0]].append(condition)
        else:
            return found
    numbers = {root: 100 + number for number, root in enumerate(dict.fromkeys(same.values()))}
    for number, table in enumerate(tree.find_all(exp.Table)):
        alias, name = table.alias_or_name, table.name
        tried = {}
        for place, column in enumerate(known[name][1]):
            root = f"{alias}.{column.name}"
            if column.target or place == 0:
                tried[column.name] = [numbers.get(same.get(root, root), 200 + number)]
            else:
                tried[column.name] = _tried(wishes[name, column.name], column.type)
        found[name].append((_fitting(alias, tried, kept[alias]), 1))
    return found


def _tried(wishes: list[Any], type_: str) -> list[Any]:
    """Returns the values of which one should fit: those that are wished for, and some near them."""
    if type_ == "string":
        return ["a", *map(str, wishes), *(f"{one}{two}" for one in wishes for two in wishes if one != two), None]
    dated = type_ in ("date", "timestamp_ntz")
    made = [_value(Random(0), wish, type_, exact=True) for wish in (wishes if wishes or not dated else [_FIRST.date()])]
    step: Any = datetime.timedelta(days=1) if dated else 1
    return [*([] if dated else [0]), *(near for one in made for near in (one, one + step, one - step)), None]


def _fitting(alias: str, tried: dict[str, list[Any]], conditions: list[exp.Expression]) -> Row:
    """Returns a row that a relation's conditions keep. Columns that no condition reads have their first value."""
    read = {column.name for condition in conditions for column in condition.find_all(exp.Column)}
    columns = [f"UNNEST(${name}) AS {name}" for name in read]
    row = {name: values[0] for name, values in tried.items()}
    if columns:
        parts = ", ".join(f"(SELECT {column}) AS q{number}" for number, column in enumerate(columns))
        kept = " AND ".join(f"({condition.sql('duckdb')})" for condition in conditions)
        text = f"SELECT * FROM (SELECT * FROM {parts}) AS {alias} WHERE {kept} LIMIT 1"
        made = duckdb.execute(text, {name: tried[name] for name in read}).fetchall()
        assert made, f"no values fit {kept}"
        row |= dict(zip(read, made[0], strict=True))
    return tuple(row.values())


def _value(random: Random, wish: Any, type_: str, *, exact: bool) -> Any:
    """Returns a value of a type: one that is wished for, or near it, or any."""
    wish = wish if exact or random.random() < 0.96 else None
    near = 0 if exact else random.choice((0, 0, 0, 1, -1))
    if type_ == "string":
        return random.choice(("a", "b", "xb", "")) if wish is None else str(wish)
    if type_ in ("date", "timestamp_ntz"):
        day = _FIRST + datetime.timedelta(days=random.randrange(40), minutes=random.randrange(3))
        if wish is not None:
            when = datetime.datetime.fromisoformat(str(wish)) + datetime.timedelta(days=near)
            day = min(max(when, datetime.datetime(2000, 1, 1)), datetime.datetime(2019, 1, 1))
        return day.date() if type_ == "date" else day
    number = Decimal(str(wish)) if wish is not None and re.fullmatch(r"-?\d+(\.\d+)?", str(wish)) else None
    if decimal_parts(type_):
        return (number or Decimal(random.randrange(20000)) / 100) % 10000 + near
    return random.randint(0, 6) if number is None else int(number) + near
