"""What a project in one process refuses: each is one sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import crown
from crown.projects.locations import Location
from crown.projects.sources import source
from tests.projects.shop import SPECIFICATION, SQL, Shop

STATEMENTS = [
    (
        "CREATE TABLE t (a INT)",
        r"a.sql:1: 'CREATE TABLE t \(a INT\)' is for Spark: crown run reads CREATE MATERIALIZED",
    ),
    ("SET spark.sql.ansi.enabled = false", "a.sql:1: .* is for Spark"),
    ("CREATE MATERIALIZED VIEW v", "a.sql:1: .* is for Spark"),
    ("\nCREATE MATERIALIZED VIEW v AS SELECT a FROM t", "a.sql:2: v reads t, which is neither a source nor a view"),
    (
        "CREATE MATERIALIZED VIEW `../v` AS SELECT shop FROM sales",
        "a.sql:1: '../v' is not a name of a view: use letters",
    ),
    ("CREATE TEMPORARY VIEW `a b` AS SELECT shop FROM sales", "'a b' is not a name of a view"),
    ("CREATE MATERIALIZED VIEW v AS SELECT x FROM sales", "the view v cannot be maintained: unknown column x"),
    ("CREATE MATERIALIZED VIEW v AS SELECT rand() AS x FROM sales", "use crown pipelines run, under which Spark"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT shop FROM w; CREATE MATERIALIZED VIEW w AS SELECT shop FROM v",
        "v -> w -> v",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT shop FROM v", "the view v cannot be maintained: the view v reads itself"),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x; CREATE TEMPORARY VIEW V AS SELECT 2 AS x", "two views called V"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT shop FROM STREAM(clicks)",
        "v reads a stream: create it as a streaming table",
    ),
    ("CREATE STREAMING TABLE t AS SELECT shop FROM sales", "the streaming table t is not defined by a stream"),
    ("CREATE STREAMING TABLE t", "the streaming table t has no flow; write CREATE FLOW, or AS SELECT"),
    (
        "CREATE FLOW f AS INSERT INTO t BY NAME SELECT shop FROM STREAM sales",
        "the flow writes to t, which is not a streaming table that was created before it",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT shop FROM sales; CREATE STREAMING TABLE t AS SELECT shop FROM STREAM(v)",
        r"t reads STREAM\(v\), which is a view of the project: name one with crown.source.v, or create a materialized",
    ),
    (
        "CREATE STREAMING TABLE t AS SELECT shop FROM STREAM(u)",
        r"t reads STREAM\(u\), which is not a source of the project",
    ),
    (
        "CREATE STREAMING TABLE t; CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(clicks) KEYS (shop) SEQUENCE BY n "
        "STORED AS SCD TYPE 2",
        "a.sql:1: the flow f stores SCD type 2, a history of each key: store type 1",
    ),
    (
        "CREATE STREAMING TABLE t; CREATE FLOW f AS AUTO CDC INTO t FROM clicks",
        "the flow f is written CREATE FLOW name",
    ),
    (
        "CREATE STREAMING TABLE t AS SELECT shop FROM STREAM(clicks); "
        "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(clicks) KEYS (shop) SEQUENCE BY n",
        "t has another flow, and an AUTO CDC flow is the only one of its table",
    ),
    (
        "CREATE STREAMING TABLE t; CREATE MATERIALIZED VIEW T_changes AS SELECT shop FROM sales; "
        "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(clicks) KEYS (shop) SEQUENCE BY n",
        "t_changes is the table of the changes of t; rename the view t_changes",
    ),
    ("SELECT 'a", "a.sql: the text cannot be taken apart"),
    ("", "its libraries define no view"),
]


@pytest.mark.parametrize(("text", "message"), STATEMENTS)
def test_a_statement_that_cannot_be_kept_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    shop = Shop(tmp_path / "p")
    shop.define(text)
    with pytest.raises(crown.CrownError, match=message):
        crown.database(shop.folder)


def test_definitions_in_python_are_for_spark(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p")
    (shop.folder / "transformations" / "b.py").write_text("from pyspark import pipelines as dp\n")
    with pytest.raises(crown.ProjectError, match=r"b.py defines views by DataFrames of Spark.*use crown pipelines run"):
        crown.database(shop.folder)


SPECIFICATIONS = [
    (
        "crown.source.sales: parquet:data/sales",
        "crown.source.sales: orc:data/sales",
        "orc:.* is read by crown pipelines run",
    ),
    ("crown.source.sales: parquet:data/sales", "crown.source.sales: files", "write the kind of the table, a colon"),
    ("?columns=shop STRING, city STRING", "", "source shops: files of csv have no types: declare them"),
    ("shop STRING, city STRING", "shop", r"source shops: \?columns=shop: 'shop' does not declare a column"),
    (
        "shop STRING, city STRING",
        "shop STRING, city STRING, town STRING",
        "has no column town; name the columns in its first line",
    ),
    (
        "city STRING",
        "city BIGINT",
        r"row 1: column 'city': 'c\d+' does not fit int64: fix the file",
    ),
    ("parquet:data/sales", "parquet:data/nothing", "data/nothing does not exist; name a folder of files"),
    ("parquet:data/sales", "parquet:data", "has a folder in it"),
    (
        "configuration:",
        "configuration:\n  crown.into.totals: folder",
        "crown.into.totals: crown run writes Parquet files",
    ),
    ("configuration:", "configuration:\n  crown.into.nothing: folder", "there is no view called nothing"),
    ("configuration:", "configuration:\n  crown.static: nothing", "crown.static: there is no source nothing"),
    ("configuration:", "configuration:\n  spark.sql.ansi.enabled: false", "changes what queries mean"),
    (
        "configuration:",
        "configuration:\n  crown.on_bad_rows: quarantine",
        "yml: crown.on_bad_rows is no setting: write one of crown.keep, crown.static, crown.on_bad_row, crown.source",
    ),
    ("storage: storage", "storage: s3://a/b", "is kept in a local folder"),
    ("name: shop", "title: shop", "unknown field title"),
]


@pytest.mark.parametrize(("old", "new", "message"), SPECIFICATIONS)
def test_a_specification_that_cannot_be_used_says_what_to_do(tmp_path: Path, old: str, new: str, message: str) -> None:
    shop = Shop(tmp_path / "p")
    assert old in SPECIFICATION
    shop.specify(SPECIFICATION.replace(old, new))
    with pytest.raises(crown.CrownError, match=message), crown.database(shop.folder) as db:
        db.run()


def test_a_source_that_cannot_be_read_leaves_everything_as_it_was(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p")
    with crown.database(shop.folder) as db:
        before = db.run().version
        shop.add("shops")
        (shop.folder / "data" / "sales" / "bad.parquet").write_bytes(b"nothing")
        with pytest.raises(crown.CrownError, match=r"bad.parquet: its suffix means parquet"):
            db.run()
        (shop.folder / "data" / "sales" / "bad.parquet").unlink()
        report = db.run()
        assert report.version == before + 1
        assert report.read["shops"][1] == "1 new files"


def test_a_stream_of_a_delta_table_only_appends(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    shop = Shop(tmp_path / "p")
    shop.specify(SPECIFICATION.replace("parquet:data/sales", "delta:data/delta"))
    shop.define(f"{SQL} CREATE STREAMING TABLE sold AS SELECT shop FROM STREAM(sales);")
    where = str(shop.folder / "data" / "delta")
    write_deltalake(where, pa.table({"shop": ["a"], "amount": [4]}))
    with crown.database(shop.folder) as db:
        db.run()
        write_deltalake(where, pa.table({"shop": ["b"], "amount": [1]}), mode="overwrite")
        with pytest.raises(crown.ProjectError, match="a stream only appends: read it in a materialized view"):
            db.run()


def test_a_project_takes_no_options_of_tables(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p")
    with pytest.raises(crown.CrownError, match=r"crown.database of a project has no option on_missing"):
        crown.database(shop.folder, on_missing="raise")
    with pytest.raises(crown.ProjectError, match=r"neither spark-pipeline.yml"):
        crown.database(tmp_path)
    with pytest.raises(crown.ProjectError, match=r"spark-pipeline.yml does not exist: name the folder or the file"):
        crown.database(tmp_path / "spark-pipeline.yml")
    (tmp_path / "dbt_project.yml").touch()
    with pytest.raises(crown.ProjectError, match=r"is a project of dbt, which needs Spark: write crown pipelines run"):
        crown.database(tmp_path)


@pytest.mark.parametrize(
    ("kind", "type_", "text"),
    [
        ("csv", "INT", "n\n1\n0x1F\n"),
        ("json", "INT", '{"n": 1}\n{"n": "0x1F"}\n'),
        ("json", "BOOLEAN", '{"n": 1}\n{"n": 2}\n'),
    ],
)
def test_a_value_of_a_file_is_not_turned_into_another(tmp_path: Path, kind: str, type_: str, text: str) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / f"1.{kind}").write_text(text)
    read = source("r", Location(kind, str(tmp_path / "r"), f"n {type_}"), False, False)
    with pytest.raises(crown.ProjectError, match=r"1\.\w+: row \d: column 'n': .* does not fit .*: fix the file"):
        read.changes({}, lambda: None)
