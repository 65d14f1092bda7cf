"""A PostgreSQL table that holds a result, updated by one transaction per micro-batch.

The same transaction stores the stream and batch in the table ``crown_batches``, so a batch is applied once. Rows are
sent by COPY into a temporary table. Then one DELETE, UPDATE and INSERT is run for every pattern of NULLs among the
key's columns, because ``=`` does not match NULL, and only ``=`` and ``IS NULL`` use an index.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from crown.errors import needs
from plans.types import decimal_parts, type_of_arrow
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.tables.deltas.commits import follows
from spark_jobs.tables.results.net import COUNT, DELETE, INSERT, UPDATE, Net, another_s, unfit

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_NULLS = "_nulls"
_TYPES = {
    "bool": "boolean",
    "int32": "integer",
    "int64": "bigint",
    "float64": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


class PostgresResult:
    """The table ``table`` (``name`` or ``schema.name``) of a database. See ``spark_jobs.tables.places.Target``.

    ``conninfo``: as for ``psycopg.connect``; messages never contain its password.
    """

    def __init__(self, conninfo: str, table: str) -> None:
        with needs("a result in PostgreSQL"):
            import psycopg
        try:
            known = psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.Error:
            raise SourceError(
                "the target is not the address of a database: give postgresql://user@host/database"
            ) from None
        self._conninfo = conninfo
        self._table = table
        self._name = f"{table} in {known.get('host', 'the local host')}/{known.get('dbname', '')}"

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the table; −1 if there is none."""
        import psycopg

        try:
            with psycopg.connect(self._conninfo) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass('crown_batches')")
                if _row(cursor)[0] is None:
                    return -1
                cursor.execute("SELECT stream, batch FROM crown_batches WHERE target = %s", (self._table,))
                owner, newest = cursor.fetchone() or (stream, -1)
        except psycopg.Error as error:
            raise CheckpointError(
                f"{self._name} cannot be read ({' '.join(str(error).split())}): fix that, and run again"
            ) from None
        if owner != stream:
            raise another_s(self._name, f"the result of the stream {owner}")
        return int(newest)

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Applies a batch, once. Returns False if it was applied before."""
        import psycopg

        try:
            with psycopg.connect(self._conninfo) as connection, connection.cursor() as cursor:
                newest = self._newest(cursor, stream, net)
                if not follows(self._name, newest, batch, after):
                    return False
                if net.rows.num_rows:
                    self._applied(cursor, batch, net)
                cursor.execute("UPDATE crown_batches SET batch = %s WHERE target = %s", (batch, self._table))
                return True
        except (psycopg.errors.UniqueViolation, psycopg.errors.CheckViolation):
            raise unfit(self._name, batch) from None
        except psycopg.Error as error:
            raise CheckpointError(
                f"batch {batch} cannot be written to {self._name} ({' '.join(str(error).split())}): fix that, and "
                "start the stream again"
            ) from None

    def _newest(self, cursor: psycopg.Cursor, stream: str, net: Net) -> int:
        """Returns the newest batch in the table, and locks it until the transaction ends. Creates the table first."""
        cursor.execute("SELECT to_regclass('crown_batches')")
        if _row(cursor)[0] is None:  # if two connections created it at once, one would fail even with IF NOT EXISTS
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('crown_batches'))")
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS crown_batches "
                "(target text PRIMARY KEY, stream text NOT NULL, batch bigint NOT NULL)"
            )
        cursor.execute("INSERT INTO crown_batches VALUES (%s, %s, -1) ON CONFLICT DO NOTHING", (self._table, stream))
        new = cursor.rowcount == 1
        cursor.execute("SELECT stream, batch FROM crown_batches WHERE target = %s FOR UPDATE", (self._table,))
        owner, newest = _row(cursor)
        if owner != stream:
            raise another_s(self._name, f"the result of the stream {owner}")
        if new:
            self._made(cursor, net)
        return int(newest)

    def _made(self, cursor: psycopg.Cursor, net: Net) -> None:
        from psycopg import sql

        cursor.execute("SELECT to_regclass(%s)", (self._target().as_string(cursor),))
        if _row(cursor)[0] is not None:
            cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._target()))
            if _row(cursor)[0]:
                raise another_s(self._name, "rows that this stream has not written")
            return
        assert cursor.connection.info is not None
        nulls = "NULLS NOT DISTINCT " if cursor.connection.info.server_version >= 150_000 else ""
        parts = [_typed(field) for field in net.rows.select(list(net.columns)).schema]
        if not net.keyed:
            parts.append(sql.SQL("{} bigint NOT NULL CHECK ({} >= 0)").format(*[sql.Identifier(COUNT)] * 2))
        parts.append(sql.SQL(f"UNIQUE {nulls}({{}})").format(_comma(map(sql.Identifier, net.match))))
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(self._target(), _comma(parts)))

    def _applied(self, cursor: psycopg.Cursor, batch: int, net: Net) -> None:
        from psycopg import sql

        rows = net.rows.append_column(_NULLS, _patterns(net))
        types = _comma(_typed(field) for field in rows.schema)
        cursor.execute(sql.SQL("CREATE TEMPORARY TABLE _crown ({}) ON COMMIT DROP").format(types))
        into = sql.SQL("COPY _crown ({}) FROM STDIN (FORMAT csv)").format(
            _comma(map(sql.Identifier, rows.column_names))
        )
        with cursor.copy(into) as copy:
            copy.write(_csv(rows))
        done = 0
        for pattern in pc.unique(rows[_NULLS]).to_pylist():
            done += sum(self._statements(cursor, net, pattern))
        if done != rows.num_rows:
            raise unfit(self._name, batch)

    def _statements(self, cursor: psycopg.Cursor, net: Net, pattern: int) -> Iterator[int]:
        """Applies the rows with one pattern of NULLs; yields the number of rows that each statement has changed."""
        from psycopg import sql

        same = sql.SQL(" AND ").join(
            sql.SQL("t.{0} IS NULL" if pattern >> i & 1 else "t.{0} = s.{0}").format(sql.Identifier(name))
            for i, name in enumerate(net.match)
        )
        of = sql.SQL("s.{} = {}").format(sql.Identifier(_NULLS), pattern)
        kept = [*net.columns, *([] if net.keyed else [COUNT])]
        names = {"t": self._target(), "same": same, "of": of, "columns": _comma(map(sql.Identifier, kept))}
        if net.keyed:
            other = [name for name in net.columns if name not in net.match]
            names["set"] = _comma(sql.SQL("{0} = s.{0}").format(sql.Identifier(name)) for name in other)
            yield _run(
                cursor, f"DELETE FROM {{t}} t USING _crown s WHERE {{of}} AND s._op = '{DELETE}' AND {{same}}", names
            )
            if other:
                update = f"UPDATE {{t}} t SET {{set}} FROM _crown s WHERE {{of}} AND s._op = '{UPDATE}' AND {{same}}"
                yield _run(cursor, update, names)
            insert = "INSERT INTO {t} ({columns}) SELECT {columns} FROM _crown s WHERE {of} "
            yield _run(cursor, f"{insert} AND s._op = '{INSERT}'", names)
            return
        yield _run(cursor, "UPDATE {t} t SET _count = t._count + s._count FROM _crown s WHERE {of} AND {same}", names)
        insert = "INSERT INTO {t} ({columns}) SELECT {columns} FROM _crown s WHERE {of} "
        yield _run(cursor, f"{insert} AND NOT EXISTS (SELECT FROM {{t}} t WHERE {{same}})", names)
        _run(cursor, "DELETE FROM {t} t USING _crown s WHERE {of} AND {same} AND t._count = 0", names)

    def _target(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self._table.split("."))


def _run(cursor: psycopg.Cursor, text: str, names: dict[str, Any]) -> int:
    from psycopg import sql

    cursor.execute(sql.SQL(text).format(**names))
    return cursor.rowcount


def _row(cursor: psycopg.Cursor) -> tuple[Any, ...]:
    found = cursor.fetchone()
    assert found is not None, "the statement gives a row"
    return found


def _comma(parts: Any) -> sql.Composed:
    from psycopg import sql

    return sql.SQL(", ").join(parts)


def _typed(field: pa.Field) -> sql.Composed:
    from psycopg import sql

    type_ = type_of_arrow(field.type)
    parts = decimal_parts(type_)
    if parts is None and type_ not in _TYPES:
        raise SourceError(
            f"a table of PostgreSQL cannot hold the column {field.name}, which has the type {type_}: leave it out, "
            "or make rows of it with EXPLODE"
        )
    return sql.SQL("{} " + (f"numeric({parts[0]},{parts[1]})" if parts else _TYPES[type_])).format(
        sql.Identifier(field.name)
    )


def _patterns(net: Net) -> pa.Array:
    """Returns for each row the columns of the key that are NULL in it: bit ``i`` for the ``i``-th."""
    bits = np.zeros(net.rows.num_rows, np.int64)
    for i, name in enumerate(net.match):
        bits |= net.rows[name].is_null().to_numpy().astype(np.int64) << i
    return pa.array(bits)


def _csv(rows: pa.Table) -> bytes:
    """Returns the rows as CSV in which NULL is empty and an empty text is quoted."""
    sink = io.BytesIO()
    shown = pa.table({f"c{i}": _shown(column) for i, column in enumerate(rows.columns)})
    pacsv.write_csv(shown, sink, pacsv.WriteOptions(include_header=False))
    return sink.getvalue()


def _shown(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return pa.chunked_array([[None if v is None else "\\x" + v.hex() for v in column.to_pylist()]], pa.string())
    return column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
