"""``python carried.py FOLDER``: fills views in a folder, or opens those that another version of Python filled there."""

import sys
from pathlib import Path

import pyarrow.compute as pc

import crown

SCHEMA = {"orders": {"id": "int64", "shop": "string", "amount": "decimal(10,2)"}, "shops": {"name": "string"}}
QUERIES = {
    "groups": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY shop",
    "first": "SELECT id, shop, amount FROM orders ORDER BY amount DESC, id LIMIT 2",
    "alone": "SELECT o.id, o.shop FROM orders o LEFT JOIN shops s ON o.shop = s.name WHERE s.name IS NULL",
    "capitals": "SELECT in_capitals(shop) AS shop, COUNT(*) AS n FROM orders GROUP BY in_capitals(shop)",
}
FIRST = {"orders": [(1, "ä", "1.50"), (2, "b", "2.00"), (3, None, "0.10")], "shops": [("b",)]}
NEXT = {"orders": [(4, "ä", "7.00", 1), (2, "b", "2.00", -1)], "shops": [("ä", 1), ("b", -1)]}


def changed(view: crown.View, tables: list[str]) -> list[str]:
    """Returns the delta of the second batch."""
    columns = {table: [*SCHEMA[table], "_weight"] for table in tables}
    batch = {table: [dict(zip(columns[table], row, strict=True)) for row in NEXT[table]] for table in tables}
    return sorted(map(str, view.apply(batch).to_pylist()))


crown.function("in_capitals", lambda x: pc.utf8_upper(x), arguments=["string"], result="string", version="1")
folder = Path(sys.argv[1])
filled = folder.exists()
folder.mkdir(exist_ok=True)
for name, query in QUERIES.items():
    tables = [table for table in SCHEMA if table in query]
    schema, first = {table: SCHEMA[table] for table in tables}, {table: FIRST[table] for table in tables}
    view = crown.view(query, schema)
    view.update(first)
    if not filled:
        view.save(folder / f"{name}.crown")
    with crown.open(query, folder / name, schema) as kept:
        if not filled:
            kept.update(first)
            continue
        wanted = changed(view, tables)
        assert wanted
        assert changed(kept, tables) == wanted
    assert changed(crown.load(folder / f"{name}.crown"), tables) == wanted
