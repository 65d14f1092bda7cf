"""What a terminal shows: ASCII where it has no more, signs of life, completion, JSON."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crown.commands import completion, run, terminal
from crown.commands.main import main, parsers
from plans.commands import profile

ROOT = Path(__file__).parent.parent
QUERY = "Q(a, c) :- g(a, b), g(b, c)."


def crown(*words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    return subprocess.run(
        [sys.executable, "-m", "crown", *words],
        input=stdin, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip


def test_signs_that_a_terminal_lacks_are_drawn_with_others() -> None:
    assert terminal.plain("├─ Σ λ·√N é 🎉") == "|- sum lambda*sqrt N \\u00e9 \\ud83c\\udf89"
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal.fit(out)
    out.write("└─ [b]  ≤ 2")
    out.flush()
    assert out.buffer.getvalue() == b"`- [b]  <= 2"  # type: ignore[attr-defined]


def test_explain_has_a_tree_in_ascii_where_there_is_no_other() -> None:
    done = crown("explain", QUERY, PYTHONIOENCODING="ascii", TERM="dumb")
    assert (done.returncode, done.stderr) == (0, "")
    assert "`- g_2(b, c)" in done.stdout
    assert done.stdout.isascii()


def test_json_lines_mean_the_same_in_ascii(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("a\nλ🎉\n", encoding="utf-8")
    words = ["run", "SELECT a FROM r", "--input", f"r={tmp_path / 'r.csv'}", "--output", "-", "--json", "--quiet"]
    done = crown(*words, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout.splitlines()[0]) == {"a": "λ🎉", "_weight": 1}


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_batch_that_takes_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.csv").write_text("a\n1\n2\n")
    words = ["run", "SELECT a FROM r", "--input", f"r={tmp_path / 'r.csv'}", "--batch-rows", "1"]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PATIENCE", 0.01)
    emitted = run._emitted

    def late(*given: Any) -> Any:
        time.sleep(0.2)
        return emitted(*given)

    monkeypatch.setattr(run, "_emitted", late)
    for quiet, said in ((["--quiet"], False), ([], True)):
        monkeypatch.setattr(sys, "stderr", shown := Terminal())
        assert main([*words, *quiet]) == 0
        assert ("crown run: batch 1: 0 s" in shown.getvalue()) == said


def test_what_takes_long_is_told_until_something_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    out = sys.stdout
    with terminal.waiting("crown check", shown):
        time.sleep(0.2)
        print("sound")
        told = shown.getvalue()
        time.sleep(0.1)
    assert "crown check: 0 s" in told
    assert told.endswith("\r\x1b[K")
    assert shown.getvalue() == told
    assert sys.stdout is out
    assert capsys.readouterr().out == "sound\n"


def test_nothing_is_told_where_nobody_looks_or_it_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    quick, file = Terminal(), io.StringIO()
    with terminal.waiting("x", quick):
        pass
    monkeypatch.setattr(terminal, "PATIENCE", 0.01)
    with terminal.waiting("x", file):
        time.sleep(0.05)
    monkeypatch.setenv("TERM", "dumb")
    with terminal.waiting("x", quick):
        time.sleep(0.05)
    assert quick.getvalue() == file.getvalue() == ""


def test_every_command_is_completed_in_every_shell() -> None:
    known = parsers()
    assert {"run", "explain", "check"} <= known.keys()
    for shell in ("bash", "zsh", "fish"):
        text = completion.script(shell, known)
        assert all(name in text for name in known)
        assert "batch-rows" in text


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["crown", "expl"], "explain"),
        (["crown", "explain", "--fo"], "--format"),
        (["crown", "explain", "--format", "ht"], "html"),
        (["crown", "bench", "comp"], "compare"),
        (["crown", "bench", "run", "--qu"], "--quick"),
    ],
)
def test_bash_completes_words(words: list[str], wanted: str, tmp_path: Path) -> None:
    script = tmp_path / "crown.bash"
    script.write_text(completion.script("bash", parsers()))
    line = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _crown; echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == [wanted]


def test_a_profile_is_json_where_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("+,g,1,2\n+,g,2,3\n-,g,1,2\n")
    parser = argparse.ArgumentParser()
    profile.add_arguments(parser)
    assert profile.run(parser.parse_args([QUERY, "--log", str(log), "--json"])) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["updates"], found["kind"]) == (3, "FIFO")
    assert found["recommended"] in [tree["tree"] for tree in found["trees"]]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["explain", "SELECT a FROM r"], "hint: declare it: --schema 'r(a int64, b string)'"),
        (["plan", "SELECT a FROM r", "--schema", "s(a int64)"], "string)'; declared are: s"),
    ],
)
def test_a_table_without_columns_is_asked_for(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert hint in capsys.readouterr().err


def test_nobody_reads_the_output_and_nothing_is_said_about_it() -> None:
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    shown = subprocess.Popen(
        [sys.executable, "-m", "crown", "explain", QUERY, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert shown.stdout is not None
    assert shown.stderr is not None
    shown.stdout.close()
    assert shown.stderr.read() == b""
    assert shown.wait() == 141
    shown.stderr.close()
