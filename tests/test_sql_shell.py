"""``crown sql``: statements from a pipe, from ``-c`` and from a terminal, over a database that is there again."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.commands.main import main
from crown.errors import CrownError
from crown.shell.grammar import CreateTable, Insert, Select, statement
from crown.shell.printing import lines
from crown.shell.session import Session

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "crown", "sql"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

BEGIN = """
CREATE TABLE shops (id INT PRIMARY KEY, name VARCHAR(10) NOT NULL);  -- the key is checked
CREATE TABLE orders (id bigint, shop int, amount decimal(10,2), at timestamp);
INSERT INTO shops VALUES (1, 'it''s; a'), (2, 'b');
INSERT INTO orders VALUES (1, 1, 5.50, TIMESTAMP '2024-05-01 12:30:00'), (2, 2, 7, NULL),
  (3, 1, -1e1, '2024-05-01 12:30:00+02:00');
CREATE MATERIALIZED VIEW totals AS
  SELECT s.name, SUM(o.amount) AS total FROM orders o JOIN shops s ON o.shop = s.id GROUP BY s.name;
"""


def piped(folder: Path, text: str, *options: str) -> tuple[int, list[str], list[str]]:
    """Exit code, and lines on standard output and standard error, of the command as a process."""
    done = subprocess.run(
        [*COMMAND, str(folder), *options], input=text, capture_output=True, text=True, check=False, env=ENVIRONMENT,
        cwd=folder.parent,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def shell(folder: Path, text: str, *options: str) -> tuple[int, list[str], list[str]]:
    """The same of the command in this process."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", StringIO(text))
        patch.chdir(folder.parent)
        code = main(["sql", str(folder), *options])
    return code, out.getvalue().splitlines(), err.getvalue().splitlines()


def test_a_session_from_a_pipe_makes_a_database_that_python_opens(tmp_path: Path) -> None:
    code, out, err = piped(
        tmp_path / "db", BEGIN + "SELECT * FROM totals; SELECT name FROM totals WHERE total > 0;\n.tables\n"
    )
    assert (code, err) == (0, [])
    assert {*out[7:9]} == {"it's; a | -4.50", "b       |  7.00"}, "in any order"
    assert out[:7] + out[9:] == [
        "created the table shops",
        "created the table orders",
        "inserted 2 rows",
        "inserted 3 rows",
        "created the view totals: 2 rows",
        "name    | total",
        "--------+------",
        "(2 rows)",
        "name",
        "----",
        "b",
        "(1 row)",
        "table  shops(id int32, name string not null)  2 rows",
        "table  orders(id int64, shop int32, amount decimal(10,2), at timestamp)  3 rows",
        "view   totals(name string, total decimal(20,2))  2 rows",
    ]
    with crown.open_database(tmp_path / "db") as db:
        assert db["totals"].count() == 2
        assert db.insert("orders", [(9, 2, 1, None)])["totals"].num_rows == 2


