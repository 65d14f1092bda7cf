"""``crown run``: maintain a query over change files in this process, and write its deltas."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import crown
from crown.arguments import file_of, number_of, same_file
from crown.errors import ChangeError
from crown.ingest.inputs import batches, read
from crown.views import View
from plans import Plan, plan
from plans.commands.declare import add_query_arguments, query_text, rates_of, schema_of

HELP = "maintain a query over change files in this process and write its deltas"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    add = parser.add_argument
    add(
        "--input",
        action="append",
        required=True,
        metavar="NAME=FILE",
        help="changes of a relation: Parquet, CSV, JSON lines, or an edge list (.txt, .gz, .zip)",
    )
    add("--window", metavar="W", help="slide a window of W rows, or of a fraction (0.2), over each input")
    add("--batch-rows", type=int, default=10_000, metavar="N", help="rows of each file per batch (10000)")
    add("--output", metavar="FILE|-", help="write the deltas to a .parquet or .csv file, or print them (-)")
    add("--results", type=int, metavar="N", help="at the end print the first N rows of the result")
    add(
        "--threads",
        type=int,
        metavar="N",
        help="cut the plan, or the joins of a program, into N cells that run in parallel (1)",
    )
    add("--load", metavar="FILE", help="go on from a saved state of the same query")
    add("--save", metavar="FILE", help="save the state at the end")
    add("--on-missing", choices=("ignore", "raise"), help="deletes of absent rows: count (ignore), or stop")
    add("--quarantine", metavar="DIR", help="put rows that do not fit aside in this folder instead of stopping")
    add("--quiet", action="store_true", help="no progress lines")


def run(args: argparse.Namespace) -> int:
    """Maintains the query and reports progress on standard error. Returns exit code 0."""
    made = _plan(args)
    paths = _inputs(args.input, made)
    _check(args, paths)
    view = _view(args, made)
    files = {name: read(path, made.table(name)) for name, path in paths.items()}
    stream = batches(files, args.batch_rows, args.window)
    absent = [table.name for table in made.tables if table.name not in files]
    if absent and not args.quiet:
        print(f"no --input for {', '.join(absent)}: nothing changes there", file=sys.stderr)
    started = time.monotonic()
    rows = deltas = 0
    with _sink(args.output, view) as write:
        for number, batch in enumerate(stream):
            begun = time.monotonic()
            taken = sum(table.num_rows for table in batch.values())
            emitted = 0
            for delta in view.apply_batches(batch):
                emitted += delta.num_rows
                write(delta)
            rows, deltas = rows + taken, deltas + emitted
            if not args.quiet:
                seconds = time.monotonic() - begun
                print(
                    f"batch {number}: {taken:,} rows in, {emitted:,} deltas out, "
                    f"{taken / max(seconds, 1e-9):,.0f} rows/s, "
                    f"{view.stats()['input_rows']:,} state rows, {1000 * seconds:.0f} ms",
                    file=sys.stderr,
                )
    seconds = time.monotonic() - started
    stats = view.stats()
    print(
        f"{rows:,} rows in, {deltas:,} deltas out in {seconds:.2f} s ({rows / max(seconds, 1e-9):,.0f} rows/s); "
        f"state {stats['live_bytes']:,} bytes for {stats['input_rows']:,} rows; "
        f"{sum(stats['missing_deletes'].values()):,} deletes found nothing, {stats['quarantined']:,} rows quarantined",
        file=sys.stderr,
    )
    if args.results is not None:
        print(f"result: {view.count():,} rows")
        for row in view.to_table(args.results).to_pylist():
            print(", ".join(f"{name}={value}" for name, value in row.items()))
    if args.save is not None:
        view.save(args.save)
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    query = query_text(args.query)
    if query.lstrip().startswith("{"):
        for option, given in (("--schema", args.schema), ("--rate", args.rate)):
            if given:
                raise ChangeError(f"the query is a plan, which has its own tables and rates; leave out {option}")
    return plan(query, schema_of(args.schema), rates=rates_of(args.rate), dialect=args.dialect)


def _inputs(texts: list[str], made: Plan) -> dict[str, Path]:
    """Returns the file of each relation, by the name that the schema gives it."""
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise ChangeError(f"--input {text!r}: write NAME=FILE")
        relation = made.table(name.strip()).name
        if relation in found:
            raise ChangeError(
                f"--input {text!r}: {relation} has a file already, {found[relation]}; give one per relation"
            )
        found[relation] = Path(path)
    return found


def _check(args: argparse.Namespace, inputs: Mapping[str, Path]) -> None:
    """Refuses, before anything is read, what would be found at the end, ignored, or overwritten."""
    number_of(args.batch_rows, "--batch-rows", 1)
    if args.results is not None:
        number_of(args.results, "--results", 0)
    given = {"--threads": args.threads, "--on-missing": args.on_missing, "--quarantine": args.quarantine}
    useless = [option for option, value in given.items() if value is not None]
    if args.load and useless:
        raise ChangeError(f"--load goes on with the options of the saved state; leave out {' and '.join(useless)}")
    output = None if args.output == "-" else args.output
    written = {
        option: file_of(path, option)
        for option, path in (("--output", output), ("--save", args.save))
        if path is not None
    }
    taken = {f"--input {name}": path for name, path in inputs.items()}
    if args.load:
        taken["--load"] = Path(args.load)
    for option, path in written.items():
        for other, there in taken.items():
            if (option, other) != ("--save", "--load") and same_file(path, there):
                raise ChangeError(f"{option} would overwrite {path}, which {other} reads; name another file")
    if len(written) == 2 and same_file(*written.values()):
        raise ChangeError(f"--output and --save are both {output}; name two files")


def _view(args: argparse.Namespace, made: Plan) -> View:
    if args.load:
        view = crown.load(args.load)
        if view.plan.fingerprint != made.fingerprint:
            raise ChangeError(f"{args.load} is the state of another query: {view.plan.query}")
        return view
    return crown.view(
        made,
        threads=1 if args.threads is None else args.threads,
        on_missing=args.on_missing or "ignore",
        on_bad_row="fail" if args.quarantine is None else "quarantine",
        quarantine=args.quarantine,
    )


@contextmanager
def _sink(output: str | None, view: View) -> Iterator[Any]:
    """Yields a function that writes a delta batch."""
    if output is None:
        yield lambda batch: None
    elif output == "-":
        yield _show
    else:
        schema = view.delta_schema
        try:
            if output.endswith(".parquet"):
                with pq.ParquetWriter(output, schema) as parquet:
                    yield parquet.write_batch
            elif output.endswith(".csv"):
                with pacsv.CSVWriter(output, schema) as text:
                    yield text.write_batch
            else:
                raise ChangeError(f"--output {output!r}: name a .parquet or .csv file, or - for the screen")
        except BrokenPipeError:
            raise  # of the screen, not of this file
        except (OSError, pa.ArrowException) as error:
            raise ChangeError(f"cannot write {output}: {error}") from None


def _show(batch: pa.RecordBatch) -> None:
    for row in batch.to_pylist():
        sign = "+" if row.pop("_weight") > 0 else "-"
        print(sign, ", ".join(f"{name}={value}" for name, value in row.items()))
