"""The code of the page about sinks runs as it stands, one block after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spark.streams import ChangeFiles

pytest.importorskip("deltalake")

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
SINKS = PAGE.split("\n## Sinks\n")[1].split("\n## ")[0]


def test_the_blocks_about_sinks(spark, tmp_path, monkeypatch, capsys):
    files = ChangeFiles(tmp_path / "in", {"knows": {"a": "int64", "b": "int64"}})
    files.add({"knows": [(1, 2, 1), (2, 3, 1)]})
    files.add({"knows": [(3, 1, 1), (2, 3, -1), (1, 4, 1)]})
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", SINKS, re.S)
    assert len(blocks) == 4
    names = {"spark": spark, "changes": files.frames(spark)["knows"]}
    for block in blocks:  # the JVM was started in another folder
        code = block.replace('Location", "state-of-counts"', f'Location", "{tmp_path / "state-of-counts"}"')
        exec(compile(code, "docs/spark.md", "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"3 +│ +1 +│ +2 +│ +1\b", said)
    assert [tuple(row) for row in spark.table("paths").drop("_batch").collect()] == [(3, 1, 2), (3, 1, 4)]
    assert names["view_batch"]("state") == 1
