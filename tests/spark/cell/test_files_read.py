"""What a cell reads of a file: the rows that its query reads, from row groups that may have some. Oracle: DuckDB."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plans
from crown.errors import ChangeError
from plans.schema import Column, Schema, Table
from plans.search.cells.exchanges import rounds
from spark_jobs.cell import files
from spark_jobs.dispatch.envelope import WEIGHT, cell_program, envelope_of
from spark_jobs.dispatch.shuffle import base_relations, made_of

TYPES = {"a": "int64", "b": "int32", "s": "string", "d": "date", "f": "float64"}
GROUP = 25


def reader_of(query, cells=1, table=None, whole=False):
    """Returns what reads the files of the only relation of a query for its cells, and the relation's tag."""
    schema = Schema.of({"t": TYPES}) if table is None else Schema.of({"t": table})
    (given, *_) = rounds(plans.program(query, schema).plain(), cells)
    envelope = envelope_of(given.maintained, cells=given.grid.cells, quarantine=False, roles=given.roles, whole=whole)
    (base,) = base_relations(given, envelope)
    read, tags = made_of(given, envelope, base)
    carried = Table(read.name, tuple(one for one in read.columns if one.name in envelope.placed[tags[0]]), read.key)
    roles = () if given.roles is None else tuple(given.roles[envelope.relations[tag]] for tag in tags)
    filed = files.Filed(carried, True, tuple(tags), roles)
    return files.Reader([filed], envelope, given.grid, cell_program(given.maintained, envelope)), tags[0]


def _counted(look, seen, checker, relation, rows):
    seen.append(rows.num_rows)
    look(checker, relation, rows)


def rows_of(query, path, cells=1, **how):
    """Returns the rows that the cells of a query take of a file, and how many rows were decoded for each cell."""
    found, decoded = Counter(), []
    for cell in range(cells):
        reader, tag = reader_of(query, cells, **how)
        with pytest.MonkeyPatch.context() as patch:
            seen: list[int] = []
            patch.setattr(files, "_demand_good", partial(_counted, files._demand_good, seen))
            for batch in reader._of_files([(tag, cell, str(path), 0)]):
                placed = reader._envelope.placed[tag]
                columns = [batch.column(f"s{placed[name]}") for name in TYPES if name in placed]
                columns.append(batch.column(WEIGHT))
                found.update(zip(*(map(repr, column.to_pylist()) for column in columns), strict=True))
        decoded.append(sum(seen))
        assert reader.read == pq.ParquetFile(path).metadata.num_rows, "rows that are left out count as read"
    return found, decoded