def test_every_error_is_said_and_the_session_goes_on(tmp_path: Path) -> None:
    wrong = {
        "SELECT 1;": "",
        "INSERT INTO shops VALUES (1, 'again');": "the key id=1 is enforced",
        "SELEC 1;": "'SELEC 1' is not a statement of this shell: did you mean SELECT?",
        "INSERT INTO totals VALUES (1);": "totals is a view; change its tables",
        "INSERT INTO nothing VALUES (1);": "there is no table called nothing",
        "INSERT INTO orders VALUES (1 + 1);": "VALUES takes rows of literals",
        "INSERT INTO orders VALUES (now());": "VALUES takes numbers",
        "INSERT INTO orders VALUES (1, 2);": "a row has 2 values for 4 columns",
        "INSERT INTO orders (id, z) VALUES (1, 2);": "orders has no column z",
        "INSERT INTO orders VALUES ('x', 2, 3, NULL);": "'x' does not fit int64",
        "INSERT INTO orders SELECT id FROM orders;": "the query has 1 columns, and 4 are to be inserted",
        "DROP TABLE orders;": "the table orders is read by totals",
        "DROP TABLE;": "DROP is not complete; write DROP TABLE",
        "CREATE TABLE x (a);": "'a' is not a column",
        "CREATE TABLE x (a int,);": "'' is not a column",
        "CREATE TABLE x (a map<int>);": "map has two types in it",
        "CREATE TABLE x (a int, a int);": "the table has two columns called a",
        "CREATE TABLE x (a nothing);": "type 'nothing' is not supported",
        "CREATE VIEW v AS SELECT nothing FROM orders;": "unknown column nothing",
        "COPY orders FROM 'nowhere.csv';": "there is no such file",
        "DELETE FROM orders WHERE nothing = 1;": "unknown column nothing",
        "UPDATE orders SET id = 1;": "is not a statement of this shell: DELETE the old rows, and INSERT",
        "TRUNCATE TABLE orders;": "is not a statement of this shell: write DELETE FROM table",
        "ALTER TABLE orders ADD COLUMN z INT;": "CREATE another TABLE with these columns",
        "DESCRIBE orders;": ".tables lists the tables and views",
        "BEGIN;": "each statement is a transaction by itself",
        "GRANT ALL;": "'GRANT ALL' is not a statement of this shell, which has CREATE TABLE",
        "SUBSCRIBE nothing;": "there is no view called nothing",
        "EXPLAIN SELECT * FROM nothing;": "unknown table nothing",
        ".nothing": "there is no .nothing",
    }
    del wrong["SELECT 1;"]
    text = BEGIN + "\n".join(wrong) + "\nSELECT * FROM totals WHERE name = 'b';"
    code, out, err = shell(tmp_path / "db", text)
    assert code == 2
    errors = [line for line in err if line.startswith("error: ")]
    assert len(errors) == len(wrong), err
    for line, said in zip(errors, wrong.values(), strict=True):
        assert said in line
    assert not [line for line in err if "SELECT * FROM orders WHERE nothing" in line], "the user wrote DELETE"
    assert out[-2:] == ["b    |  7.00", "(1 row)"], "nothing has changed"


def test_statements_from_the_command_line_and_rows_as_json(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    pq.write_table(pa.table({"a": [1, 2, 2], "_weight": [1, 2, -1]}), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("a,b\n7,x\n")
    code, _, err = shell(folder, "", "-c", "CREATE TABLE r (a int); COPY r FROM 'rows.parquet'; COPY r FROM 'rows.csv'")
    assert (code, err) == (0, [])
    code, out, err = shell(folder, "", "--json", "-c", "SELECT * FROM r", "-c", "SELECT a + 1 AS b FROM r WHERE a > 2;")
    assert (code, err) == (0, [])
    assert sorted(map(json.dumps, map(json.loads, out))) == ['{"a": 1}', '{"a": 2}', '{"a": 7}', '{"b": 8}']
    with crown.open_database(folder):
        code, _, err = piped(folder, "", "-c", "SELECT * FROM r")
    assert code == 2
    assert "is open already" in err[-1] or "is used" in err[-1] or "process" in err[-1]


def test_a_subscription_shows_what_later_statements_change(tmp_path: Path) -> None:
    changes = "INSERT INTO orders (shop, id, amount) VALUES (2, 9, 1); DELETE FROM orders WHERE shop = 1;"
    text = BEGIN + f"SUBSCRIBE totals; {changes}\nUNSUBSCRIBE totals; DELETE FROM orders;"
    code, out, err = shell(tmp_path / "db", text)
    assert (code, err) == (0, [])
    assert out[5:] == [
        "this session shows the changes of totals",
        "changes of totals",
        "  name | total",
        "- b    |  7.00",
        "+ b    |  8.00",
        "inserted 1 row",
        "changes of totals",
        "  name    | total",
        "- it's; a | -4.50",
        "deleted 2 rows",
        "this session shows no more changes of totals",
        "deleted 2 rows",
    ]


def test_a_terminal_has_a_prompt_and_statements_of_several_lines(tmp_path: Path) -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path / "db")], stdin=child, stdout=child, stderr=child, env={**ENVIRONMENT, "TERM": "dumb"}
    )
    os.close(child)
    os.write(
        parent,
        b"CREATE TABLE r\n(a int);\nSELECT 'a;\nINSERT INTO r\n VALUES (5);\n';\n.help\nSELECT a FROM r;\n.quit\n",
    )
    shown = b""
    try:
        while part := os.read(parent, 4096):
            shown += part
    except OSError:  # the terminal is closed
        pass
    os.close(parent)
    assert process.wait(60) == 2
    text = shown.decode()
    for said in ("crown> ", "  ...> ", "created the table r", "COPY table FROM 'file'", "(0 rows)"):
        assert said in text
    assert text.count("error: ") == 1, "the text in quotes, with its semicolons, is one statement"


