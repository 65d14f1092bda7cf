"""``crown submit`` and ``crown state``, from options to output. Oracles: an engine in memory, a recompute by Spark."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import zipfile
from collections import Counter

import pyarrow as pa
import pytest

import plans
from crown.errors import CrownError
from crown.ingest.streams import window
from crown.programs.program import ProgramEngine
from plans.errors import PlanError
from spark_jobs.commands import state, submit
from spark_jobs.errors import CheckpointError, SourceError, SparkJobError
from spark_jobs.job.failures import failure
from spark_jobs.log.state_log import CellLog
from tests.marks import slow
from tests.plans.files.grid import PACKINGS

PATHS = "Q(a,b,c) :- g(a,b), g(b,c), c > 12."


def command(module, *words):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return module.run(parser.parse_args([str(word) for word in words]))


def edge_pairs(count=300, people=40, seed=9):
    rng = random.Random(seed)
    return [(rng.randrange(people), rng.randrange(people)) for _ in range(count)]


def write_edges(path, pairs):
    text = "# Directed graph\r\n# Nodes: 40\n% also a comment\n" + "".join(f"{a}\t{b}\r\n" for a, b in pairs)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("edges.txt", text)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def embedded(pairs, length, batch_rows):
    """Deltas per batch of the sliding window, by an engine in memory."""
    engine = ProgramEngine.create(plans.program(PATHS, {"g": {"src": "int64", "dst": "int64"}}))
    table = pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]})
    batches = window.sliding(table, length, batch_rows) if length else window.appended(table, batch_rows)
    return [sum(batch.num_rows for batch in engine.run(engine.prepare({"g": changes}))) for changes in batches]


@pytest.mark.parametrize("name", [slow("edges.txt"), slow("edges.txt.gz"), "edges.txt.zip"])
def test_an_edge_list_slides_through_a_window_as_it_is(spark, tmp_path, capsys, name):
    pairs = edge_pairs()
    write_edges(tmp_path / name, pairs)
    words = [PATHS, "--input", f"g={tmp_path / name}", "--output", "noop", "--batch-rows", 100]
    assert command(submit, *words, "--window", 0.2, "--cells", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    deltas = embedded(pairs, 60, 100)
    found = [int(line.split(" deltas out")[0].split()[-1].replace(",", "")) for line in lines if "deltas out  " in line]
    assert found == deltas
    assert f"600 rows in, {sum(deltas):,} deltas out, {len(deltas)} batches" in "\n".join(lines)
    assert "state: 0 rows at the end" in "\n".join(lines)


def test_change_folders_of_every_format_give_a_result_that_a_recompute_confirms(spark, tmp_path, capsys):
    rng = random.Random(2)
    (tmp_path / "p").mkdir()
    (tmp_path / "q").mkdir()
    alive = Counter()
    for number in range(2):
        with open(tmp_path / "p" / f"{number}.csv", "w") as file:
            file.write("n;x;op\n")
            for _ in range(30):
                row = (rng.choice("abc"), rng.randrange(5))
                code = rng.choice("+-") if alive[row] else "+"
                alive[row] += 1 if code == "+" else -1
                file.write(f"{row[0]};{row[1]};{code}\n")
        with open(tmp_path / "q" / f"{number}.json", "w") as file:
            for _ in range(10):
                file.write(f'{{"n": "{rng.choice("abc")}", "y": {rng.random()}, "op": "insert"}}\n')
        for file in (tmp_path / "p" / f"{number}.csv", tmp_path / "q" / f"{number}.json"):
            os.utime(file, (1e9 + number, 1e9 + number))
    words = ["SELECT DISTINCT p.x, p.n, q.y FROM p, q WHERE p.n = q.n AND q.y < 0.7", "--verify", "--sample", 4]
    words += ["--schema", "p(x int64, n string)", "--schema", "q(n string, y double)", "--change", "op"]
    words += ["--input", f"p={tmp_path / 'p'}:sep=;,files=1", "--input", f"q={tmp_path / 'q'}:files=1"]
    words += ["--output", tmp_path / "out", "--checkpoint", tmp_path / "state", "--cells", 2]
    assert command(submit, *words) == 0
    said = capsys.readouterr().out
    assert "\nequal\n" in said
    assert "    + x=" in said
    assert "… and" in said
    command(submit, *words)  # nothing new: nothing happens, and the result is still right
    again = capsys.readouterr().out
    assert "0 rows in, 0 deltas out, 0 batches" in again
    assert "\nequal\n" in again


def test_the_console_shows_some_deltas_of_every_batch(spark, tmp_path, capsys):
    write_edges(tmp_path / "g.txt", [(1, 2), (2, 30), (2, 31)])
    assert command(submit, PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "console") == 0
    said = capsys.readouterr().out
    assert "+ a=1, b=2, c=30" in said
    assert "+ a=1, b=2, c=31" in said


def test_batches_deltas_and_summary_are_json_lines_if_asked_for(spark, tmp_path, capsys):
    write_edges(tmp_path / "g.txt", [(1, 2), (2, 30), (2, 31)])
    assert command(submit, PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "console", "--json") == 0
    batch, total = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = [{"a": "1", "b": "2", "c": "30", "_weight": "1"}, {"a": "1", "b": "2", "c": "31", "_weight": "1"}]
    assert sorted(batch["sample"], key=str) == rows
    assert (batch["batch"], batch["rows"], batch["deltas"], batch["state_rows"]) == (0, 3, 2, 3)
    assert (total["batches"], total["rows"], total["deltas"]) == (1, 3, 2)


def test_bad_rows_end_in_one_sentence_and_quarantine_goes_on(spark, tmp_path):
    (tmp_path / "g.txt").write_text("# x\n1\t2\n2\tthirty\n2\t40\n7\n")
    words = [PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", tmp_path / "out"]
    with pytest.raises(SparkJobError) as error:
        command(submit, *words, "--checkpoint", tmp_path / "strict")
    assert str(error.value).startswith("bad row in relation 'g': ")
    assert "\n" not in str(error.value)
    assert command(submit, *words, "--checkpoint", tmp_path / "state", "--on-bad-row", "quarantine") == 0
    put_aside = "".join(file.read_text() for file in tmp_path.glob("state/quarantine/*/*/*"))
    assert "thirty" in put_aside
    assert "the line has 1 fields instead of 2" in put_aside


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["--input", "g=nowhere"], SourceError, "there is no"),
        (["--input", "g"], SourceError, "name=path"),
        (["--input", "g={empty}"], SourceError, "is empty"),
        (["--input", "g={empty}:format=edges"], SourceError, "is a folder"),
        (["--input", "g={edges}:format=xml"], SourceError, "'xml' is unknown"),
        (["--input", "g={edges}:files=0"], SourceError, "files=0"),
        (["--input", "g={edges}", "--input", "G={edges}"], SourceError, "same name"),
        (["--input", "g={edges}", "--window", "many"], CrownError, "'many' is not a number"),
        (["--input", "g={edges}", "--batch-rows", "0"], CrownError, "a batch of 0 rows"),
        (["--input", "g={edges}", "--schema", "g(a int64, b int64, c int64)"], SourceError, "has 2 fields"),
        (["--input", "g={edges}", "--schema", "g(a whatever)"], PlanError, "whatever"),
        (["--input", "g={edges}", "--schema", "g"], PlanError, "does not declare a table"),
        (["--input", "g={edges}", "--rate", "g=fast"], PlanError, "fast"),
        (["--input", "g={edges}", "--conf", "x"], SparkJobError, "NAME=VALUE"),
        (["--input", "g={edges}", "--verify"], SparkJobError, "folder as --output"),
        (["--input", "g={csv}", "--window", "3"], SourceError, "no input is an edge list"),
        (["--input", "g={csv}"], SourceError, "--schema 'g\\(...\\)'"),
        (["--input", "h={edges}"], PlanError, "g"),
    ],
)
def test_mistakes_on_the_command_line_are_said_in_one_sentence(spark, tmp_path, words, error, said):
    write_edges(tmp_path / "edges.txt", [(1, 2)])
    (tmp_path / "empty").mkdir()
    (tmp_path / "changes.csv").write_text("src,dst\n1,2\n")
    places = {"edges": tmp_path / "edges.txt", "empty": tmp_path / "empty", "csv": tmp_path / "changes.csv"}
    with pytest.raises(error, match=said):
        command(submit, PATHS, *(word.format(**places) for word in words), "--output", "noop")


def test_output_to_files_needs_a_place_for_the_state(tmp_path):
    write_edges(tmp_path / "edges.txt", [(1, 2)])
    with pytest.raises(SparkJobError, match="--checkpoint DIR"):
        command(submit, PATHS, "--input", f"g={tmp_path / 'edges.txt'}", "--output", tmp_path / "out")


def test_another_list_or_window_on_an_old_checkpoint_is_refused(spark, tmp_path):
    write_edges(tmp_path / "g.txt", edge_pairs(50))
    words = [PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "noop", "--checkpoint", tmp_path / "state"]
    assert command(submit, *words, "--window", 10) == 0
    with pytest.raises(SourceError, match=r"window 10.*window 20"):
        command(submit, *words, "--window", 20)


def test_state_shows_checks_and_rolls_back(spark, tmp_path, capsys):
    write_edges(tmp_path / "g.txt", edge_pairs(90))
    words = [PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "noop", "--checkpoint", tmp_path / "state"]
    command(submit, *words, "--batch-rows", 30, "--cells", 2)
    capsys.readouterr()
    assert command(state, tmp_path / "state", "--check") == 0
    said = capsys.readouterr().out
    assert "\n  batch  one native call\n" in said
    assert "cell 0: batches 0 to 2" in said
    assert said.endswith("no damage found\n")
    (tmp_path / "state" / "crown" / "notes").touch()
    assert command(state, tmp_path / "state", "--check", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["whole"] is True
    assert told["operators"][0]["batch"] == ["one native call"]
    assert [(c["cell"], c["batches"], c["troubles"]) for c in told["operators"][0]["cells"]] == [
        (0, [0, 2], []),
        (1, [0, 2], []),
    ]
    cell = next((tmp_path / "state").glob("crown/*/crown/1"))
    data = (cell / "1.delta").read_bytes()
    (cell / "1.delta").write_bytes(data[:-20] + b"damaged" + data[-13:])
    assert command(state, tmp_path / "state", "--check") == 1
    assert "checksum" in capsys.readouterr().out
    (cell / "1.delta").unlink()
    assert command(state, cell.parent, "--check") == 1
    assert "batch 2 follows batch 1" in capsys.readouterr().out
    (cell / "1.delta").write_bytes(data)
    assert command(state, tmp_path / "state", "--rollback-to", 0) == 0
    assert CellLog(cell, "").batches() == [0]
    with pytest.raises(CheckpointError, match="no state of a job"):
        command(state, tmp_path)


def test_going_back_further_than_what_is_kept_is_refused(tmp_path):
    log = CellLog(tmp_path / "0", "f")
    log.write_snapshot(5, lambda path: path.write_bytes(b"x"))
    with pytest.raises(CheckpointError, match="cannot go back to batch 3"):
        log.forget(3)


def test_the_output_of_another_job_is_not_taken_for_ones_own(spark, tmp_path):
    """Spark's file sink would skip the batches whose numbers are there, without a word."""
    write_edges(tmp_path / "g.txt", edge_pairs(20))
    words = [PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", tmp_path / "out"]
    assert command(submit, *words, "--checkpoint", tmp_path / "one") == 0
    with pytest.raises(SparkJobError, match="output of a job with another checkpoint"):
        command(submit, *words, "--checkpoint", tmp_path / "two")


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            'Job aborted:\n  File "x.py"\nspark_jobs.errors.PlanChangedError: the state was\nwritten by plan 1\n\n'
            "\tat org.apache.spark.api",
            "the state was\nwritten by plan 1",
        ),
        (
            "Traceback\ncrown.errors.MemoryBudgetError: cell 0: no\n SQLSTATE: 39000 SQLSTATE: XXKST\n"
            "=== Streaming Query ===\nIdentifier: [id = 1]",
            "cell 0: no",
        ),
        ("[USER_RAISED_EXCEPTION] bad row in relation 'g': no SQLSTATE: P0001", "bad row in relation 'g': no"),
        ("java.lang.OutOfMemoryError: Java heap space", None),
    ],
)
def test_the_sentence_for_the_user_is_found_in_sparks_report(report, said):
    found = failure(Exception(report))
    assert (found and str(found)) == said


