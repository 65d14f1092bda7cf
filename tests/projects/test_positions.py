"""Positions of folders: small, and equal if and only if the files are."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import crown
from crown.projects.changes import at_files, files_at


def test_a_position_has_every_file_in_few_bytes() -> None:
    rng = random.Random(1)
    files = {f"part-{i:05d}-c000.snappy.parquet": [rng.randrange(10**6), 10**18 + i * 10**7] for i in range(5000)}
    files |= {name: [0, 0] for name in ("é", "a b/c", "files", '"', "table")}
    at = json.loads(json.dumps(at_files(files)))
    assert files_at(at) == files
    assert at_files(dict(reversed(files.items()))) == at
    assert len(json.dumps(at)) < 16 * len(files)
    assert at_files({**files, "é": [0, 1]}) != at
    assert files_at(None) == {} == files_at(at_files({}))


def test_a_source_that_was_in_another_place_is_compared(tmp_path: Path) -> None:
    """The positions of a table with versions and of a folder do not fit each other."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 1}\n{"k": 2}\n')
    write_deltalake(str(tmp_path / "table"), pa.table({"k": [2, 3]}))
    (tmp_path / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT k FROM r;")
    for place, wanted in [("json:in?columns=k BIGINT", {1, 2}), ("delta:table", {2, 3})] * 2:
        (tmp_path / "spark-pipeline.yml").write_text(
            "name: p\nstorage: storage\nlibraries: [{glob: {include: v.sql}}]\nconfiguration:\n"
            f'  crown.source.r: "{place}"\n'
        )
        with crown.database(tmp_path) as db:
            db.run()
            assert {row["k"] for row in db["v"]} == wanted