def test_views_are_replaced_and_dropped(tmp_path: Path) -> None:
    said: list[Any] = []
    session = Session(tmp_path / "db", lambda text, table: said.append(text if table is None else table.to_pylist()))
    for text in (
        "CREATE TABLE IF NOT EXISTS r (a int, b int, PRIMARY KEY (a, b))",
        "create table if not exists R (a int)",
        "CREATE VIEW v AS SELECT a FROM r",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT b FROM r",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT b FROM r",
        "INSERT INTO r VALUES (1, 2)",
        "INSERT INTO r SELECT a + 1, b FROM r",
        "SELECT * FROM v LIMIT 1",
        "SELECT * FROM r LIMIT 0",
        "DROP VIEW v",
        "DROP VIEW IF EXISTS v",
        "DROP TABLE IF EXISTS nothing",
    ):
        session.run(text)
    session.close()
    assert said == [
        "created the table r", "the table R already exists", "created the view v: 0 rows",
        "the view v already exists", "created the view v: 0 rows", "inserted 1 row", "inserted 1 row",
        [{"b": 2}], [], "dropped v", "there is no view v", "there is no table nothing",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELECT * FROM `a b` LIMIT 3", Select("SELECT * FROM `a b` LIMIT 3", "a b", 3)),
        ("WITH x AS (SELECT 1) SELECT * FROM x", Select("WITH x AS (SELECT 1) SELECT * FROM x")),
        (
            "CREATE TABLE t (a timestamp with time zone not null, b numeric(10, 2) primary key not null)",
            CreateTable("t", {"a": "timestamp with time zone not null", "b": "numeric(10, 2) not null"}, ("b",), False),
        ),
        (
            'CREATE TABLE t ("a,<" MAP<STRING,BIGINT> NOT NULL, b STRUCT<a:BIGINT,b:ARRAY<STRING>>, '
            "`c,(` STRUCT(x DECIMAL(4,2), y MAP(INT, INT)), d decimal(10,2)[], PRIMARY KEY (b, d))",
            CreateTable(
                "t",
                {
                    "a,<": "MAP<STRING,BIGINT> not null",
                    "b": "STRUCT<a:BIGINT,b:ARRAY<STRING>>",
                    "c,(": "STRUCT(x DECIMAL(4,2), y MAP(INT, INT))",
                    "d": "decimal(10,2)[]",
                },
                ("b", "d"),
                False,
            ),
        ),
        (
            "INSERT INTO t(a) VALUES(TRUE),( -1.5e3 ),('x, (''y''')",
            Insert("t", ("a",), [["TRUE"], ["-1.5e3"], ["x, ('y'"]], ""),
        ),
    ],
)
def test_statements_mean_what_they_say(text: str, meant: Any) -> None:
    assert statement(text) == meant


