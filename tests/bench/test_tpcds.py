"""TPC-DS as a stream, over small tables that are made here."""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from bench.cases import tpcds
from bench.cases.datasets import DataError
from bench.cases.workloads import load
from bench.harness.sections.catalogue import SECTIONS
from bench.subjects.view import PublicView
from tests.bench.small import follow

TEXT = """
SELECT i_color, d_date, SUM(ss_net_paid), COUNT(sr_ticket_number) AS returns, AVG(ss_net_paid) / 3 AS third
FROM store_sales LEFT JOIN store_returns ON sr_ticket_number = ss_ticket_number AND sr_item_sk = ss_item_sk, item,
  (SELECT * FROM date_dim ORDER BY d_date_sk LIMIT 3) AS date_dim
WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND i_color <> 'order by (limit'
GROUP BY i_color, d_date ORDER BY 3 DESC, i_color LIMIT 2;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sales = {
        "ss_sold_date_sk": [n % 4 or None for n in range(60)],
        "ss_item_sk": [n % 3 for n in range(60)],
        "ss_ticket_number": [n // 2 for n in range(60)],
        "ss_net_paid": [Decimal(n * 7) / 100 for n in range(60)],
        "ss_list_price": [Decimal(n) for n in range(60)],
    }
    returns = {"sr_item_sk": [n % 3 for n in range(0, 60, 5)], "sr_ticket_number": [n // 2 for n in range(0, 60, 5)]}
    day = datetime.date(2000, 1, 1)
    tables = {
        "store_sales": pa.table(sales).cast(
            pa.schema(
                [(n, pa.decimal128(7, 2) if n in ("ss_net_paid", "ss_list_price") else pa.int32()) for n in sales]
            )
        ),
        "store_returns": pa.table(returns),
        "item": pa.table({"i_item_sk": [0, 1, 2], "i_color": ["red", "blue", None]}),
        "date_dim": pa.table({"d_date_sk": [1, 2, 3], "d_date": [day, day, day + datetime.timedelta(1)]}),
        "store": pa.table({"s_store_sk": [1]}),
    }
    (tmp_path / "0.01").mkdir()
    for name, table in tables.items():
        pq.write_table(table, tmp_path / "0.01" / f"{name}.parquet")
    (tmp_path / "0.01" / "texts.json").write_text(json.dumps({"1": TEXT}))
    return tmp_path


def test_a_query_is_maintained_while_sales_come_and_go(folder: Path) -> None:
    loaded = load("tpcds-q1", None, {"tpcds": str(folder), "tpcds_scale": 0.01})
    assert loaded.sql.strip().endswith("GROUP BY i_color, d_date")
    assert set(loaded.schema) == {"store_sales", "store_returns", "item", "date_dim"}
    assert list(loaded.schema["store_sales"]) == ["ss_sold_date_sk", "ss_item_sk", "ss_ticket_number", "ss_net_paid"]
    assert loaded.declared["item"]["key"] == ["i_item_sk"]
    first = loaded.stream.batch(0, loaded.first)
    assert {name: rows.num_rows for name, rows in first.items()} == {"item": 3, "date_dim": 3}
    assert (loaded.stream.weight < 0).sum() == 72
    assert follow(PublicView(loaded, "delta"), loaded, 7, every=1) > 3


def test_ties_of_doubles_are_rounded_as_duckdb_does() -> None:
    text = "SELECT round((ss_qty*1.00)/(n),2) AS ratio, SUM(jan_sales/w_warehouse_sq_ft) AS s FROM t GROUP BY ALL"
    rows = {"ss_qty": [29], "n": [200], "jan_sales": [Decimal("1.00")], "w_warehouse_sq_ft": [3]}
    with duckdb.connect(":memory:") as connection:
        connection.register("t", pa.table(rows).set_column(2, "jan_sales", pa.array(rows["jan_sales"])))
        assert connection.sql(text).fetchall() == [(0.14, 1 / 3)]
    columns = {"ss_qty": "int64", "n": "int64", "jan_sales": "decimal(3,2)", "w_warehouse_sq_ft": "int64"}
    view = crown.view(text, schema={"t": columns}, dialect="duckdb")
    view.apply({"t": pa.table(rows)})
    assert [tuple(row.values()) for row in view] == [(0.14, 1 / 3)]


def test_every_query_is_measured_beside_duckdb_and_compared_with_it() -> None:
    cells = SECTIONS["tpcds"]("normal")
    assert all(cell["checked"] for cell in cells if cell["engine"] == "crown-view")
    assert {cell["workload"] for cell in cells} == set(tpcds.TPCDS)
    assert {cell["engine"] for cell in cells} == {"crown-view", "duckdb-recompute"}


def test_a_python_without_the_generator_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="TPC-DS was not generated: ModuleNotFoundError"):
        tpcds.prepare(tmp_path, 0.01, sys.executable)
