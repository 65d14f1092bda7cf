"""Inputs of a job: folders of change files (CSV, JSON lines, Parquet) and edge lists, as change DataFrames.

Text is read as text. Spark's readers would silently turn a value that does not fit its type, or a missing field, into
NULL. Here every value is read unchanged, and checked in ``spark_jobs.ingest.rows``. A fault of a record as a whole
(missing fields, not JSON) is written to the column ``_unreadable``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from crown.ingest.conventions import CODES, code_column
from plans.errors import FileError
from plans.files import formats
from plans.files.delimited import UNREADABLE
from plans.files.unpacked import opened
from plans.schema import Table
from spark_jobs.errors import SourceError
from spark_jobs.folders import local_folder
from spark_jobs.ingest.conventions import DEBEZIUM
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.rows import WEIGHT
from spark_jobs.ingest.source_log import LOCAL
from spark_jobs.ingest.text_files import FILES, PATH, READ, TextFiles, first_layout, head, members, parsed_lines, reader
from spark_jobs.session import quietly
from spark_jobs.storage.address import masked, scheme_of

FORMATS = ("csv", "json", "parquet", "edges")
_KINDS = {formats.CSV: "csv", formats.TSV: "csv", formats.JSON: "json", formats.PARQUET: "parquet"}
_UNPACKED_BY_SPARK = (None, formats.GZIP, formats.ZSTD, formats.BZ2)
_SPEC = re.compile(r"(?P<name>\w+)=(?P<path>.+?)(?::(?P<options>\w+=[^:,]*(?:,\w+=[^:,]*)*))?")
_OF_TEXT = ("header", "sep")
OF_FILES = (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge", "maxCachedFiles", "fileNameOnly",
    "cleanSource", "sourceArchiveDir", "pathGlobFilter", "modifiedBefore", "modifiedAfter",
)  # fmt: skip
AGELESS = {"maxFileAge": "36500d"}
"""Without this option, a stream ignores a file that is a week older than the newest file that it has read: one that was
copied with its time, for example."""
BINARY = T.StructType([
    T.StructField(PATH, T.StringType()), T.StructField("modificationTime", T.TimestampType()),
    T.StructField("length", T.LongType()), T.StructField("content", T.BinaryType()),
])  # fmt: skip
"""The columns of Spark's source of whole files; columns that are not selected are not read."""
_UTF8 = "utf-8-sig"  # without the byte order mark, which Spark drops, too
_DELETES = [code for code, weight in CODES.items() if weight < 0]
FILE = "_file"
"""Column of a batch frame: the file of a row."""


@dataclass(frozen=True)
class Input:
    """One ``--input``: a relation's name, the path of its changes, their format, and options for the reader.

    ``files``: change files per micro-batch, None for all existing files.
    """

    name: str
    path: Path
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    files: int | None = None

    @staticmethod
    def parse(text: str) -> Input:
        """Returns the input that ``name=path`` or ``name=path:option=value,...`` describes.

        Options: ``format`` (csv, json, parquet, edges; default: by the name of the file, or of the first file in the
        folder), ``files`` (per micro-batch), ``sep`` and ``header`` of CSV, and the options of Spark's file sources.
        Raises :class:`SourceError`.
        """
        match = _SPEC.fullmatch(text)
        if match is None:
            raise SourceError(f"--input {text!r}: give name=path, or name=path:option=value,option=value")
        options = dict(pair.split("=", 1) for pair in (match["options"] or "").split(",") if pair)
        if scheme_of(match["path"]) is not None:
            raise SourceError(
                f"--input {match['name']}: {masked(match['path'])} is not on this host, and "
                f"{scheme_of(match['path'])}: cannot be read here; mount or copy it, or pass Spark's own reader to "
                "spark_jobs.maintain()"
            )
        path = local_folder(match["path"], f"--input {match['name']}")
        if not path.exists():
            raise SourceError(f"--input {match['name']}: there is no {path}")
        kind = options.pop("format", None) or _guess(match["name"], path)
        if kind not in FORMATS:
            raise SourceError(f"--input {match['name']}: format {kind!r} is unknown; use one of {', '.join(FORMATS)}")
        if kind == "edges" and path.is_dir():
            raise SourceError(f"--input {match['name']}: an edge list is one file, but {path} is a folder")
        files = options.pop("files", None)
        if files is not None and (not files.isdigit() or int(files) < 1):
            raise SourceError(f"--input {match['name']}: files={files}: give a whole number, 1 or more")
        return Input(match["name"], path, kind, options, int(files) if files is not None else None)


def changes(spark: SparkSession, given: Input, table: Table | None, change: str | None, streaming: bool) -> DataFrame:
    """Returns the changes of a relation from a folder (or a single file) as a DataFrame.

    ``table``: the declared relation (needed for CSV and JSON, whose values have no types of their own); ``change``: the
    column with weights or change codes. Raises :class:`SourceError`.
    """
    if given.format == "parquet":
        return _load(spark, given, "parquet", _parquet_schema(spark, given, table), {}, streaming)
    if table is None:
        raise SourceError(
            f"relation {given.name!r}: {given.format} has no types; declare it: --schema '{given.name}(...)'"
        )
    if given.format == "csv":
        return _csv(spark, given, table, change, streaming)
    return _json(spark, given, table, change, streaming)


