"""The code in the README runs, as it stands."""

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the examples read."""
    (tmp_path / "changes" / "knows").mkdir(parents=True)
    rows = [{"a": 1, "b": 2, "_weight": 1}, {"a": 2, "b": 3, "_weight": 1}]
    (tmp_path / "changes" / "knows" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_edges(tmp_path / "soc-Epinions1.txt.zip", [(1, 2), (2, 3), (3, 40000)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", range(len([code for kind, code in BLOCKS if kind == "python"])))
def test_python_blocks(spark, folder, number):
    code = [code for kind, code in BLOCKS if kind == "python"][number]
    for place in ("changes/knows", "deltas", "state"):  # the JVM was started in another folder
        code = code.replace(f'"{place}"', f'"{folder / place}"')
    exec(compile(code, "README.md", "exec"), {})
    if "maintain" in code:
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