def written(path, rng, n=200, **given):
    """Writes a file whose row groups are of ranges of ``a``, ``s`` and ``d``, with NULLs and NaN."""
    at = np.arange(n)
    columns = {
        "a": pa.array([None if rng.random() < 0.1 else int(i) // 2 for i in at], pa.int64()),
        "b": pa.array([None if 50 <= i < 75 else rng.randrange(5) for i in at], pa.int32()),
        "s": pa.array([None if rng.random() < 0.1 else f"k{int(i) // 20:02}" for i in at], pa.string()),
        "d": pa.array([dt.date(2026, 1, 1) + dt.timedelta(days=int(i) // 10) for i in at], pa.date32()),
        "f": pa.array([float("nan") if rng.random() < 0.05 else float(i) for i in at], pa.float64()),
        WEIGHT: pa.array([rng.choice([1, 1, -1]) for _ in at], pa.int64()),
    } | given
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)
    return path


ATOMS = [
    "a > {n}", "a < {n}", "{n} <= a", "a = {n}", "a <> {n}", "a IN ({n}, {m})", "b = {m}", "b >= {n}", "b IS NULL",
    "NOT b IS NULL", "s = 'k0{m}'", "s > 'k0{m}'", "s IN ('k0{m}', 'zz')", "f > {n}", "f >= 1000",
    "a IS NOT DISTINCT FROM {n}",
    "d < DATE '2026-01-1{m}'", "d >= DATE '2026-01-1{m}'", "a > b", "s IS NULL",
]  # fmt: skip


def condition(rng, depth=2):
    """A random condition over the columns."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(ATOMS).format(n=rng.randrange(-5, 110), m=rng.randrange(5))
    return f"({condition(rng, depth - 1)} {rng.choice(['AND', 'OR'])} {condition(rng, depth - 1)})"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_rows_are_those_that_meet_the_conditions(tmp_path, seed):
    rng, left_out = random.Random(seed), 0
    path = written(tmp_path / "1.parquet", rng)
    connection = duckdb.connect()
    connection.register("held", pq.read_table(path))
    connection.execute("CREATE TABLE t AS FROM held")  # DuckDB leaves NaN out where a scan says that all is less
    table = connection.table("t")
    for _ in range(8):
        where = condition(rng)
        query = f"SELECT a, b, s, d, f FROM t WHERE {where}"
        expected = Counter(tuple(map(repr, row)) for row in table.filter(where).fetchall())
        for cells in (1, 3):
            found, decoded = rows_of(query, path, cells)
            assert found == expected, (where, cells)
            left_out += sum(200 - rows for rows in decoded)
    assert left_out > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({WEIGHT: pa.array([None] + [1] * 199, pa.int64())}, "is missing"),
        ({WEIGHT: pa.array([2**40] + [1] * 199, pa.int64())}, "weight"),
        ({"a": pa.array([-(2**63), *range(199)], pa.int64())}, "reserved for NULL"),
    ],
    ids=["no weight", "a weight too great", "a value that is NULL"],
)
def test_a_row_that_cannot_be_taken_is_refused_though_no_row_near_it_is_read(tmp_path, given, said):
    path = written(tmp_path / "1.parquet", random.Random(1), **given)
    for cells in (1, 2):
        with pytest.raises(ChangeError, match=said):
            rows_of("SELECT a, b FROM t WHERE d > DATE '2026-01-15'", path, cells)


def test_a_key_that_is_null_is_refused_though_no_row_near_it_is_read(tmp_path):
    path = written(tmp_path / "1.parquet", random.Random(1), b=pa.array([None] + [1] * 199, pa.int32()))
    table = Table("t", tuple(Column(name, kind) for name, kind in TYPES.items()), ("b",))
    with pytest.raises(ChangeError, match="b"):
        rows_of("SELECT a, b FROM t WHERE d > DATE '2026-01-15'", path, table=table)


def test_all_rows_are_read_where_one_occurrence_reads_all_or_all_decide(tmp_path):
    path = written(tmp_path / "1.parquet", random.Random(2))
    pair = "SELECT x.a, y.b FROM t x, t y WHERE x.a = y.a AND x.d > DATE '2026-01-15'"
    assert rows_of(pair, path)[1] == [200]
    assert rows_of(f"{pair} AND y.d < DATE '2026-01-03'", path)[1] == [75]
    assert rows_of("SELECT a, b FROM t WHERE d > DATE '2026-01-15'", path, whole=True)[1] == [200]
    assert rows_of("SELECT b, COUNT(*) AS n FROM t WHERE d > DATE '2026-01-15' GROUP BY b", path, 2)[1] == [50, 50]


def test_a_file_that_says_nothing_of_its_values_is_read_whole(tmp_path):
    path = written(tmp_path / "1.parquet", random.Random(2))
    pq.write_table(pq.read_table(path), path, row_group_size=GROUP, write_statistics=False)
    assert rows_of("SELECT a, b FROM t WHERE a > 90", path)[1] == [200]


def test_values_that_python_has_not_are_compared_as_a_file_has_them(tmp_path):
    """Dates before the year 1 or behind 9999, and texts that are no UTF-8."""

    def decoded(where, cells):
        reader, tag = reader_of(f"SELECT b FROM t WHERE {where}", cells)
        with pytest.MonkeyPatch.context() as patch:
            seen: list[int] = []
            patch.setattr(files, "_demand_good", partial(_counted, files._demand_good, seen))
            kept = sum(rows.num_rows for cell in range(cells) for rows in reader._of_files([(tag, cell, str(path), 0)]))
        return sum(seen), kept

    far = pa.array([-1_000_000 + 20_000 * i for i in range(200)], pa.int32()).cast(pa.date32())
    sizes = pa.py_buffer(np.arange(201, dtype=np.int32))
    broken = pa.StringArray.from_buffers(200, sizes, pa.py_buffer(b"\xff" * 200))
    path = written(tmp_path / "1.parquet", random.Random(1), d=far, s=broken)
    late = sum(days > 2_932_532 for days in far.cast(pa.int32()).to_pylist())
    for cells in (1, 2):
        assert decoded("d > DATE '9999-01-01'", cells) == (25 * cells, late)
        assert decoded("s = 'a'", cells) == (0, 0)
        assert decoded("a >= 0", cells)[0] == 200 * cells
