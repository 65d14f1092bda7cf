"""``crown run``: maintains a query over change files in this process, and writes its deltas."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import crown
from crown import changes
from crown.commands import project
from crown.commands.terminal import takes, waiting
from crown.errors import BadRowError, ChangeError
from crown.guards.arguments import file_of, number_of, path_of, same_file
from crown.ingest.conventions import meant_for_codes, meant_for_weight
from crown.ingest.streams.inputs import STANDARD_INPUT, batches, netted, piped, standard_input
from crown.store.display import pairs_shown, rows_shown
from crown.views import View
from plans import Program, Schema, Table, program
from plans.commands.declare import (
    add_emit,
    add_query_arguments,
    add_windows,
    asking,
    completed,
    declaration,
    names_of,
    query_text,
    rates_of,
    repeated,
    schema_of,
    windows_of,
)
from plans.files.rows import NoColumnsError, RowsFile
from plans.frontends.datalog.tokens import looks_like as are_rules
from plans.frontends.motif.patterns import looks_like
from plans.types import arrow_type, untyped, why_untyped

HELP = "maintain a query over change files in this process and write its deltas, or the views of a pipeline project"
REPORTS_PROGRESS = True
_EVERY = re.compile(r"(\bselect|\bdistinct|,|\.)\s*\*", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_MOST_ROWS = 1 << 40  # of a batch; more than any file has, and still far from the end of an int64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    add = parser.add_argument
    project.add_arguments(parser)
    repeated(
        parser,
        "--input",
        "NAME=FILE",
        "changes of a relation: a file, or a folder of files, of Parquet, Arrow, CSV, TSV, JSON lines or an "
        "edge list, possibly compressed (.gz, .zst, .bz2, .zip); or - for standard input (JSON lines or text, "
        "without end)",
    )
    add("--window", metavar="W", help="slide a window of W rows, or of a fraction (0.2), over each input")
    add_windows(parser)
    add("--batch-rows", type=int, default=10_000, metavar="N", help="rows of each file per batch (10000)")
    add("--output", metavar="FILE|-", help="write the deltas to a .parquet or .csv file, or print them (-)")
    add_emit(add, changes.FORMATS)
    add("--results", type=int, metavar="N", help="at the end print the first N rows of the result")
    add(
        "--threads",
        type=int,
        metavar="N",
        help="cut the query into N cells that run in parallel (1)",
    )
    add("--load", metavar="FILE", help="continue from a saved state of the same query")
    add("--save", metavar="FILE", help="save the state at the end")
    add("--on-missing", choices=("ignore", "raise"), help="ignore: only count deletes of absent rows; raise: stop")
    add("--quarantine", metavar="DIR", help="write bad rows to this folder instead of stopping")
    add("--json", action="store_true", help="print deltas, results, progress and summary as JSON lines")
    add("--quiet", action="store_true", help="no progress lines")
    parser.set_defaults(defaults={action.dest: action for action in parser._actions})


def run(args: argparse.Namespace) -> int:
    """Maintains the query and reports progress on standard error. Returns exit code 0."""
    if project.is_named(args):
        return project.run(args)
    if not args.input:
        raise ChangeError(
            "--input NAME=FILE names the file with the changes of a relation; give one for each relation that changes"
        )
    sources: dict[Path, RowsFile] = {}
    made = _plan(args, sources)
    paths = _inputs(args.input, made)
    _check(args, paths)
    with waiting("crown run: reading"):
        view = _view(args, made)
        piping = {name for name, path in paths.items() if str(path) == STANDARD_INPUT and args.window is None}
        files = {name: _rows(path, made.table(name), sources) for name, path in paths.items() if name not in piping}
        notes = [note for source in sources.values() for note in source.notes]
        sources.clear()  # and the bytes of their files
        stream = batches(
            {**files, **{name: piped(args.batch_rows, made.table(name)) for name in piping}},
            args.batch_rows,
            args.window,
        )
    notes += [] if args.window is None else netted(files, args.batch_rows, args.window)
    for note in () if args.quiet else notes:
        print(note, file=sys.stderr)
    absent = [table.name for table in made.tables if table.name not in paths]
    if absent and not args.quiet:
        print(f"no --input for {', '.join(absent)}: no changes are read", file=sys.stderr)
    started = time.monotonic()
    rows = deltas = 0
    read: Counter[str] = Counter()
    key = names_of(args.key)
    with _sink(args.output, _emitted_schema(view, args.emit, key), args.json) as write:
        # COUNT(*) has a row also of tables without rows: the first batch inserts it, even if it is empty.
        for number, batch in enumerate(chain((next(stream, {}),), stream)):
            begun = time.monotonic()
            taken = sum(table.num_rows for table in batch.values())
            emitted = 0
            with nullcontext() if args.quiet else waiting(f"crown run: batch {number}"):
                try:
                    for delta in _emitted(view, batch, args.emit, key, number):
                        emitted += delta.num_rows
                        write(delta)
                except BadRowError as error:
                    raise _located(error, paths, read if args.window is None else None, number) from None
            read.update({name: table.num_rows for name, table in batch.items()})
            if args.output == "-":
                sys.stdout.flush()  # who reads a stream wants every batch when it is done
            rows, deltas = rows + taken, deltas + emitted
            if not args.quiet:
                seconds = time.monotonic() - begun
                state = view.stats()["input_rows"]
                told = {"batch": number, "rows": taken, "deltas": emitted, "state_rows": state, "seconds": seconds}
                _say(
                    args.json,
                    told,
                    f"batch {number}: {taken:,} rows in, {emitted:,} deltas out, "
                    f"{taken / max(seconds, 1e-9):,.0f} rows/s, {state:,} state rows, {1000 * seconds:.0f} ms",
                )
    seconds = time.monotonic() - started
    stats = view.stats()
    missing = sum(stats["missing_deletes"].values())
    counts = {"rows": rows, "deltas": deltas, "seconds": seconds, "state_rows": stats["input_rows"]}
    counts |= {"state_bytes": stats["live_bytes"], "missing_deletes": missing, "quarantined": stats["quarantined"]}
    within = stats.get("windows", {}).values()
    counts |= {"expired": sum(of["expired"] for of in within), "late": sum(of.get("late", 0) for of in within)}
    left = f", {counts['expired']:,} rows expired, {counts['late']:,} came too late" if within else ""
    _say(
        args.json,
        counts,
        f"{rows:,} rows in, {deltas:,} deltas out in {seconds:.2f} s ({rows / max(seconds, 1e-9):,.0f} rows/s); "
        f"state {stats['live_bytes']:,} bytes for {stats['input_rows']:,} rows; "
        f"{missing:,} deletes found nothing, {stats['quarantined']:,} rows quarantined{left}",
    )
    if args.results is not None:
        if not args.json:
            print(f"result: {view.count():,} rows")
        for row in rows_shown(view.to_table(args.results)):
            print(_line(row) if args.json else pairs_shown(row))
    if args.save is not None:
        with waiting(f"crown run: writing {args.save}"):
            view.save(args.save)
    return 0


def _rows(path: Path, table: Table, sources: dict[Path, RowsFile]) -> pa.Table:
    if str(path) == STANDARD_INPUT:
        return standard_input(table)
    return sources.setdefault(path, RowsFile(path)).rows(table)


def _plan(args: argparse.Namespace, sources: dict[Path, RowsFile]) -> Program:
    query, windows = query_text(args.query), windows_of(args)
    if _is_plan(query):
        for option, given in (("--schema", args.schema), ("--rate", args.rate)):
            if given:
                raise ChangeError(f"the query is a plan, which has its own tables and rates; leave out {option}")
    unread: dict[str, str] = {}
    schema = _schema(query, schema_of(args.schema), args, sources, unread)
    with asking(schema, unread):
        return program(query, schema, rates=rates_of(args.rate), dialect=args.dialect, windows=windows or None)


def _schema(
    query: str, declared: Schema, args: argparse.Namespace, sources: dict[Path, RowsFile], unread: dict[str, str]
) -> Schema:
    """Returns the schema and the relations that were not declared, which are inferred from the files and the query.
    Prints the inferred relations. Adds to ``unread`` why the columns of a relation cannot be read from its file."""
    if _is_plan(query):
        return declared
    tables = []
    for text in args.input:
        name, _, path = text.partition("=")
        if name.strip() not in declared and path not in ("", STANDARD_INPUT):
            try:
                columns = sources.setdefault(Path(path), RowsFile(Path(path))).columns()
            except NoColumnsError as error:
                unread[name.strip()] = str(error)
            else:
                tables.append(_with_reasons(Schema.of({name.strip(): _own(columns, query)})[name.strip()], path))
    made = completed(query, Schema((*declared.values(), *tables)))
    guessed = [declaration(made[name]) for name in made if name not in declared and made[name].typed]
    if guessed and not args.quiet:
        print(f"no --schema for these, so they are read as: {', '.join(guessed)}", file=sys.stderr)
    return made


def _with_reasons(table: Table, path: str) -> Table:
    """Returns the relation of a file, whose columns without a type say that the file has no value of them."""
    why = untyped(f"{path} has no value of it; declare the columns: --schema '{table.name}(a int64, b string)'")
    columns = (replace(of, type=why) if why_untyped(of.type) is not None else of for of in table.columns)
    return replace(table, columns=tuple(columns))


def _own(columns: pa.Schema, query: str) -> pa.Schema:
    """Returns the columns, except those that may have change weights or codes and that the query does not read. So a
    column `weight` is rejected with the rows, as for a relation that is declared without it."""
    if are_rules(query) or looks_like(query) or _EVERY.search(query):  # columns by position, or all of them
        return columns
    words = {word.lower() for word in _WORD.findall(query)}
    doubtful = (field for field in columns if meant_for_weight(field.name) or meant_for_codes(field.name))
    left_out = {field.name for field in doubtful if field.name.lower() not in words}
    return pa.schema([field for field in columns if field.name not in left_out])


def _is_plan(query: str) -> bool:
    return query.lstrip().startswith("{")


def _inputs(texts: list[str], made: Program) -> dict[str, Path]:
    """Returns the file of each relation, by the relation's name in the schema."""
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
    """Raises an error before any input is read if options conflict, are ignored, or would overwrite a file."""
    args.batch_rows = min(number_of(args.batch_rows, "--batch-rows", 1), _MOST_ROWS)
    if args.results is not None:
        number_of(args.results, "--results", 0)
    given = {"--threads": args.threads, "--on-missing": args.on_missing, "--quarantine": args.quarantine}
    useless = [option for option, value in given.items() if value is not None]
    if args.load is not None and useless:
        raise ChangeError(f"--load uses the options of the saved state; leave out {' and '.join(useless)}")
    output = None if args.output == "-" else args.output
    written = {
        option: file_of(path, option)
        for option, path in (("--output", output), ("--save", args.save))
        if path is not None
    }
    readers = [name for name, path in inputs.items() if str(path) == STANDARD_INPUT]
    if len(readers) > 1:
        raise ChangeError(f"standard input is one stream, and {' and '.join(readers)} would read it; give files")
    taken = {f"--input {name}": path for name, path in inputs.items()}
    if args.load is not None:
        taken["--load"] = path_of(args.load, "--load")
    for option, path in written.items():
        for other, there in taken.items():
            if (option, other) != ("--save", "--load") and same_file(path, there):
                raise ChangeError(f"{option} would overwrite {path}, which {other} reads; name another file")
    if len(written) == 2 and same_file(*written.values()):
        raise ChangeError(f"--output and --save are both {output}; name two files")


