"""DuckDB, an in-process analytical database: recomputes the query, or runs delta queries written by hand.

The delta queries are the textbook's: with the tables before (``old``) and after (``new``) the batch, the change of a
join of ``R1 ... Rk`` is the sum over ``i`` of ``new R1 .. new R(i-1), delta Ri, old R(i+1) .. old Rk``. Both versions
of a table are stored. One thread, results fetched as Arrow batches and dropped.
"""

from __future__ import annotations

from typing import Any

from bench.cases.checksum import of_batch, sql
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.subject import SkipError, Totals
from crown.ingest.streams.window import WEIGHT

FETCH_ROWS = 100_000


class _Duck:
    """Tables in DuckDB that follow the stream."""

    def __init__(self, loaded: Loaded, mode: str, threads: int = 1) -> None:
        try:
            import duckdb
        except ImportError:
            raise SkipError("DuckDB is not installed (pip install duckdb)") from None
        if mode != "delta":
            raise SkipError(f"DuckDB has no mode {mode}")
        self.loaded = loaded
        self.con = duckdb.connect(":memory:", config={"threads": threads})
        self.versions: tuple[str, ...] = ("",)

    def create(self) -> None:
        """Creates the tables, in all versions."""
        kinds = {
            "int64": "BIGINT",
            "int32": "INTEGER",
            "string": "VARCHAR",
            "date": "DATE",
            "timestamp_ntz": "TIMESTAMP",
        }
        for name, columns in self.loaded.schema.items():
            declared = ", ".join(f"{column} {kinds.get(kind, kind)}" for column, kind in columns.items())
            for version in self.versions:
                self.con.execute(f"CREATE TABLE {version}{name} ({declared})")

    def change(self, version: str, batch: Batch) -> None:
        """Applies a batch of net changes to one version of the tables."""
        for name, rows in batch.items():
            columns = list(self.loaded.schema[name])
            self.con.register("batch", rows)
            same = " AND ".join(f"{version}{name}.{c} IS NOT DISTINCT FROM gone.{c}" for c in columns)
            # A row that is deleted and inserted in one batch is neither.
            net = f"SELECT {', '.join(columns)}, sum({WEIGHT}) AS w FROM batch GROUP BY ALL HAVING w"
            self.con.execute(f"DELETE FROM {version}{name} USING ({net} < 0) gone WHERE {same}")
            self.con.execute(f"INSERT INTO {version}{name} SELECT {', '.join(columns)} FROM ({net} > 0)")
            self.con.unregister("batch")

    def one(self, query: str) -> tuple[Any, ...]:
        """Returns the one row of a query."""
        (row,) = self.con.execute(query).fetchall()
        return tuple(row)

    def load(self, batch: Batch) -> None:
        """Changes the tables without running a query."""
        for version in self.versions:
            self.change(version, batch)

    def enumerate(self) -> int:
        """Raises SkipError: these subjects do not enumerate."""
        raise SkipError("full enumeration is what recompute does")

    def state_bytes(self) -> int | None:
        """Returns the bytes of memory that DuckDB reports for its tables."""
        (used,) = self.one("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
        return None if used is None else int(used)

    def stats(self) -> dict[str, Any]:
        """Returns the version of DuckDB."""
        import duckdb

        return {"version": duckdb.__version__}

    def close(self) -> None:
        """Closes the database."""
        self.con.close()


class DuckRecompute(_Duck):
    """For every batch: changes the tables, runs the query again, counts its rows. Computes no delta.

    ``columns``: counts the values of each column, too, because DuckDB computes no window function just to count rows.
    """

    def __init__(self, loaded: Loaded, mode: str, threads: int = 1, *, columns: bool = False) -> None:
        super().__init__(loaded, mode, threads)
        self._counted = "count(*), count(COLUMNS(*))" if columns else "count(*)"
        self.create()

    def checking(self) -> None:
        """Does nothing: the result is recomputed anyway."""

    def apply(self, batch: Batch) -> int:
        """Recomputes the result. Returns the number of its rows."""
        self.change("", batch)
        rows, *_ = self.one(f"SELECT {self._counted} FROM ({self.loaded.sql})")
        return int(rows)

    def totals(self) -> Totals:
        """Returns the checksum of the recomputed result."""
        count, checksum = self.one(sql(self.loaded.sql, self.loaded.outputs))
        return Totals(int(count), int(checksum))


class DuckDelta(_Duck):
    """For every batch: runs one delta query per input of the join, over old and new tables."""

    def __init__(self, loaded: Loaded, mode: str, threads: int = 1) -> None:
        super().__init__(loaded, mode, threads)
        plan = loaded.program.plan
        if plan is None:
            raise SkipError("the delta queries are written for one join, not for what is grouped or is a bag")
        self.plan = plan
        inputs = [node for node in plan.nodes if node.kind == "input"]
        free = {a for node in inputs for a in node.attributes} <= {o.expr.value for o in plan.output}
        whole = all(len(node.columns) == len(loaded.schema[node.relation]) for node in inputs)
        if any(node.kind == "bag" for node in plan.nodes) or plan.residual or not free or not whole:
            raise SkipError("the delta queries are written for full joins; a projection needs counts besides")
        self.versions = ("old_", "new_")
        self.create()
        self._queries = [self._delta_query(i) for i in range(len(inputs))]
        self._checking = False
        self._count = self._sum = 0

    def _delta_query(self, changed: int) -> str:
        inputs = [node for node in self.plan.nodes if node.kind == "input"]
        inputs.sort(key=lambda node: node.name)
        tables: list[str] = []
        conditions: list[str] = []
        where: dict[str, str] = {}
        for i, node in enumerate(inputs):
            version = "new_" if i < changed else "old_"
            source = f"delta_{node.relation}" if i == changed else f"{version}{node.relation}"
            picked = f"SELECT * FROM {source}"
            if node.predicate is not None:
                picked += f" WHERE {node.predicate}"
            tables.append(f"({picked}) AS t{i}")
            for column, attribute in zip(node.columns, node.attributes, strict=True):
                if attribute in where:
                    conditions.append(f"t{i}.{column} = {where[attribute]}")
                else:
                    where[attribute] = f"t{i}.{column}"
        outputs = ", ".join(f'{where[o.expr.value]} AS "{o.name}"' for o in self.plan.output)
        joined = " AND ".join(conditions) or "true"
        return f"SELECT {outputs}, t{changed}.w AS {WEIGHT} FROM {', '.join(tables)} WHERE {joined}"

    def checking(self) -> None:
        """Sums up the fetched rows."""
        self._checking = True

    def apply(self, batch: Batch) -> int:
        """Runs the delta queries, fetches their rows, updates both versions of the tables."""
        for name, columns in self.loaded.schema.items():
            rows = batch.get(name)
            if rows is None:
                empty = f"SELECT *, 1::HUGEINT AS w FROM new_{name} WHERE false"
                self.con.execute(f"CREATE OR REPLACE TEMP TABLE delta_{name} AS {empty}")
                continue
            self.con.register("batch", rows)
            self.con.execute(
                f"CREATE OR REPLACE TEMP TABLE delta_{name} AS SELECT {', '.join(columns)}, sum({WEIGHT}) AS w "
                "FROM batch GROUP BY ALL HAVING w <> 0"
            )
            self.con.unregister("batch")
        self.change("new_", batch)
        n = 0
        for query in self._queries:
            for part in self.con.sql(query).to_arrow_reader(FETCH_ROWS):
                n += part.num_rows
                if self._checking:
                    weight = part.column(part.num_columns - 1).cast("int64").to_numpy()
                    self._count += int(weight.sum())
                    self._sum += int((of_batch(part, part.num_columns - 1) * weight).sum())
        self.change("old_", batch)
        return n

    def totals(self) -> Totals:
        """Returns the net count and checksum of all deltas so far."""
        return Totals(self._count, self._sum)
