"""What ``crown top`` says of the folder of a durable view, while another process writes it; without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crown
from crown.durable.journal import NAME
from crown.durable.vitals import Watch
from crown.errors import DamagedStateError

SCHEMA = {"orders": {"id": "int64", "shop": "string"}, "shops": {"shop": "string", "country": "string"}}
QUERY = "SELECT country, COUNT(*) AS n FROM orders, shops WHERE orders.shop = shops.shop GROUP BY country"


def test_what_is_told_of_a_folder_is_what_was_done_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with crown.open(QUERY, folder, SCHEMA) as view:
        watch = Watch(folder)
        found = watch.look()
        assert (found.batches, dict(found.rows), found.snapshot, found.process) == (0, {}, -1, os.getpid())
        assert found.resident_bytes > 1e6
        for batch in range(1, 6):
            view.update({"orders": [(batch, "a"), (batch + 10, "b")], "shops": [("a", "NL")]})
            found = watch.look()
            assert (found.batches, found.synced) == (batch, batch)
            assert found.rows == {"orders": 2, "shops": 1}
            assert Watch(folder).look().rows == found.rows, "one that has not seen the batches before"
        assert found.per_second > 0
        assert 0 <= found.log_bytes - view.stats()["log_bytes"] < 200, "but for the first line"
        view.snapshot()
        found = watch.look()
        assert (found.batches, found.snapshot, found.rows) == (5, 5, {"orders": 2, "shops": 1})
        assert found.snapshot_bytes == (folder / "5.snapshot").stat().st_size
        view.update({"orders": [(9, "b")]})
        assert watch.look().rows == {"orders": 1}
    found = watch.look()
    assert (found.process, found.resident_bytes) == (0, -1)
    assert found.line().startswith("batch 6 (6 on the disk, ")
    assert found.line().endswith("open in no process")


def test_batches_that_are_not_synced_are_told(tmp_path: Path) -> None:
    with crown.open(QUERY, tmp_path / "kept", SCHEMA, sync="never") as view:
        view.update({"orders": [(1, "a")]})
        found = Watch(tmp_path / "kept").look()
        assert (found.batches, found.synced) == (1, 0)


def test_a_database_is_looked_at_as_a_view_is(tmp_path: Path) -> None:
    with crown.open_database(tmp_path / "kept", SCHEMA) as database:
        database.view("totals", QUERY)
        database.insert("orders", [(1, "a")])
        found = Watch(tmp_path / "kept").look()
        assert found.batches == database.stats()["batches"]
        assert found.rows == {"orders": 1}


WRITER = f"""
import crown
with crown.open({QUERY!r}, "kept", {SCHEMA!r}, sync="never", snapshot_bytes=2000) as view:
    for batch in range(400):
        view.update({{"orders": [(batch, "a")] * (batch % 3 + 1)}})
        if not batch:
            print("begun", flush=True)
"""


def test_a_folder_is_looked_at_while_snapshots_come_and_logs_go(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER], cwd=tmp_path, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        watch, before, seen = Watch(tmp_path / "kept"), 0, 0
        while writer.poll() is None:
            found = watch.look()
            assert found.batches >= before
            assert found.process in (writer.pid, 0)
            assert found.rows in ({"orders": (found.batches - 1) % 3 + 1}, {})
            before, seen = found.batches, seen + bool(found.rows)
        assert writer.returncode == 0
    assert seen > 5
    assert watch.look().batches == 400
    assert watch.look().snapshot > 0


ALONE = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pyspark", "obstore", "deltalake", "yaml", "pandas"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from crown.commands.main import main
for words in sys.argv[1:]:
    sys.stderr.write(f"{main(['top', *words.split()])}\\n")
"""


def commands(folder: Path, *lines: str) -> tuple[str, str]:
    """Returns what ``crown top`` prints to both streams for each of the lines, in one process that starts once.

    The status of each line follows in the second stream.
    """
    words = [sys.executable, "-c", ALONE, *lines]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_the_command_needs_no_spark(tmp_path: Path) -> None:
    with crown.open(QUERY, tmp_path / "kept", SCHEMA) as view:
        view.update({"orders": [(1, "a")]})
        (tmp_path / "job" / "crown").mkdir(parents=True)
        shown, errors = commands(tmp_path, "kept --once --prometheus crown.prom", "kept --once --json", "job --once")
        title, line, document = shown.splitlines()
        assert title == f"kept  {QUERY}"
        assert f"open in process {os.getpid()} (" in line
        told = json.loads(document)
        assert (told["batches"], told["rows"], told["process"]) == (1, {"orders": 1}, os.getpid())
    lines = (tmp_path / "crown.prom").read_text().splitlines()
    assert 'crown_batches_total{folder="kept"} 1' in lines
    assert 'crown_batch_rows{folder="kept",table="orders"} 1' in lines
    first, second, *refused, last = errors.splitlines()
    assert (first, second, last) == ("0", "0", "2")
    assert "pip install 'crown-ivm[spark]'" in "\n".join(refused)


def test_a_folder_with_nothing_to_look_at_is_said_without_spark(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "src").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    folders = ("mistyped", "empty", "other", "file")
    shown, errors = commands(tmp_path, *(f"{folder} --once" for folder in folders))
    assert shown == ""
    assert errors == "".join(
        f"crown: {tmp_path / folder} holds no view, database, pipeline or stream: give the folder of crown.open or "
        "crown.open_database, the storage of a pipeline that has run, or the checkpoint of a job\n2\n"
        for folder in folders
    )


def test_it_goes_on_until_it_is_interrupted(tmp_path: Path) -> None:
    with crown.open(QUERY, tmp_path / "kept", SCHEMA) as view:
        words = [sys.executable, "-m", "crown", "top", "kept", "--every", "0.1", "--json"]
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as looking:
            assert looking.stdout is not None
            assert json.loads(looking.stdout.readline())["batches"] == 0
            view.update({"orders": [(1, "a")]})
            end = time.monotonic() + 60
            while json.loads(looking.stdout.readline())["batches"] == 0:
                assert time.monotonic() < end
            looking.send_signal(2)
            assert looking.wait(60) == 130


def test_a_mark_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with crown.open(QUERY, tmp_path / "kept", SCHEMA):
        pass
    (tmp_path / "kept" / NAME).write_bytes(b"x")
    with pytest.raises(DamagedStateError, match="does not show its progress; run crown check"):
        Watch(tmp_path / "kept").look()
