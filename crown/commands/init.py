"""``crown init``: writes a folder with a runnable example to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from crown.errors import CrownError
from crown.guards.arguments import path_of

HELP = "write a runnable example into a new folder: a query, its schema, changes, and a program"

FILES = {
    "query.sql": """\
SELECT c.country, COUNT(*) AS orders, SUM(o.amount) AS total
FROM orders o JOIN customers c ON o.customer = c.id
GROUP BY c.country
""",
    "schema.json": """\
{
  "customers": {"columns": {"id": "int64", "country": "string"}, "key": ["id"]},
  "orders": {"id": "int64", "customer": "int64", "amount": "decimal(10,2)"}
}
""",
    "customers.csv": """\
id,country,_weight
1,NL,1
2,PT,1
3,NL,1
""",
    "orders.csv": """\
id,customer,amount,_weight
10,1,20.00,1
11,2,5.50,1
12,3,7.25,1
11,2,5.50,-1
13,2,9.00,1
""",
    "example.py": '''\
"""Keeps the totals of each country up to date, in a folder that survives crashes; run it as often as you like."""

import json
from pathlib import Path

import crown

here = Path(__file__).parent
query = (here / "query.sql").read_text()
schema = json.loads((here / "schema.json").read_text())

with crown.open(query, here / "totals", schema) as view:
    if view.batches == 0:
        view.update({"customers": [(1, "NL"), (2, "PT"), (3, "NL")]})
    number = view.batches
    deltas = view.apply({"orders": [{"id": 100 + number, "customer": 1 + number % 3, "amount": "2.50"}]})
    for row in deltas.to_pylist():
        print("+" if row.pop("_weight") > 0 else "-", row)
    print(f"after {view.batches} batches:", list(view))
''',
    "README.md": """\
# A view to start from

Try it:

    crown run query.sql --schema schema.json --input customers=customers.csv --input orders=orders.csv \\
        --batch-rows 2 --output -
    crown explain query.sql --schema schema.json
    python example.py

Rows with `+` are inserted into the result, rows with `-` are deleted from it. In an input file, the column `_weight`
has the number of copies of a row that are inserted (1) or deleted (-1). Without this column every row is inserted.
Replace the query, the schema and the files with your own.
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("folder", metavar="DIR", help="a folder that does not exist yet, or is empty")


def run(args: argparse.Namespace) -> int:
    """Writes the example, prints how to run it, and returns exit code 0. Raises CrownError if the folder is not
    empty, or cannot be written."""
    folder = path_of(args.folder, "DIR")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CrownError(f"{folder} already exists and is not empty; name a new folder")
    try:
        write(folder)
    except OSError as error:
        raise CrownError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    print(f"wrote {', '.join(FILES)} to {folder}; {folder / 'README.md'} says how to run them")
    return 0


def write(folder: Path) -> None:
    """Writes the files of the example."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
