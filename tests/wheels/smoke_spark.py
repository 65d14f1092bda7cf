"""The first stream of a new user, with [spark] installed; run in an empty folder."""

import importlib.util
import json
from pathlib import Path

import crown

assert "site-packages" in crown.__file__, crown.__file__
assert importlib.util.find_spec("numba") is None, "so that no worker can compile anything"

if __name__ == "__main__":
    Path("changes").mkdir()
    rows = [{"a": 1, "b": 2, "_weight": 1}, {"a": 2, "b": 3, "_weight": 1}]
    Path("changes/1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spark = crown.spark.local_session(memory="1g")
    changes = spark.readStream.schema("a long, b long, _weight long").json("changes")
    deltas = crown.spark.maintain(
        spark, "SELECT a, COUNT(*) AS n FROM g GROUP BY a", {"g": changes}, checkpoint="state"
    )
    stream = (
        deltas.writeStream.format("parquet")
        .option("path", "deltas")
        .option("checkpointLocation", "state")
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    found = sorted((row["a"], row["n"], row["_weight"]) for row in spark.read.parquet("deltas").collect())
    assert found == [(1, 1, 1), (2, 1, 1)], found
    spark.stop()
