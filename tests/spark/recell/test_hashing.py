"""Where Spark sends a row and where it is put when a state is cut anew is the same cell, for every type."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from spark_jobs.dispatch.hashing import bucket, xxhash64


def columns(rng, n=400):
    """Values of every type that rows are cut by, NULLs among them; texts of all lengths around the steps of a hash."""

    def some(make):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    moment = dt.datetime(1, 1, 1)
    wide = [Decimal(sign * 10**e + d).scaleb(-2) for e in range(38) for d in (-1, 0, 1) for sign in (1, -1)]
    wide = [value for value in wide if abs(value) < Decimal(10) ** 36] + [Decimal(0)]
    return {
        "i": pa.array(some(lambda: rng.randrange(-(2**31), 2**31)), pa.int32()),
        "l": pa.array(some(lambda: rng.choice((0, -1, 2**63 - 1, rng.randrange(-(2**60), 2**60)))), pa.int64()),
        "t": pa.array(some(lambda: "".join(rng.choice("abcé€😀") for _ in range(rng.randrange(45)))), pa.string()),
        "b": pa.array(some(lambda: rng.randbytes(rng.randrange(80))), pa.binary()),
        "o": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
        "d": pa.array(some(lambda: rng.randrange(-50_000, 50_000)), pa.int32()).cast(pa.date32()),
        "s": pa.array(
            some(lambda: moment + dt.timedelta(microseconds=rng.randrange(10**17))), pa.timestamp("us", "UTC")
        ),
        "f": pa.array(some(lambda: rng.choice((0.0, -0.0, float("nan"), float("inf"), rng.random()))), pa.float64()),
        "n": pa.array(some(lambda: Decimal(rng.randrange(-(10**18) + 1, 10**18)).scaleb(-3)), pa.decimal128(18, 3)),
        "w": pa.array(some(lambda: rng.choice(wide)), pa.decimal128(38, 2)),
    }


def test_hashes_are_those_of_spark_to_the_bit(spark, tmp_path):
    table = pa.table(columns(random.Random(4)))
    pq.write_table(table, tmp_path / "t.parquet")
    names = table.column_names
    zero = {name: F.col(name) + F.lit(0.0) if name == "f" else F.col(name) for name in names}
    wanted = [F.xxhash64(F.lit(3), zero[name]).alias(name) for name in names]
    wanted.append(F.xxhash64(F.lit(0), *zero.values()).alias("all"))
    wanted.append(F.pmod(F.xxhash64(F.lit(0), F.col("t")), F.lit(7)).alias("bucket"))
    theirs = spark.read.parquet(str(tmp_path / "t.parquet")).coalesce(1).select(*wanted).toArrow()
    n = table.num_rows
    for name in names:
        mine = xxhash64([table.column(name)], n, first=3)
        assert np.array_equal(mine, theirs.column(name).to_numpy()), name
    every = [table.column(name) for name in names]
    assert np.array_equal(xxhash64(every, n, first=0), theirs.column("all").to_numpy())
    assert np.array_equal(bucket(xxhash64([table.column("t")], n, first=0), 7), theirs.column("bucket").to_numpy())


def test_slices_and_nothing_have_hashes_too():
    table = pa.table(columns(random.Random(5)))
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        whole = xxhash64([column], len(column))
        assert np.array_equal(xxhash64([column.slice(17, 50)], 50), whole[17:67]), name
        assert len(xxhash64([column.slice(0, 0)], 0)) == 0
