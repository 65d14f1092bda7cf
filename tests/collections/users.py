"""Tables of a shop, and random changes of their rows, for queries as users of six systems write them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random
from typing import Any

from tests.oracles.database import Database, Row, canonical

SCHEMA: dict[str, Any] = {
    "orders": {
        "columns": {
            "id": "int64",
            "customer_id": "int64",
            "status": "string",
            "amount": "decimal(10,2)",
            "created_at": "timestamp_ntz",
            "updated_at": "timestamp_ntz",
            "tags": "array<string>",
            "payload": "string",
        },
        "key": ["id"],
    },
    "customers": {
        "columns": {
            "id": "int64",
            "email": "string",
            "first_name": "string",
            "last_name": "string",
            "country": "string",
            "created_at": "timestamp_ntz",
        },
        "key": ["id"],
    },
    "events": {
        "event_id": "string",
        "user_id": "int64",
        "event_type": "string",
        "ts": "timestamp_ntz",
        "url": "string",
        "props": "map<string,string>",
    },
    "payments": {
        "columns": {"id": "int64", "order_id": "int64", "method": "string", "amount": "decimal(10,2)"},
        "key": ["id"],
    },
}


def row(random: Random, table: str, number: int) -> Row:
    """Returns a new row of a table, of so few values that rows meet."""
    begun = datetime.datetime(2024, random.randint(1, 3), random.randint(1, 27), random.randrange(24), number % 60)
    at = begun if random.random() < 0.9 else None
    if table == "orders":
        status = random.choice(("paid", "a", "b", "x", "20240102", "7", None))
        amount = random.choice((None, Decimal(random.randrange(5000)) / 100))
        later = at and at + datetime.timedelta(days=random.randrange(4))
        tags = random.choice((None, (), ("x",), ("b", "a", None)))
        payload = random.choice((None, '{"a": 1, "b": {"c": "z"}}', '{"customer": {"name": "n"}}', "bad"))
        return number, random.randrange(4), status, amount, at, later, tags, payload
    if table == "customers":
        email = random.choice(("p@x.com", "P@x.com", "q@y.com", None))
        return number, email, random.choice("AB"), random.choice(("L", None)), random.choice(("NL", "PT")), at
    if table == "events":
        moment = datetime.datetime(2024, 1, random.randint(1, 2), random.randrange(24), random.randrange(60))
        url = random.choice(("http://a.com/x?id=7", "http://b.org/y", None))
        props = random.choice((None, (("utm_source", "g"),)))
        return str(number), random.randrange(3), random.choice("cv"), moment, url, props
    amount = random.choice((None, Decimal(random.randrange(5000)) / 100))
    return number, random.randrange(12), random.choice(("card", "cash")), amount


def changes(random: Random, database: Database, first: int) -> dict[str, list[tuple[Row, int]]]:
    """Returns a batch: some rows are deleted, and a few are inserted, numbered from `first`."""
    batch = {}
    for name, rows in database.rows.items():
        there = sorted(rows, key=repr)
        gone = random.sample(there, random.randint(0, min(2, len(there))))
        new = canonical(row(random, name, first + place) for place in range(random.randint(1, 5)))
        batch[name] = [*((one, -1) for one in gone), *((one, 1) for one in new)]
    return batch
