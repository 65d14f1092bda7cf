"""The code of the README that needs Spark runs, as it stands; ``tests/test_readme.py`` runs the rest."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from spark_jobs.commands import submit
from tests.spark.job.test_submit import command, write_edges

README = (Path(__file__).parents[3] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.S)
SPARK = [code for kind, code in BLOCKS if kind == "python" and "spark" in code]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the examples read."""
    (tmp_path / "changes" / "knows").mkdir(parents=True)
    rows = [{"a": 1, "b": 2, "_weight": 1}, {"a": 2, "b": 3, "_weight": 1}]
    (tmp_path / "changes" / "knows" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_edges(tmp_path / "soc-Epinions1.txt.zip", [(1, 2), (2, 3), (3, 40000)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_block_on_spark(spark, folder):
    (code,) = SPARK
    for place in ("changes/knows", "deltas", "state"):  # the JVM was started in another folder
        code = code.replace(f'"{place}"', f'"{folder / place}"')
    exec(compile(code, "README.md", "exec"), {})
    assert [row.asDict() for row in spark.read.parquet(str(folder / "deltas")).collect()] == [
        {"a": 1, "b": 2, "c": 3, "_weight": 1}
    ]


def test_command_lines(spark, folder, capsys):
    lines = [code.replace("\\\n", " ").strip() for kind, code in BLOCKS if kind == "sh" and "crown submit" in code]
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line)
        assert words[:2] == ["crown", "submit"]
        assert command(submit, *words[2:]) == 0
    assert "2 rows in, 1 deltas out" in capsys.readouterr().out
