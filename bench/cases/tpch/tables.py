"""TPC-H as a stream: reference tables first, then orders with their lines in a sliding window.

The program ``tpchgen-cli`` (PyPI package of that name) generates the tables once, and its files are stored next to the
results. The refresh functions of TPC-H insert new orders with their lines and delete old ones; here they do so all the
time. A query that reads neither has the suppliers' offers (``partsupp``) in the window instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.streams import Stream, timed
from plans import arrow_type

COLUMNS = {
    "customer": ("c_custkey", "c_nationkey", "c_mktsegment"),
    "orders": ("o_orderkey", "o_custkey", "o_orderdate"),
    "lineitem": ("l_orderkey", "l_linenumber", "l_partkey", "l_suppkey", "l_shipdate", "l_returnflag"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "part": ("p_partkey", "p_size"),
    "nation": ("n_nationkey", "n_regionkey"),
    "region": ("r_regionkey", "r_name"),
}
SCHEMA = {
    table: {
        column: "date"
        if column.endswith("date")
        else "string"
        if column in ("c_mktsegment", "l_returnflag", "r_name")
        else "int64"
        for column in columns
    }
    for table, columns in COLUMNS.items()
}


def generator() -> str | None:
    """Returns the ``tpchgen-cli`` program on this machine, or None."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.exists() else shutil.which("tpchgen-cli")


def prepare(folder: Path, scale: float) -> Path:
    """Generates the tables at that scale factor below ``folder`` unless they exist. Returns their folder."""
    target = folder / f"tpch-{scale}"
    if not all((target / f"{name}.parquet").exists() for name in COLUMNS):
        program = generator()
        if program is None:
            raise FileNotFoundError("tpchgen-cli")
        command = [program, "parquet", "-s", str(scale), "--output-dir", str(target)]
        subprocess.run(command, check=True, capture_output=True)
    return target


def stream(folder: Path, schema: Mapping[str, Mapping[str, str]], window: float = 0.2) -> Stream:
    """Returns the stream over the tables of ``schema`` in ``folder``: whole tables first, then orders and their lines
    in a window, or, if the schema has neither, offers.
    """
    tables = {name: _table(folder / f"{name}.parquet", tuple(columns.items())) for name, columns in schema.items()}
    never = np.iinfo(np.int64).max
    orders = np.sort(pq.read_table(folder / "orders.parquet", columns=["o_orderkey"]).column(0).to_numpy())
    width = int(window * len(orders))
    place, what = np.arange(len(orders)), f"{len(orders):,} orders"
    born = {name: np.full(table.num_rows, -1) for name, table in tables.items()}
    dies = {name: np.full(table.num_rows, never) for name, table in tables.items()}
    if "orders" in tables:
        born["orders"], dies["orders"] = 2 * place, 2 * (place + width) - 1
    if "lineitem" in tables:
        order_of_line = np.searchsorted(orders, tables["lineitem"].column("l_orderkey").to_numpy())
        born["lineitem"], dies["lineitem"] = 2 * order_of_line, 2 * (order_of_line + width) - 1
    if not {"orders", "lineitem"} & tables.keys() and "partsupp" in tables:
        place = _shuffled(tables["partsupp"].num_rows)
        width = int(window * len(place))
        born["partsupp"], dies["partsupp"] = 2 * place, 2 * (place + width) - 1
        what = f"{len(place):,} offers"
    return timed(f"TPC-H ({folder.name}), {what} in a window of {width:,}", tables, born, dies)


def _shuffled(rows: int) -> np.ndarray:
    """Returns a random position for each row, because in file order all offers of one part would be together."""
    return np.random.default_rng(7).permutation(rows)


@lru_cache(maxsize=len(COLUMNS))
def _table(path: Path, columns: tuple[tuple[str, str], ...]) -> pa.Table:
    table = pq.read_table(path, columns=[column for column, _ in columns])
    table = table.cast(pa.schema([(column, arrow_type(kind)) for column, kind in columns])).combine_chunks()
    return table.sort_by("o_orderkey") if "o_orderkey" in table.column_names else table