def _view(args: argparse.Namespace, made: Program) -> View:
    if args.load is not None:
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


def _located(error: BadRowError, paths: Mapping[str, Path], read: Mapping[str, int] | None, number: int) -> ChangeError:
    """Returns the error about a row of a batch with the place of the row in its input: the number of the row, or of the
    batch if windows add rows. ``read``: the number of rows before the batch."""
    path = paths.get(error.relation)
    if path is None:  # a relation that crown feeds, such as the clock
        return error
    place = f"batch {number}" if read is None else f"row {read.get(error.relation, 0) + error.row + 1}"
    source = "standard input" if str(path) == STANDARD_INPUT else str(path)
    advice = "; fix the row, or set bad rows aside with --quarantine DIR" if type(error) is BadRowError else ""
    return ChangeError(f"relation {error.relation!r}, {place} of {source}: {error.reason}{advice}")


def _emitted(
    view: View, batch: Mapping[str, pa.Table], emit: str, key: Sequence[str] | None, number: int
) -> Iterator[pa.RecordBatch]:
    """Yields the deltas of a batch in the format ``emit``. For all formats except weights the deltas of the batch are
    collected first, because rows are paired."""
    if emit == changes.WEIGHTS:
        yield from view.apply_batches(batch)
    else:
        delta = view.apply(batch, ranges=emit == changes.RANGES)
        yield from changes.emitted(delta, emit, key, number).to_batches()


