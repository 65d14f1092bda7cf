"""``crown submit`` over changes by key, with a change data feed as output and numbers for Prometheus."""

from __future__ import annotations

import json
import os

import pytest

from spark_jobs.errors import SparkJobError
from tests.spark.job.test_top import parsed
from tests.spark.test_kills import main


def test_submit_takes_upserts_writes_a_feed_and_numbers(spark, tmp_path):
    (tmp_path / "o").mkdir()
    batches = [
        [{"id": 1, "v": "a", "n": 1, "seq": 1}, {"id": 2, "v": "a", "n": 2, "seq": 1}],
        [{"id": 2, "v": "b", "n": 5, "seq": 3}, {"id": 1, "v": "a", "n": 9, "seq": 0}],
        [{"id": 1, "seq": 4}],
    ]
    for number, rows in enumerate(batches):
        kinds = [{**row, "_change_type": "insert" if "v" in row else "delete"} for row in rows]
        path = tmp_path / "o" / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in kinds))
        os.utime(path, (1e9 + number, 1e9 + number))
    words = ["SELECT v, SUM(n) AS s FROM o GROUP BY v", "--input", f"o={tmp_path / 'o'}:files=1", "--cells", "1"]
    words += ["--schema", "o(id int64 key, v string, n int64, seq int64 sequence) upserts", "--cores", "2"]
    words += ["--output", str(tmp_path / "out"), "--format", "json", "--checkpoint", str(tmp_path / "state")]
    words += ["--emit", "cdc", "--key", "v", "--prometheus", str(tmp_path / "crown.prom")]
    assert main(words) == 0
    lines = [line for path in (tmp_path / "out").glob("part-*.json") for line in path.read_text().splitlines()]
    told = sorted((row["_commit_version"], row["_change_type"], row["v"], row["s"]) for row in map(json.loads, lines))
    assert told == [
        (0, "insert", "a", 3),
        (1, "insert", "b", 5),
        (1, "update_postimage", "a", 1),
        (1, "update_preimage", "a", 3),
        (2, "delete", "a", 1),
    ]
    found = parsed((tmp_path / "crown.prom").read_text())
    assert set(found["crown_stream_batch"].values()) == {2}
    operators = {dict(labels)["operator"]: value for labels, value in found["crown_late_changes_total"].items()}
    assert operators == {"crown": 0, "crown.keys.o": 1}
    assert {dict(labels)["operator"] for labels in found["crown_stream_sent_rows"]} == {"crown", "crown.keys.o"}


def test_what_does_not_go_with_what_is_emitted_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("a\n1\n")
    words = ["SELECT a FROM r", "--input", f"r={tmp_path / 'r.csv'}", "--output", str(tmp_path / "out")]
    words += ["--format", "csv", "--schema", "r(a int64)"]
    words += ["--checkpoint", str(tmp_path / "state")]
    for more, told in (
        (["--emit", "cdc", "--verify"], "leave --verify out, or --emit"),
        (["--verify", "--schema", "o(id int64 key) upserts"], "leave --verify out, or the upserts"),
        (["--emit", "debezium"], "CSV cannot hold: give --format json"),
        (["--prometheus", str(tmp_path / "none" / "crown.prom")], "its folder does not exist; create it first"),
    ):
        with pytest.raises(SparkJobError, match=told):
            main([*words, *more])
