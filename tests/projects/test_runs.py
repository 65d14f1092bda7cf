"""Runs of a project in one process: random changes of its files, deaths, and other definitions. Oracle: DuckDB."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.commands.main import main
from crown.errors import DamagedStateError, ProjectError
from crown.projects.database import ProjectDatabase
from tests.marks import seeds, slow
from tests.projects.shop import SPECIFICATION, SQL, Shop


def run(shop: Shop) -> None:
    with crown.database(shop.folder) as db:
        db.run()
        db.write_tables()


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_after_every_run_the_tables_are_what_the_files_say(tmp_path: Path, seed: int) -> None:
    shop = Shop(tmp_path / "p", seed)
    for _ in range(4):
        run(shop)
        shop.check()
        with crown.database(shop.folder) as db:
            for _ in range(4):
                shop.change()
                db.run()
                db.check_invariants()
            db.write_tables()
        shop.check()
        shop.change()


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("before", [True, slow(False)])
def test_a_run_that_dies_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    shop = Shop(tmp_path / "p", 5)
    calls, real = 0, os.replace
    for step in range(40):
        with monkeypatch.context() as patch:
            left = step

            def replace(*given: object) -> None:
                nonlocal left, calls
                left, calls = left - 1, calls + 1
                if left < 0 and before:
                    raise Died
                real(*given)  # type: ignore[arg-type]
                if left < 0:
                    raise Died

            patch.setattr(os, "replace", replace)
            try:
                run(shop)
            except Died:
                pass
            else:
                break
        run(shop)
        shop.check()
        shop.add("sales")
        shop.add("shops")
    assert calls > 5


def test_only_what_has_changed_is_read_and_written(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 2)
    run(shop)
    tables = shop.folder / "storage" / "embedded" / "tables"
    inodes = {file.stem: file.stat().st_ino for file in tables.glob("*.parquet")}
    shop.add("shops")
    with crown.database(shop.folder) as db:
        report = db.run()
        db.write_tables()
        assert {name: how for name, (_, how) in report.read.items()} == {
            "sales": "no new file",
            "shops": "1 new files",
            "clicks": "no new file",
        }
        version = report.version
        assert db.run().version == version
    after = {file.stem: file.stat().st_ino for file in tables.glob("*.parquet")}
    assert {name for name in inodes if inodes[name] != after[name]} <= {"by_city"}
    shop.check()


def test_views_are_added_changed_and_dropped_while_the_others_keep_their_state(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 3)
    run(shop)
    shop.define(
        SQL.replace("total > 10", "total > 5") + "CREATE MATERIALIZED VIEW all_shops AS SELECT shop FROM shops;"
    )
    with crown.database(shop.folder) as db:
        assert "all_shops" in db
        assert db["all_shops"].count() > 0, "it is filled from the state"
        assert Counter(row["shop"] for row in db["big"]) == Counter(
            row["shop"] for row in db["totals"] if row["total"] > 5
        )
        db.write_tables()
    shop.define(SQL)
    run(shop)
    shop.check()


def test_a_column_more_has_its_source_read_again_and_the_others_not(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 4)
    run(shop)
    shop.specify(SPECIFICATION.replace("shop STRING, city", "country STRING, shop STRING, city"))
    for file in (shop.folder / "data" / "shops").iterdir():
        lines = file.read_text().splitlines()
        file.write_text("\n".join([f'{lines[0]},"country"', *(f"{line},NL" for line in lines[1:])]) + "\n")
    with crown.database(shop.folder) as db:
        assert {name: how for name, (_, how) in db.run().read.items()} == {
            "sales": "no new file",
            "shops": "read in full and compared",
            "clicks": "no new file",
        }
        db.write_tables()
    shop.check()


def test_a_run_that_fails_after_other_columns_leaves_the_rows_of_the_views(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 5)
    run(shop)
    with crown.database(shop.folder) as db:
        before = {name: Counter(tuple(row.values()) for row in db[name]) for name in db.views}
    assert all(before.values())
    more = SPECIFICATION.replace("city STRING", "city STRING, size BIGINT").replace("n BIGINT", "n BIGINT, more BIGINT")
    bad, fine = shop.folder / "data" / "shops" / "bad.csv", shop.folder / "data" / "clicks" / "9.json"
    shop.specify(more)
    bad.write_text('"shop","city","size"\n"a","x","y"\n')
    fine.write_text('{"shop": "a", "n": 3, "more": 4}\n')
    for _ in range(2):  # also where the first of them has changed the tables
        with crown.database(shop.folder) as db:
            with pytest.raises(ProjectError, match="has no column size"):
                db.run()
            assert {name: Counter(tuple(row.values()) for row in db[name]) for name in db.views} == before
            assert db.table("shops").column_names == ["shop", "city", "size", "_weight"]
    for file in (shop.folder / "data" / "shops").iterdir():
        lines = file.read_text().splitlines()
        file.write_text("\n".join(['"shop","city","size"', *(f"{line},7" for line in lines[1:])]) + "\n")
    bad.unlink()
    for file in (shop.folder / "data" / "clicks").iterdir():
        if file != fine:
            file.unlink()  # a stream keeps its rows
    shop.clicks.append(("a", 3))
    with crown.database(shop.folder) as db:
        report = db.run()
        assert report.changed == {"clicked": (1, 0)}, "no other view reads what has changed"
        assert set(db.table("shops")["size"].to_pylist()) == {7}
        assert set(db.table("clicks")["more"].to_pylist()) == {None, 4}
        db.write_tables()
    shop.check()
    for text, said in (
        (more.replace("n BIGINT", "n STRING"), "source clicks: n has another type than before, and a stream does not"),
        (more.replace("more BIGINT", "other BIGINT NOT NULL"), "source clicks: other is a new column that is NOT NULL"),
    ):
        shop.specify(text)
        with pytest.raises(ProjectError, match=said):
            crown.database(shop.folder)
    shop.specify(more)
    run(shop)
    shop.check()


def test_a_damaged_state_says_what_computes_it_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 7)
    run(shop)
    state = shop.folder / "storage" / "embedded" / "state"
    for file in (*state.glob("*.snapshot"), *state.glob("*.log")):
        whole = file.read_bytes()
        file.write_bytes(whole[:200] + bytes(200) + whole[400:])
    with pytest.raises(
        DamagedStateError, match=rf"does not match\. Restore {state} from a copy, or delete it: the next"
    ):
        crown.database(shop.folder)
    (state / "meta.json").unlink()
    with pytest.raises(DamagedStateError, match=rf"meta.json is missing\. Restore {state} from a copy, or delete it"):
        crown.database(shop.folder)
    shutil.rmtree(state)
    run(shop)
    shop.check()


def test_a_static_source_is_read_again_when_told(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 6)
    shop.specify(f"{SPECIFICATION}  crown.static: shops\n")
    run(shop)
    before = shop.wanted("by_city")
    shop.add("shops")
    shop.add("sales")
    with crown.database(shop.folder) as db:
        assert "shops" not in db.run().read
        assert "shops" in db.run(sources=["SHOPS"]).read
        db.write_tables()
    shop.check()
    assert shop.wanted("by_city") != before


def test_two_flows_write_one_streaming_table(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 7)
    shop.define(
        "CREATE STREAMING TABLE clicked;\n"
        "CREATE FLOW one AS INSERT INTO clicked BY NAME SELECT shop, n FROM STREAM(clicks) WHERE n > 0;\n"
        "CREATE FLOW two AS INSERT INTO clicked BY NAME SELECT n + 100 AS n, shop FROM STREAM clicks WHERE n > 0;"
    )
    run(shop)
    (shop.folder / "data" / "clicks" / "3.json").unlink()
    run(shop)
    wanted = shop.wanted("clicked")
    wanted += Counter((shop_, n + 100) for shop_, n in wanted.elements())  # type: ignore[operator]
    found = pq.read_table(shop.folder / "storage" / "embedded" / "tables" / "clicked.parquet").to_pylist()
    assert Counter((row["shop"], row["n"]) for row in found) == wanted


@pytest.mark.parametrize("deletes", ["", "APPLY AS DELETE WHEN n < 0 "])
def test_an_auto_cdc_flow_keeps_the_newest_row_of_each_key(tmp_path: Path, deletes: str) -> None:
    shop = Shop(tmp_path / "p", 10)
    shop.specify(SPECIFICATION.replace("shop STRING, n BIGINT", "shop STRING, n BIGINT, at BIGINT"))
    shop.define(
        "CREATE STREAMING TABLE latest;\nCREATE FLOW f AS AUTO CDC INTO latest FROM STREAM(clicks) KEYS (shop)\n"
        f"{deletes}SEQUENCE BY at COLUMNS * EXCEPT (at) STORED AS SCD TYPE 1;"
        "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM latest;"
        "CREATE MATERIALIZED VIEW before AS SELECT LAG(n) OVER (PARTITION BY shop ORDER BY at) AS n FROM latest_changes"
    )
    for file in (shop.folder / "data" / "clicks").iterdir():
        file.unlink()
    order, newest = list(range(30)), dict[str, tuple[int, int]]()
    shop.random.shuffle(order)
    for number in range(6):
        rows = [(shop.random.choice("abc"), shop.random.randrange(-5, 9), at) for at in order[5 * number :][:5]]
        lines = [json.dumps({"shop": name, "n": n, "at": at}) + "\n" for name, n, at in rows]
        (shop.folder / "data" / "clicks" / f"f{number}.json").write_text("".join(lines))
        for name, n, at in rows:
            newest[name] = max(newest.get(name, (-1, -1)), (at, n))
        with crown.database(shop.folder) as db:
            db.run()
            found = {row["shop"]: row["n"] for row in db["latest"]}
            assert db["before"].count() == 5 * (number + 1), "the history of each key is a query over its changes"
            db.write_tables()
        assert found == {name: n for name, (_, n) in newest.items() if n >= 0 or not deletes}
    tables = shop.folder / "storage" / "embedded" / "tables"
    assert {file.stem for file in tables.glob("*.parquet")} == {"latest", "n", "before"}


def test_a_delta_table_is_read_by_its_versions(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    shop = Shop(tmp_path / "p", 8)
    shop.specify(SPECIFICATION.replace("parquet:data/sales", "delta:data/delta"))
    where = str(shop.folder / "data" / "delta")
    write_deltalake(where, pa.table({"shop": ["a", "b"], "amount": [4, 20]}))
    with crown.database(shop.folder) as db:
        db.run()
        write_deltalake(where, pa.table({"shop": ["a"], "amount": [3]}), mode="append")
        assert db.run().read["sales"] == (1, "1 files added, 0 removed")
        assert db["totals"].get({"shop": "a"}) == {"shop": "a", "n": 2, "total": 7}
        write_deltalake(where, pa.table({"shop": ["b"], "amount": [1]}), mode="overwrite")
        db.run()
        assert [row["shop"] for row in db["totals"]] == ["b"]


def test_the_tables_of_a_project_are_changed_by_its_sources_only(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p")
    with crown.database(shop.folder) as db:
        db.run()
        heard: list[pa.Table] = []
        db["totals"].subscribe(heard.append)
        for change in (lambda: db.insert("sales", [("a", 1)]), lambda: db.update({"sales": [("a", 1)]})):
            with pytest.raises(crown.CrownError, match=r"change these, and call run\(\)"):
                change()
        shop.add("sales")
        db.run()
        assert heard
        assert isinstance(db, ProjectDatabase)


def test_the_command_runs_a_project_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path / "p", 9)
    assert main(["run", str(shop.folder)]) == 0
    said = capsys.readouterr().out
    assert "source sales" in said
    assert "read in full" in said
    shop.check()
    shop.add("sales")
    assert main(["run", str(shop.folder / "spark-pipeline.yml"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["read"]["sales"][1] == "1 new files"
    shop.check()
    for words, message in (
        (["--input", "r=f"], "crown run of a project takes no --input: leave it out"),
        (["--source", "nothing"], "there are: sales, shops, clicks"),
    ):
        assert main(["run", str(shop.folder), *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["run", "SELECT 1 AS x", "--source", "r"]) == 2
    assert "--source is for projects" in capsys.readouterr().err


def test_csv_has_the_values_that_spark_reads(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.csv").write_text(
        "i,s,c,x,b,d,t,w\n1,a b,1.50,1e3,true,2024-03-31,2024-03-31 01:30:00,2024-03-31 01:30:00\n"
        "2,,,,,,2024-03-31T01:30:00+02:00,\n"
    )
    types = "i BIGINT, s STRING, c DECIMAL(10,2), x DOUBLE, b BOOLEAN, d DATE, t TIMESTAMP, w TIMESTAMP_NTZ"
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: types\nstorage: storage\nlibraries:\n  - glob:\n      include: views.sql\n"
        f'configuration:\n  crown.source.r: "csv:data?columns={types}"\n'
    )
    (tmp_path / "views.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT * FROM r")
    with crown.database(tmp_path) as db:
        db.run()
        one, two = sorted((tuple(row.values()) for row in db["v"]), key=lambda row: row[0])
    day = dt.datetime(2024, 3, 31, 1, 30)
    assert one == (1, "a b", Decimal("1.50"), 1000.0, True, day.date(), day.replace(tzinfo=dt.UTC), day)
    assert two == (2, *[None] * 5, dt.datetime(2024, 3, 30, 23, 30, tzinfo=dt.UTC), None)