def test_values_with_parts_are_declared_inserted_and_shown(tmp_path: Path) -> None:
    text = """
    CREATE TABLE t (m MAP<STRING,BIGINT>, s STRUCT<a:BIGINT,b:STRING>, l ARRAY<STRING>);
    CREATE VIEW v AS SELECT l, s, m FROM t;
    INSERT INTO t VALUES ('{"x": 1}', '{"a": 1}', '["z", null]'),
      (NULL, '{"a": 3, "b": "q"}', '[]'), (NULL, NULL, NULL);
    SELECT * FROM v;
    SUBSCRIBE v;
    DELETE FROM t WHERE s IS NULL OR s.b = 'q';
    """
    code, out, err = shell(tmp_path / "db", text)
    assert (code, err) == (0, [])
    assert out[5:-6] == [
        "['z', None] | {'a': 1, 'b': None} | [('x', 1)]",
        "[]          | {'a': 3, 'b': 'q'}  | NULL",
        "NULL        | NULL                | NULL",
        "(3 rows)",
    ]
    assert out[-3:] == ["- []   | {'a': 3, 'b': 'q'} | NULL", "- NULL | NULL               | NULL", "deleted 2 rows"]


@pytest.mark.parametrize("signed", [False, True], ids=["result", "delta"])
@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.string()), pa.list_(pa.list_(pa.int64())), pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))]), pa.list_(pa.struct([("at", pa.date32())])),
        pa.bool_(), pa.binary(), pa.string(), pa.decimal128(38, 2), pa.timestamp("us", "UTC"), pa.float64(), pa.null(),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_shown_is_a_function_of_the_rows(type_: pa.DataType, signed: bool) -> None:
    values: dict[str, list[Any]] = {
        "list<item: string>": [["b"], ["a", None], [], ["a"]],
        "list<item: list<item: int64>>": [[[2]], [[1], None], []],
        "map<string, int64>": [[("x", 1)], [], [("a", None)]], "bool": [True, False], "binary": [b"b", b"a\xff"],
        "struct<a: int64, b: list<item: int64>>": [{"a": 2, "b": [1]}, {"a": 2, "b": None}, {"a": None, "b": []}],
        "list<item: struct<at: date32[day]>>": [[{"at": 3}], [], [None]], "string": ["b", "a"], "null": [None],
    }  # fmt: skip
    column = pa.array([*values.get(str(type_), [1, 3, 2]), None], type_)
    table = pa.table({"x": column, "of": pa.array(range(len(column)))})
    table = pa.concat_tables([table, table.set_column(1, "of", pa.array([7] * len(column)))])
    if signed:
        table = table.append_column("_weight", pa.array([1, -1] * len(column)))
    shown = list(lines(table))
    assert len(shown) == len(table) + (1 if signed else 3)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(table))
        assert list(lines(table.take(pa.array(order)))) == shown


def test_without_tables_there_is_nothing_to_ask(tmp_path: Path) -> None:
    session = Session(tmp_path / "db", lambda text, table: None)
    with pytest.raises(CrownError, match="has no tables yet; write CREATE TABLE"):
        session.run("SELECT * FROM r")
    assert list(session.tables()) == []
    session.close()
    assert not (tmp_path / "db").exists()


@pytest.mark.parametrize("left", [(), (".hidden",), ("lock", "acknowledged")])
def test_the_first_table_begins_a_folder_whose_creation_was_interrupted(left: tuple[str, ...], tmp_path: Path) -> None:
    for name in left:
        (tmp_path / name).touch()
    told: list[str] = []
    session = Session(tmp_path, lambda text, rows: told.append(text))
    session.run("CREATE TABLE t (a INT)")
    session.close()
    assert told == ["created the table t"]


def test_a_folder_of_other_files_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(CrownError, match=r"has files that do not belong to a view \(notes.txt\)"):
        Session(tmp_path, lambda text, rows: None)
