"""What a batch reads of a Delta table, and writes. Oracle: the sum of the deltas; files that cannot be read."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.errors import SparkJobError
from spark_jobs.storage.local import LocalFolder
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.net import net_of
from tests.marks import seeds

deltalake = pytest.importorskip("deltalake")

NUMBERS = [-(2**63), -(2**62), -5, 0, 1, 7, 2**62, 2**63 - 1]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]
Row = tuple[Any, Any, int]


def delta(rows: Counter[Row]) -> pa.Table:
    numbers, days, values = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"n": pa.array(numbers, pa.int64()), "d": pa.array(days, pa.date32()), "v": pa.array(values, pa.int32())}
    return pa.table({**columns, "_weight": pa.array(list(rows.values()), pa.int64())})


def rows_of(folder: Path) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row in deltalake.DeltaTable(folder).to_pyarrow_table().to_pylist():
        found[row["n"], row["d"], row["v"]] += row.get("_count", 1)
    return found


def changed(source: random.Random, have: Counter[Row], batch: int, keyed: bool, kind: str) -> Counter[Row]:
    """Deletes of rows that are there, and inserts: of the ends of all numbers and days, or of ever larger ones."""
    rows: Counter[Row] = Counter()
    for row, count in have.items():
        if source.random() < 0.3:
            rows[row] -= count if keyed else source.randrange(1, count + 1)
    for _ in range(6):
        if kind == "growing":
            row = (100 * batch + source.randrange(5), dt.date(2000 + batch, 1, 1), source.randrange(3))
        else:
            nulls = [None] if kind == "with NULLs" else []
            row = (source.choice(NUMBERS + nulls), source.choice(DAYS + nulls), source.randrange(3))
        there = {key[:2] for key in have if have[key] + rows[key] > 0} | {key[:2] for key in rows if rows[key] > 0}
        if not keyed or row[:2] not in there:
            rows[row] += 1
    return Counter({row: count for row, count in rows.items() if count})


ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a change feed": {"configuration": {"delta.enableChangeDataFeed": "true"}},
    "partitions": {"partition_by": ["v"]},
}
"""What a table, made before, may ask of those who write to it."""


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_a_table_holds_what_the_deltas_add_up_to(seed: int, asked: str, tmp_path: Path) -> None:
    source, keyed, kind = random.Random(seed), seed % 2 == 0, ("growing", "with NULLs", "ends")[seed % 3]
    have: Counter[Row] = Counter()
    for batch in range(6):
        rows = changed(source, have, batch, keyed, kind)
        net = net_of(delta(rows), ["n", "d"] if keyed else None, batch)
        if batch == 0 and ASKED[asked]:
            columns = [field for field in net.rows.schema if field.name != "_op"]
            deltalake.DeltaTable.create(tmp_path, deltalake.Schema.from_arrow(pa.schema(columns)), **ASKED[asked])
        DeltaResult(LocalFolder(tmp_path)).apply("s", batch, net)
        have.update(rows)
        have = +have
        assert rows_of(tmp_path) == have
        assert (tmp_path / "_change_data").is_dir() == (asked == "a change feed")


@pytest.mark.parametrize("keys", [["n"], None])
def test_new_rows_with_new_numbers_read_no_older_file(keys: list[str] | None, tmp_path: Path) -> None:
    table = DeltaResult(LocalFolder(tmp_path))
    day = DAYS[2]
    table.apply("s", 0, net_of(delta(Counter({(n, day, 0): 1 for n in range(50)})), keys, 0))
    (old,) = tmp_path.glob("*.parquet")
    whole = old.read_bytes()
    old.write_bytes(bytes(len(whole)))  # what reads it fails
    table.apply("s", 1, net_of(delta(Counter({(n, day, 0): 1 for n in range(60, 70)})), keys, 1))
    with pytest.raises(SparkJobError):
        table.apply("s", 2, net_of(delta(Counter({(49, day, 0): -1})), keys, 2))
    old.write_bytes(whole)
    table.apply("s", 2, net_of(delta(Counter({(49, day, 0): -1})), keys, 2))
    assert rows_of(tmp_path) == Counter({(n, day, 0): 1 for n in (*range(49), *range(60, 70))})