def _csv(spark: SparkSession, given: Input, table: Table, change: str | None, streaming: bool) -> DataFrame:
    for option in given.options:
        if option not in (*_OF_TEXT, *OF_FILES):
            raise SourceError(
                f"relation {given.name!r}: CSV has no option {option}; crown reads CSV itself, with "
                f"{', '.join(_OF_TEXT)}, and the options of Spark's file sources"
            )
    files = _text_files(given, table, change)
    named = [T.StructField(name, T.StringType()) for name in (*files.names, UNREADABLE, FILE)]
    found = _load(spark, given, "binaryFile", BINARY, {}, streaming)
    logged = F.lit(None).cast("string") if streaming else F.col(FILE)
    found = found.select(PATH, logged.alias(FILE))
    count = F.count(F.lit(1)).alias("rows")
    with quietly():
        if not streaming:
            return found.mapInArrow(reader(files), T.StructType(named))
        rows = found.observe(FILES + given.name, count).mapInArrow(reader(files), T.StructType(named))
    return rows.drop(FILE).observe(READ + given.name, count)


def _text_files(given: Input, table: Table, change: str | None) -> TextFiles:
    """Returns how to read the files of an input, given its first file."""
    mark, header = given.options.get("sep"), given.options.get("header", "true").lower() == "true"
    if mark is not None and len(mark) != 1:
        raise SourceError(f"relation {given.name!r}: sep={mark}: give one character")
    first = next(_files(given.path), None)
    if not header or first is None:
        names = (*(column.name for column in table.columns), change or WEIGHT)
    else:
        try:
            names = first_layout(first, head(first), table, mark).names
        except FileError as error:
            raise SourceError(f"relation {given.name!r}: {error}; or use header=false") from None
        if len(set(names)) < len(names):
            raise SourceError(f"relation {given.name!r}: the first line of {first} names a column twice: {names}")
    return TextFiles(table, tuple(names), mark, header)


def _json(spark: SparkSession, given: Input, table: Table, change: str | None, streaming: bool) -> DataFrame:
    lines = _load(spark, given, "text", T.StructType([T.StructField("value", T.StringType())]), {}, streaming)
    parsed = parsed_lines(lines)
    fields = F.col("fields")
    names = [column.name for column in table.columns]
    first = _first_record(given)
    if change == DEBEZIUM or (change is None and first is not None and {"op", "before", "after"} <= first):
        return envelopes(parsed, table, streaming)
    change_column = change or _change_column(first, names)
    reasons = [F.when(fields.isNull(), F.concat(F.lit("not a JSON object: "), F.substring("value", 1, 200)))]
    wanted = names if change_column is None else [*names, change_column]
    named = {name.lower() for name in (*table.named_by, change_column or "")}
    is_delete = (
        F.lower(fields[change_column]).isin(_DELETES) if table.upserts and change_column is not None else F.lit(False)
    )
    reasons += [
        F.when(
            ~F.map_contains_key("fields", name) & (F.lit(name.lower() in named) | ~F.coalesce(is_delete, F.lit(False))),
            F.lit(f"column '{name}' is missing"),
        )
        for name in wanted
    ]
    columns = [fields[name].alias(name) for name in names]
    if change_column is None:
        late = F.lit(f"column '{WEIGHT}' is not in the first record of the input: give it to all records, or to none")
        reasons += [F.when(F.map_contains_key("fields", WEIGHT), late)]
    else:
        columns += [fields[change_column].alias(change_column)]
    kept = [] if streaming else [F.col(FILE)]
    return parsed.select(*columns, F.coalesce(*reasons).alias(UNREADABLE), *kept)


def _change_column(first: set[str] | None, names: Sequence[str]) -> str | None:
    """Returns the member that says whether a record is inserted or deleted; None: all records are inserted."""
    if first is None or WEIGHT in first:
        return WEIGHT
    return code_column(first, {name.lower() for name in names})


def _first_record(given: Input) -> set[str] | None:
    """Returns the members of the first record of the first file; None if there is no file or no record yet."""
    first = next(_files(given.path), None)
    if first is None:
        return None
    try:
        with io.TextIOWrapper(opened(first), encoding=_UTF8) as file:
            found = json.loads(next((line for line in file if line.strip()), "null"))
    except (FileError, OSError, ValueError, RecursionError):
        return None  # its rows are bad, or Spark reports that the file cannot be read
    inner = found.get("payload") if isinstance(found, dict) else None
    return set(inner if isinstance(inner, dict) else found) if isinstance(found, dict) else None


