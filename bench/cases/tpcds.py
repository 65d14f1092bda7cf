"""TPC-DS as a stream: dimensions first, then sales, returns and stock in a sliding window. The queries are DuckDB's.

Tables and queries come from DuckDB's extension ``tpcds``, which is installed in a separate Python (``make
bench-peers``). It runs once, and its files are stored next to the results. A return is in the window as long as its
sale. ORDER BY and LIMIT at the end of a query are omitted, because systems keep different rows among equal ones.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.datasets import DataError
from bench.cases.streams import Stream, timed
from bench.cases.workload import Workload
from plans.types import type_of_arrow

SMALL = 0.01
"""The scale factor at which results are compared with DuckDB."""

FEW = ("tpcds-q51", "tpcds-q86")
"""Queries that have rows on very small data."""

_FACTS = {
    "store_sales": "ss_ticket_number", "store_returns": "sr_ticket_number", "catalog_sales": "cs_order_number",
    "catalog_returns": "cr_order_number", "web_sales": "ws_order_number", "web_returns": "wr_order_number",
    "inventory": "inv_date_sk",
}  # fmt: skip
"""The tables whose rows are inserted and deleted, and the column that determines the time."""

_INSTANTS = 10**9
_SCRIPT = """
import duckdb, duckdb_extension_tpcds, json, pathlib, sys
target, scale = pathlib.Path(sys.argv[1]), float(sys.argv[2])
found = pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
con = duckdb.connect(":memory:")
con.execute(f"LOAD '{next(iter(found))}'")
con.execute(f"CALL dsdgen(sf={scale})")
for (name,) in con.execute("SHOW TABLES").fetchall():
    con.execute(f"COPY {name} TO '{target / name}.parquet'")
texts = dict(con.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
(target / "texts.json").write_text(json.dumps(texts))
"""

TPCDS: dict[str, Workload] = {
    f"tpcds-q{n}": Workload(
        f"tpcds-q{n}",
        f"TPC-DS Q{n}",
        "",
        {},
        "tpcds",
        checked=0,
        check_options={"tpcds_scale": SMALL},
        dialect="duckdb",
    )
    for n in range(1, 100)
}


def prepare(folder: Path, scale: float, python: str) -> Path:
    """Generates tables and queries below ``folder`` unless they exist. Returns their folder. Raises DataError if the
    Python cannot generate them.
    """
    for one in (SMALL, scale):
        target = folder / "tpcds" / str(one)
        if not (target / "texts.json").exists():
            target.mkdir(parents=True, exist_ok=True)
            done = subprocess.run([python, "-c", _SCRIPT, str(target), str(one)], capture_output=True, text=True)
            if done.returncode:
                raise DataError(f"TPC-DS was not generated: {done.stderr.strip().splitlines()[-1]}")
    return folder / "tpcds"


def query(folder: Path, name: str) -> str:
    """Returns the text of a query, without the ORDER BY and LIMIT at its end."""
    text = json.loads((folder / "texts.json").read_text())[name.removeprefix("tpcds-q")].strip().rstrip(";")
    depth = 0
    for word in re.finditer(r"'[^']*'|[()]|\border\s+by\b|\blimit\b", text, re.IGNORECASE):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if depth == 0 and word[0][0].isalpha():
            return str(text[: word.start()])
    return str(text)


def schema(folder: Path, text: str) -> dict[str, dict[str, str]]:
    """Returns the tables that a query names, with the columns that it names; a dimension also has its key."""
    words = set(re.findall(r"\w+", text.lower()))
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        if path.stem in words:
            fields = list(pq.read_schema(path))
            read = [f for i, f in enumerate(fields) if f.name in words or (i == 0 and path.stem not in _FACTS)]
            read = read if path.stem not in _FACTS else [*read, *_missing(fields, _FACTS[path.stem], read)]
            found[path.stem] = {field.name: type_of_arrow(field.type) for field in read}
    return found


def _missing(fields: list[pa.Field], name: str, read: list[pa.Field]) -> list[pa.Field]:
    return [field for field in fields if field.name == name and field not in read]


def keys(tables: dict[str, dict[str, str]]) -> dict[str, tuple[str, ...]]:
    """Returns the keys of dimensions: their first columns."""
    return {name: (next(iter(columns)),) for name, columns in tables.items() if name not in _FACTS}


def stream(folder: Path, tables: dict[str, dict[str, str]], window: float = 0.5) -> tuple[Stream, int]:
    """Returns the stream over the tables, and the number of rows of dimensions that come first. If there are only
    dimensions, their rows are inserted and deleted.
    """
    read = {name: _table(folder, name, tuple(columns)) for name, columns in tables.items()}
    born, dies, first = {}, {}, 0
    times = {name: _FACTS[name] for name in tables if name in _FACTS}
    times = times or {name: next(iter(columns)) for name, columns in tables.items()}
    for name, table in read.items():
        if name in times:
            number = table.column(times[name]).to_numpy().astype(np.float64)
            low, high = number.min(initial=0), number.max(initial=1)
            place = ((number - low) / max(high - low, 1) * _INSTANTS).astype(np.int64)
            born[name], dies[name] = 2 * place, 2 * (place + int(window * _INSTANTS)) - 1
        else:
            born[name] = np.full(table.num_rows, -1)
            dies[name] = np.full(table.num_rows, np.iinfo(np.int64).max)
            first += table.num_rows
    rows = sum(table.num_rows for name, table in read.items() if name in times)
    return timed(f"TPC-DS ({folder.name}), {rows:,} rows in a window of a half", read, born, dies), first


@cache
def _table(folder: Path, name: str, columns: tuple[str, ...]) -> pa.Table:
    return pq.read_table(folder / f"{name}.parquet", columns=list(columns)).combine_chunks()
