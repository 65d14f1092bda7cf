"""Tables of a shop, a site and a market, and random changes of their rows, for the queries of `users.tsv`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from decimal import Decimal
from random import Random
from typing import Any

from tests.collections.texts import FOLDER
from tests.oracles.database import Database, Row, canonical

SCHEMA: dict[str, Any] = {
    "orders": {
        "id": "int64", "customer_id": "int64", "amount": "decimal(12,2)", "status": "string",
        "created_at": "timestamp_ntz", "updated_at": "timestamp_ntz", "tags": "array<string>", "props": "string",
        "payload": "string",
    },
    "customers": {
        "columns": {
            "id": "int64", "name": "string", "email": "string", "country": "string", "signup": "date",
            "first_name": "string", "last_name": "string",
        },
        "key": ["id"],
    },
    "items": {"order_id": "int64", "product_id": "int64", "qty": "int64", "price": "double"},
    "products": {"id": "int64", "name": "string", "category": "string", "parent": "int64"},
    "events": {
        "event_id": "string", "user_id": "int64", "name": "string", "event_type": "string", "ts": "timestamp_ntz",
        "url": "string", "payload": "string", "props": "map<string,string>",
    },
    "subs": {"sub_id": "int64", "plan": "string", "valid_from": "date", "valid_to": "date", "mrr": "decimal(10,2)"},
    "payments": {
        "columns": {
            "id": "int64", "order_id": "int64", "method": "string", "amount": "decimal(12,2)",
            "paid_at": "timestamp_ntz",
        },
        "key": ["id"],
    },
    "bid": {"auction": "int64", "bidder": "int64", "price": "int64", "datetime": "timestamp_ntz"},
    "auction": {
        "id": "int64", "itemname": "string", "seller": "int64", "category": "int64",
        "datetime": "timestamp_ntz", "expires": "timestamp_ntz",
    },
    "person": {"id": "int64", "name": "string", "city": "string", "state": "string", "datetime": "timestamp_ntz"},
    "trades": {"sym": "string", "ts": "timestamp_ntz", "px": "double", "qty": "int64", "side": "string"},
    "quotes": {"sym": "string", "ts": "timestamp_ntz", "bid": "double", "ask": "double"},
}  # fmt: skip


def lines() -> list[tuple[str, str, str]]:
    """Returns the queries: dialect, text, and how it is checked.

    `~` compares with a view that is given all rows at once. Any other text is the query for DuckDB; without one it is
    the query in the words that sqlglot finds.
    """
    found = [line.split("\t") for line in (FOLDER / "users.tsv").read_text().splitlines()]
    return [(dialect, text, how[0] if how else "") for dialect, text, *how in found]


_JSON = (
    '{"page":"home","ms":12,"user":{"id":3},"ref":"g"}', '{"page":"cart","ms":7}', '{"a":1,"b":[1,2],"c":{"d":"x"}}',
    "{}", '{"page":"home"}', '{"a":"q","b":"r"}', '{"a": 1, "b": {"c": "z"}}', '{"customer": {"name": "n"}}', "bad",
)  # fmt: skip


def row(random: Random, table: str, number: int) -> Row:
    """Returns a new row of a table, of so few values that rows meet; its number is its key, or a fraction of a second
    of its own."""
    of = random.choice

    def few() -> int:
        return random.randint(1, 6)

    def moment() -> dt.datetime:
        return dt.datetime(2024, of((1, 1, 2, 6)), few(), of((0, 9, 23)), random.randint(0, 59), of((0, 30)), number)

    def close(minutes: int = 0) -> dt.datetime:
        return dt.datetime(2024, 1, 1, 10, random.randint(0, minutes), random.randint(0, 40), number)

    def cents(most: int) -> Decimal:
        return Decimal(random.randint(1, most)) / 100

    at = moment()
    later = at + dt.timedelta(days=random.randrange(4))
    made: dict[str, tuple[Any, ...]] = {
        "orders": (
            number, few(), of((cents(30_000), cents(30_000), None)), of(("paid", "refund", "a", "20240102", "7", None)),
            at, of((later, None)), of((("a", "b"), ("x",), (), ("a", "c", "b"))), of(_JSON[:6]), of(_JSON),
        ),
        "customers": (
            number, of(("Ann B", "bot x", "Cy Dee")) + str(number),
            of(("a@gmail.com", "A@gmail.com", "b@yahoo.de", "c@x")), of(("DE", "FR", "", None)), at.date(), of("AB"),
            of(("L", None)),
        ),
        "items": (few(), few(), few(), of((1.5, 2.25, 9.0))),
        "products": (number, f"p{number}", of(("k1", "k2", None)), of((1, 2, None))),
        "events": (
            str(number), few(), of(("view", "cart", "purchase")), of("cv"), close(59),
            of(("https://x", "http://a.com/x?id=7", "f")), of(_JSON[:6]), of((None, (("utm_source", "g"),))),
        ),
        "subs": (
            few(), of(("free", "pro")), dt.date(2024, 1, 1) + dt.timedelta(number), of((dt.date(2024, 9, 1), None)),
            Decimal(random.randint(1, 99)),
        ),
        "payments": (
            number, few(), of(("card", "cash", "credit_card", "coupon")), of((Decimal(few()) / 4, cents(30_000))), at,
        ),
        "bid": (few(), few(), random.randint(1, 20_000), close()),
        "auction": (number, f"i{number}", few(), of((10, 11)), close(), close(1) + dt.timedelta(seconds=20)),
        "person": (number, f"n{number}", "c", of(("OR", "ID", "CA")), at),
        "trades": (of(("A", "B")), close(20), float(random.randint(10, 20)), few(), "b"),
        "quotes": (of(("A", "B")), close(20), float(few()), float(random.randint(10, 20))),
    }  # fmt: skip
    return made[table]


def changes(
    random: Random,
    database: Database,
    first: int,
    tables: Collection[str] = ("orders", "customers", "events", "payments"),
) -> dict[str, list[tuple[Row, int]]]:
    """Returns a batch: a third of the rows is deleted, and twelve are inserted, numbered from `first`."""
    batch = {}
    for name in tables:
        there = sorted(database.rows[name], key=repr)
        gone = random.sample(there, len(there) // 3)
        new = canonical(row(random, name, first + place) for place in range(12))
        batch[name] = [*((one, -1) for one in gone), *((one, 1) for one in new)]
    return batch