def _emitted_schema(view: View, emit: str, key: Sequence[str] | None) -> pa.Schema:
    """Returns the columns of the output. Raises ChangeError for a key that the result does not have."""
    wrong = changes.unfit(emit, key, [output.name for output in view.plan.output])
    if wrong is not None:
        raise ChangeError(wrong.replace("key= ", "--key ").replace("emit=", "--emit "))
    schema = view.ranged_schema if emit == changes.RANGES else view.delta_schema
    return changes.emitted(schema.empty_table(), emit, key, 0).schema


_LENGTHS = {".csv": (arrow_type("duration"), arrow_type("months")), ".parquet": (arrow_type("months"),)}
"""The lengths of time that files have no form for."""


@contextmanager
def _sink(output: str | None, schema: pa.Schema, lines: bool) -> Iterator[Any]:
    """Yields a function that writes a delta batch."""
    if output is None:
        yield lambda batch: None
    elif output == "-":
        yield _show_lines if lines else _show
    else:
        lengths = _LENGTHS.get(output[output.rfind(".") :], ())
        for field in schema:
            if field.type in lengths:
                text = f"CAST({field.name} AS STRING)"
                raise ChangeError(f"column {field.name!r} is an INTERVAL, which {output} cannot hold: select {text}")
        try:
            if output.endswith(".parquet"):
                with pq.ParquetWriter(output, schema) as parquet:
                    yield parquet.write_batch
            elif output.endswith(".csv") and any(pa.types.is_nested(field.type) for field in schema):
                raise ChangeError(
                    "CSV cannot hold arrays, maps and structs, nor the nested rows of --emit debezium or "
                    "ranges: name a .parquet"
                )
            elif output.endswith(".csv"):
                with pacsv.CSVWriter(output, schema) as text:
                    yield text.write_batch
            else:
                raise ChangeError(f"--output {output!r}: name a .parquet or .csv file, or - for the screen")
        except BrokenPipeError:
            raise  # of the screen, not of this file
        except (OSError, pa.ArrowException) as error:
            number = error.errno if isinstance(error, OSError) else None  # Arrow's errors have no strerror
            raise ChangeError(f"cannot write {output}: {error if number is None else os.strerror(number)}") from None


def _say(lines: bool, counts: Mapping[str, Any], text: str) -> None:
    """Prints the progress on standard error, as text or as a line of JSON."""
    print(_line(counts) if lines else text, file=sys.stderr)


def _line(row: Mapping[str, Any]) -> str:
    """Returns a row as JSON. Values without a JSON form are texts in Arrow's notation."""
    line = json.dumps(row, ensure_ascii=False, default=_text)
    return line if takes(sys.stdout, line) else json.dumps(row, default=_text)


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _show_lines(batch: pa.RecordBatch) -> None:
    for row in rows_shown(batch):
        print(_line(row))


def _show(batch: pa.RecordBatch) -> None:
    for row in rows_shown(batch):
        sign = "+ " if row.get("_weight", 0) > 0 else "- " if "_weight" in row else ""
        row.pop("_weight", None)
        print(sign, end="")
        print(pairs_shown(row))
