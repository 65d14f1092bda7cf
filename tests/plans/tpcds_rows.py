"""Random rows of TPC-DS for one query: keys find their rows, and columns have the values that the query asks for."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from plans.types import decimal_parts
from tests.oracles.database import Database, Row
from tests.plans.tpcds import schema

_KEYS = {
    "date_sk": "date_dim", "time_sk": "time_dim", "item_sk": "item", "customer_sk": "customer",
    "cdemo_sk": "customer_demographics", "hdemo_sk": "household_demographics", "addr_sk": "customer_address",
    "store_sk": "store", "promo_sk": "promotion", "warehouse_sk": "warehouse", "ship_mode_sk": "ship_mode",
    "call_center_sk": "call_center", "catalog_page_sk": "catalog_page", "web_site_sk": "web_site",
    "web_page_sk": "web_page", "reason_sk": "reason", "income_band_sk": "income_band",
}  # fmt: skip
_SIZES = {"date_dim": 40, "item": 10, "customer": 12, "inventory": 60}
_SALES = {"store_returns": "store_sales", "catalog_returns": "catalog_sales", "web_returns": "web_sales"}
_SHARED = {
    "sr_item_sk": "ss_item_sk", "sr_ticket_number": "ss_ticket_number", "sr_customer_sk": "ss_customer_sk",
    "cr_item_sk": "cs_item_sk", "cr_order_number": "cs_order_number", "wr_item_sk": "ws_item_sk",
    "wr_order_number": "ws_order_number", "wr_returning_customer_sk": "ws_bill_customer_sk",
}  # fmt: skip
_YEARS = [str(year) for year in range(1998, 2003)]
_FIRST = datetime.date(1998, 1, 1)


def asked(tree: exp.Expression) -> dict[str, list[Any]]:
    """Returns the values that a query compares columns with. Names of columns of TPC-DS are different in all tables."""
    found: dict[str, list[Any]] = defaultdict(list)
    for node in tree.find_all(exp.EQ, exp.In, exp.Between, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like):
        columns = {column.name.lower() for column in node.this.find_all(exp.Column)}
        others = [*node.args.get("expressions", ()), node.expression, node.args.get("low"), node.args.get("high")]
        values = [value for part in others if isinstance(part, exp.Expression) for value in literals(part)]
        if isinstance(node, exp.Between) and len(values) == 2 and all(isinstance(v, int) for v in values):
            values += [(values[0] + values[1]) // 2]
        for column in columns:
            found[column] += values
    return found


def literals(node: exp.Expression) -> Iterator[Any]:
    """Yields the literals of an expression: numbers of sums, days around dates, texts of patterns."""
    made = simplify(node.copy())
    for literal in made.find_all(exp.Literal):
        if not literal.is_string:
            sign = -1 if isinstance(literal.parent, exp.Neg) else 1
            yield sign * (Decimal(literal.this) if "." in literal.this else int(literal.this))
        elif made.find(exp.Cast) is not None:
            day = datetime.date.fromisoformat(literal.this.strip()[:10]) if "-" in literal.this else _FIRST
            yield from (day + datetime.timedelta(days) for days in (-40, -7, 0, 5, 25, 80))
        else:
            yield literal.this.replace("%", "")


def rows(tree: exp.Expression, seed: int) -> Database:
    """Returns a database for a query: some rows per dimension, some hundreds per fact table."""
    random, wishes, tables = Random(seed), asked(tree), schema()
    wishes["calendar"] = [True] if seed % 2 else []
    wishes["d_year"] += [int(one.this) for one in tree.find_all(exp.Literal) if one.this in _YEARS]
    used = {table.name.lower() for table in tree.find_all(exp.Table)} & set(tables)
    needed = used | {_SALES[name] for name in used if name in _SALES}
    found: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(needed, key=lambda name: (name in _SALES, name)):
        many = _SIZES.get(name, 200 if name.endswith("_sales") else 60 if name in _SALES else 5)
        found[name] = []
        for number in range(1, many + 1):
            found[name].append(_row(random, name, tables[name], wishes, found, number))
    database = Database({name: tables[name] for name in used})
    database.apply({name: [(tuple(row.values()), 1) for row in found[name]] for name in used})
    return database


def _row(
    random: Random,
    name: str,
    columns: dict[str, str],
    wishes: dict[str, list[Any]],
    found: dict[str, list[dict[str, Any]]],
    number: int,
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    sale = random.choice(found[_SALES[name]]) if name in _SALES else {}
    fact = name.endswith("_sales") or name in _SALES or name == "inventory"
    for place, (column, type_) in enumerate(columns.items()):
        target = next((table for end, table in _KEYS.items() if column.endswith(end)), None)
        if column in _SHARED:
            row[column] = sale[_SHARED[column]]
        elif place == 0 and not fact:
            row[column] = number
        elif target is not None:
            row[column] = None if random.random() < 0.03 else random.randint(1, _SIZES.get(target, 5))
        elif random.random() < 0.04:
            row[column] = None
        elif column in wishes and random.random() < 0.92:
            row[column] = _fitting(random, random.choice(wishes[column] or [1]), type_)
        else:
            row[column] = _any(random, type_)
    if name == "date_dim" and wishes["calendar"]:
        row |= _calendar(random, wishes, {other["d_date"] for other in found[name]})
    return row


def _calendar(random: Random, wishes: dict[str, list[Any]], taken: set[datetime.date]) -> dict[str, Any]:
    """Returns the columns of a day that follow from one another: days that a query asks for, those a year later, and
    others where these are taken."""
    years = [year for year in wishes["d_year"] if isinstance(year, int)] or [2000]
    months = [month for month in wishes["d_moy"] if isinstance(month, int)] or range(1, 13)
    year, month = random.choice(years) + random.choice((0, 0, 1)), random.choice(months)
    days = [day for day in wishes["d_date"] if isinstance(day, datetime.date)]
    dates = [number for number in wishes["d_dom"] if isinstance(number, int)]
    day = random.choice(days) if days else datetime.date(year, month, random.choice(dates or (1, 2, 3, 10)))
    while day in taken:
        day += datetime.timedelta(random.randint(-9, 9))
    weeks = (day - datetime.date(1900, 1, 1)).days // 7
    return {
        "d_date": day, "d_year": day.year, "d_moy": day.month, "d_dom": day.day, "d_qoy": (day.month + 2) // 3,
        "d_week_seq": weeks, "d_month_seq": 12 * day.year + day.month, "d_day_name": f"{day:%A}",
        "d_dow": day.isoweekday() % 7, "d_quarter_name": f"{day.year}Q{(day.month + 2) // 3}",
    }  # fmt: skip


def _fitting(random: Random, wish: Any, type_: str) -> Any:
    """Returns a value of a type that is a literal, or near it."""
    if type_ == "string":
        return str(wish)
    if type_ == "date":
        return wish if isinstance(wish, datetime.date) else _any(random, type_)
    if isinstance(wish, datetime.date) or (isinstance(wish, str) and not wish.lstrip("-").isdigit()):
        return _any(random, type_)
    if decimal_parts(type_):
        return Decimal(wish).quantize(Decimal("0.01")) + random.choice((0, 0, 1))
    return int(wish) + random.choice((0, 0, 0, 1))


def _any(random: Random, type_: str) -> Any:
    if type_ == "string":
        return random.choice(("a", "b", "c"))
    if type_ == "date":
        return _FIRST + datetime.timedelta(random.randrange(1500))
    if decimal_parts(type_):
        return Decimal(random.randrange(0, 20000)) / 100
    return random.choice((random.randint(1, 12), 500)) if random.random() < 0.2 else random.randint(1, 12)


def changes(database: Database, seed: int) -> Iterator[dict[str, list[tuple[Row, int]]]]:
    """Yields seven batches: all rows in three, then deletes, of few rows and of many, then what was deleted."""
    random, parts = Random(seed), [defaultdict(list) for _ in range(3)]
    for name in sorted(database.rows):
        for row in sorted(database.rows[name].elements(), key=repr):
            random.choice(parts)[name].append(row)
    gone: dict[str, list[Row]] = defaultdict(list)
    there: dict[str, list[Row]] = defaultdict(list)
    for part in parts:
        for name, some in part.items():
            there[name] += some
        yield {name: [(row, 1) for row in some] for name, some in part.items()}
    for share in (0.01, 0.1, 0.4):
        lost = {name: [row for row in some if random.random() < share] for name, some in there.items()}
        for name, some in lost.items():
            gone[name] += some
            kept = list(there[name])
            for row in some:
                kept.remove(row)
            there[name] = kept
        yield {name: [(row, -1) for row in some] for name, some in lost.items()}
    yield {name: [(row, 1) for row in some] for name, some in gone.items()}