AGES = "SELECT p.name, COUNT(*) AS n FROM people p GROUP BY p.name"
PEOPLE = 'name,age,_weight\n"ann, of x",30,1\nbob,40,1\n"ann, of x",30,1\nbob,40,-1\n'


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("people.txt", ()),
        ("people.csv.zip", ("--schema", "people(name string, age int64)")),
        ("people.csv.gz", ("--schema", "people(name string, age int64)")),
        slow("people.tsv.bz2", ("--schema", "people(name string, age int64)")),
        slow("people.csv.zst", ("--schema", "people(name string, age int64)")),
        slow("folder/1.csv.gz", ("--schema", "people(name string, age int64)")),
    ],
)
def test_headers_quotes_and_weights_are_read_in_every_file(spark, tmp_path, capsys, name, schema):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    text = PEOPLE.replace(",", "\t").replace("\t of", ", of") if ".tsv" in name else PEOPLE
    path.write_bytes(PACKINGS.get(path.suffix, bytes)(text.encode()))
    given = path.parent if "/" in name else path
    words = ["--input", f"people={given}", *schema, "--output", "console", "--json"]
    assert command(submit, AGES, *words) == 0
    batch, _ = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert batch["sample"] == [{"name": "ann, of x", "n": "2", "_weight": "1"}]


def test_a_window_and_further_fields_of_a_list_are_told(spark, tmp_path, capsys):
    (tmp_path / "g.txt").write_text("1 20 0.5\n20 30 0.7\n")
    assert command(submit, PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "console") == 0
    assert "1 further field of each line is ignored" in capsys.readouterr().out
    (tmp_path / "g.txt").write_text("src,dst,_weight\n1,2,1\n")
    with pytest.raises(CrownError, match="the file of 'g' has a column _weight; leave the window out"):
        command(submit, PATHS, "--input", f"g={tmp_path / 'g.txt'}", "--output", "noop", "--window", "0.5")