def envelopes(parsed: DataFrame, table: Table, streaming: bool) -> DataFrame:
    """Returns Debezium's envelopes, with or without a ``payload`` around them, as ``op`` and structs of texts.

    ``parsed``: the result of ``parsed_lines``; a line with a reason in ``_unreadable`` keeps that reason. The sequence
    of a table with upserts may be a member of the envelope, as in Debezium, a column of the rows, or a column beside
    the texts, such as Kafka's offset.
    """
    sequence = (table.sequence or "").lower()
    names = [column.name for column in table.columns if column.name.lower() != sequence]
    fields = F.col("fields")
    around = F.coalesce(F.map_contains_key("fields", "payload"), F.lit(False))
    inner = F.when(around, members(fields["payload"])).otherwise(fields)
    tombstone = (F.trim("value") == "null") | (around & fields["payload"].isNull())
    line = F.substring("value", 1, 200)
    unread = F.when(inner.isNull() & ~tombstone, F.concat(F.lit("not a JSON object: "), line))
    unread = unread.when(~F.map_contains_key(inner, "op"), F.concat(F.lit("not an envelope, it has no 'op': "), line))
    given = [F.col(UNREADABLE)] if UNREADABLE in parsed.columns else []
    parsed = parsed.withColumn("inner", inner).withColumn(UNREADABLE, F.coalesce(unread, *given))
    images, reasons = [], [F.col(UNREADABLE)]
    beside = []
    for column in table.columns:
        if column.name.lower() == sequence:
            inside = [members(F.col("inner")[image])[column.name] for image in ("after", "before")]
            inside += [F.col(quoted(name)).cast("string") for name in parsed.columns if name.lower() == sequence]
            beside.append(F.coalesce(F.col("inner")[column.name], *inside).alias(column.name))
    for image in ("before", "after"):
        values = members(F.col("inner")[image])
        struct = F.struct(*(values[name].alias(name) for name in names))
        images.append(F.when(values.isNotNull(), struct).alias(image))
        reasons += [
            F.when(values.isNotNull() & ~F.map_contains_key(values, name), F.lit(f"column '{name}' is missing {image}"))
            for name in names
            if image == "after" or not table.upserts or name.lower() in {column.lower() for column in table.key}
        ]
    kept = [*beside, *([] if streaming else [F.col(FILE)])]
    return parsed.select(F.col("inner")["op"].alias("op"), *images, F.coalesce(*reasons).alias(UNREADABLE), *kept)


def _parquet_schema(spark: SparkSession, given: Input, table: Table | None) -> T.StructType:
    first = next(_files(given.path), None)
    if first is None:
        raise SourceError(
            f"relation {given.name!r}: {given.path} has no file yet; put one there, from which the columns are read"
        )
    declared = None if table is None else {column.name.lower() for column in table.columns}
    schemas = {file: _columns(given.name, file) for file in _files(given.path)}
    for file, columns in schemas.items():  # Spark would silently read a column that a file lacks as NULL
        for name in sorted(schemas[first] ^ columns):
            if declared is None or name in declared or name.startswith("_"):
                one, other = (first, file) if name in schemas[first] else (file, first)
                raise SourceError(
                    f"relation {given.name!r}: {one} has a column {name!r}, but {other} has none: give all files of a "
                    "folder the same columns"
                )
    return spark.read.parquet(str(first)).schema


def _columns(relation: str, file: Path) -> set[str]:
    try:
        return {name.lower() for name in pq.read_schema(file).names}
    except (OSError, pa.ArrowException):
        raise SourceError(
            f"relation {relation!r}: {file} is not a readable Parquet file: remove it, or name the format of the folder"
        ) from None


def _load(
    spark: SparkSession, given: Input, kind: str, schema: T.StructType, options: Mapping[str, str], streaming: bool
) -> DataFrame:
    """Returns Spark's reader on the folder, as a stream or a batch."""
    passed = {**options, **given.options}
    folder = given.path
    if folder.is_file():
        passed["pathGlobFilter"] = folder.name
        folder = folder.parent
    if not streaming:
        frame = spark.read.format(kind).schema(schema).options(**passed).load(str(folder))
        return frame.withColumn(FILE, F.regexp_replace("_metadata.file_path", LOCAL, "/"))
    if given.files is not None:
        passed["maxFilesPerTrigger"] = str(given.files)
    return spark.readStream.format(kind).schema(schema).options(**{**AGELESS, **passed}).load(str(folder))


def _guess(name: str, path: Path) -> str:
    """Returns the format, by the name of the file or of the first file in the folder. A file with another name is read
    as a list, without Spark.
    """
    first = next(_files(path), None)
    if first is None:
        raise SourceError(f"--input {name}: {path} is empty; name the format of its files: {name}={path}:format=csv")
    format_, packing = formats.named(first)
    kind = _KINDS.get(format_ or "") if packing in _UNPACKED_BY_SPARK else None
    if kind is None and path.is_dir():
        raise SourceError(f"--input {name}: {first.name} does not show its format; name it: {name}={path}:format=csv")
    return kind or "edges"


def _files(path: Path) -> Iterator[Path]:
    """Yields the data files of a folder in order of name, or the file itself. Skips hidden files and those that start
    with _.
    """
    if path.is_file():
        yield path
    else:
        yield from sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
