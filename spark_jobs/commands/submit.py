"""``crown submit``: maintains a query over change files with Spark, and writes its deltas."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, get_type_hints

from crown.analysis.amplified import BEYOND
from crown.changes import FORMATS
from crown.options import ON_BAD_ROW, ON_MISSING, as_flags
from plans.commands.declare import (
    add_dialect,
    add_emit,
    add_windows,
    names_of,
    query_text,
    rates_of,
    repeated,
    schema_of,
    windows_of,
)
from plans.schema import Schema
from spark_jobs.errors import SparkJobError
from spark_jobs.feeds.topics import Topics
from spark_jobs.folders import local_folder
from spark_jobs.ingest.sources import Input
from spark_jobs.job import sinks, submit
from spark_jobs.options import Options, StreamOptions
from spark_jobs.tables.deltas.parts import COMPRESSIONS
from spark_jobs.tables.deltas.write import TABLES

HELP = "maintain a query over change files with Spark and write the stream of its deltas"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "example, all 3-hop paths in a sliding window over an edge list:\n"
        "  crown submit 'Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d).' --input g=edges.txt.zip --window 0.2 --output noop"
    )
    add = parser.add_argument
    add("query", help="SQL, Datalog, a motif, a plan as JSON, or a file that holds one of these")
    repeated(
        parser,
        "--input",
        "NAME=PATH[:OPTION=VALUE,...]",
        "changes of a relation: a folder or file of CSV, TSV, JSON lines or Parquet, perhaps packed (.gz, .zst, "
        ".bz2), or another single file that crown run reads, such as an edge list. Options: "
        "format=csv|json|parquet|edges, files=N per micro-batch, sep and header of CSV, and those of Spark's sources",
    )
    add(
        "--kafka",
        metavar="SERVERS",
        help="brokers of topics with Debezium's envelopes, as host:port, separated by commas",
    )
    repeated(parser, "--topic", "NAME", "topics to read; a topic has the changes of one table or of several")
    repeated(
        parser,
        "--table",
        "RELATION=TABLE,...",
        "what a relation's tables are called in the topics (default: as the relation in --schema)",
    )
    repeated(
        parser,
        "--kafka-option",
        "KEY=VALUE",
        "a setting of Spark's source for Kafka (default: startingOffsets=earliest, maxOffsetsPerTrigger of "
        "--batch-rows)",
    )
    add("--kafka-config", metavar="FILE", help="properties of Kafka's client, such as security.protocol and passwords")
    add("--output", required=True, metavar="FOLDER|console|noop", help="where the deltas are written")
    add(
        "--sink",
        choices=(sinks.SPARK, *TABLES),
        default=sinks.SPARK,
        help="who writes the output folder: Spark, in --format (default), or the cells themselves, faster: as a Delta "
        "table, or as plain Parquet with a manifest per batch",
    )
    add("--format", default="parquet", help="format that Spark writes: parquet (default), json, csv, orc")
    add("--compression", choices=COMPRESSIONS, help="of the files that the cells write (default: lz4)")
    add(
        "--checkpoint", metavar="DIR", help="where the job keeps its state; needed unless the output is console or noop"
    )
    add(
        "--state",
        metavar="URI",
        help="keep the state outside of the checkpoint: in a folder, s3://, gs:// or az:// (credentials from the "
        "environment)",
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--available-now", action="store_true", help="read the changes that exist now, then stop (default)"
    )
    when.add_argument("--trigger", metavar="INTERVAL", help="keep running, a micro-batch every '5 seconds'")
    repeated(
        parser,
        "--schema",
        "'R(a int64, b string)'|FILE.json",
        "a relation's columns and types; a column that is unique may be marked 'key', the relation 'distinct'",
    )
    add_dialect(parser)
    add(
        "--window",
        metavar="W",
        help="slide a window of W rows, or of a fraction (0.2) of the rows, over the edge lists",
    )
    add_windows(parser)
    add(
        "--batch-rows",
        type=int,
        default=100_000,
        metavar="N",
        help="updates per micro-batch of an edge list, records of topics (100000)",
    )
    add("--change", metavar="COLUMN", help="column with weights or change codes, or debezium (default: found)")
    add_emit(add, FORMATS)
    add(
        "--cells",
        type=int,
        metavar="N",
        help="cut the state into N cells (default: one per two cores, up to four, as far as that helps)",
    )
    repeated(parser, "--rate", "NAME=ROWS", "rows per batch of a relation, for the planner")
    add(
        "--on-bad-row",
        choices=ON_BAD_ROW,
        default="fail",
        help="stop, or quarantine bad rows (default: stop)",
    )
    add("--quarantine", metavar="DIR", help="folder of the quarantine (default: quarantine/ in the checkpoint)")
    add(
        "--on-missing",
        choices=ON_MISSING,
        default="ignore",
        help="deletes of absent rows: count, stop, or trust that there are none",
    )
    add("--cores", type=int, metavar="N", help="worker threads (default: all)")
    add("--memory", default="2 GiB", metavar="SIZE", help="memory of the JVM ('2 GiB'); the state lives outside it")
    add(
        "--cell-budget", metavar="SIZE", help="state that a cell may have ('8 GiB'); a batch that needs more is refused"
    )
    add("--cell-memory", metavar="SIZE", help="how much of it may be in memory ('2 GiB'); the rest is in --scratch")
    repeated(parser, "--conf", "KEY=VALUE", "a Spark setting")
    add("--scratch", metavar="DIR", help="local folder for live state (default: under the temporary directory)")
    add("--prometheus", metavar="FILE", help="write numbers for Prometheus to this file after every micro-batch")
    add(
        "--amplified",
        type=int,
        default=BEYOND,
        metavar="N",
        help=f"report a change that causes more than N deltas in a cell, with its key ({BEYOND})",
    )
    add("--sample", type=int, default=0, metavar="N", help="show N deltas of every batch")
    add("--verify", action="store_true", help="at the end, compare the result with a from-scratch recompute by Spark")
    add("--json", action="store_true", help="print batches, their samples of deltas, and the summary as JSON lines")


def run(args: argparse.Namespace) -> int:
    """Runs the job; exit code 0, or 1 if ``--verify`` found a difference."""
    return 1 if submit.run(job(args)).verified is False else 0


def job(args: argparse.Namespace) -> submit.Job:
    """Returns the job that the options describe. Raises ``SparkJobError`` or ``PlanError`` for options that do not fit
    together.
    """
    schema, inputs = schema_of(args.schema), tuple(Input.parse(text) for text in args.input)
    return submit.Job(
        query=query_text(args.query),
        inputs=inputs,
        topics=_topics(args, schema, inputs),
        output=args.output,
        checkpoint=local_folder(args.checkpoint, "--checkpoint") if args.checkpoint else None,
        format=args.format,
        sink=args.sink,
        trigger=args.trigger,
        options=_options(args, schema),
        window=args.window,
        batch_rows=args.batch_rows,
        cores=args.cores,
        memory=args.memory,
        conf=_pairs("--conf", args.conf),
        prometheus=args.prometheus,
        verify=args.verify,
        json=args.json,
    )


def _options(args: argparse.Namespace, schema: Schema) -> Options:
    """Returns the options of ``maintain`` among the command's options. Their names differ only by dashes."""
    names = set(get_type_hints(StreamOptions))
    given = {name: value for name, value in vars(args).items() if name in names and value is not None}
    own: dict[str, Any] = {"schema": schema, "windows": windows_of(args) or None, "key": names_of(args.key)}
    own["rates"] = rates_of(args.rate) or None
    with as_flags(names):
        return Options.of("crown submit", {**given, **own, "checkpoint": None})


def _topics(args: argparse.Namespace, schema: Schema, inputs: Sequence[Input]) -> Topics | None:
    if args.kafka is None:
        if args.topic or args.table or args.kafka_option or args.kafka_config:
            raise SparkJobError("--topic, --table, --kafka-option and --kafka-config need --kafka SERVERS")
        if not inputs:
            raise SparkJobError("the job has nothing to read: give --input NAME=PATH, or --kafka and --topic")
        return None
    read = {given.name.lower() for given in inputs}
    relations = [name for name in schema if name.lower() not in read]
    settings = _pairs("--kafka-option", args.kafka_option)
    return Topics.of(args.kafka, args.topic, relations, args.table, settings, args.kafka_config)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise SparkJobError(f"{option} {text!r}: give NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)
