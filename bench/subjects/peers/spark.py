"""Spark without this project: the query is recomputed after every batch, as SQL or as a GraphFrames motif.

Two cores. The current tables are passed to Spark as Arrow; the measured time includes that and the query, counted.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.cases.checksum import sql
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.subject import SkipError, Totals
from crown.errors import CrownError
from crown.ingest.streams.window import WEIGHT
from plans.types import arrow_type

CORES = 2
MOTIFS = {
    "3-hop": ("(a)-[]->(b); (b)-[]->(c); (c)-[]->(d)", "d.id > {n}"),
    "3-hop-all": ("(a)-[]->(b); (b)-[]->(c); (c)-[]->(d)", "true"),
    "triangle": ("(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)", "true"),
}
PACKAGE = "io.graphframes:graphframes-spark4_2.13:0.10.0"


class SparkRecompute:
    """For every batch: changes the tables, runs the query again, counts its rows."""

    def __init__(self, loaded: Loaded, mode: str) -> None:
        if mode != "delta":
            raise SkipError(f"recompute has no mode {mode}")
        self.loaded = loaded
        self._tables = {
            name: pa.schema([(c, arrow_type(kind)) for c, kind in columns.items()]).empty_table()
            for name, columns in loaded.schema.items()
        }
        self._spark = self._session({})

    def _session(self, conf: dict[str, str]) -> Any:
        from spark_jobs import local_session

        try:
            return local_session("crown bench", cores=CORES, memory="4g", conf=conf)
        except CrownError as error:
            raise SkipError(str(error)) from None

    def checking(self) -> None:
        """Does nothing: the result is recomputed anyway."""

    def apply(self, batch: Batch) -> int:
        """Recomputes the result. Returns the number of its rows."""
        for name, rows in batch.items():
            columns = list(self.loaded.schema[name])
            net = rows.group_by(columns).aggregate([(WEIGHT, "sum")])
            weight = net.column(f"{WEIGHT}_sum")
            gone = net.filter(pc.less(weight, 0)).select(columns)
            fresh = net.filter(pc.greater(weight, 0)).select(columns)
            left = (
                self._tables[name].join(gone, keys=columns, join_type="left anti")
                if gone.num_rows
                else self._tables[name]
            )
            self._tables[name] = pa.concat_tables([left, fresh.cast(left.schema)]).combine_chunks()
        for name, table in self._tables.items():
            self._spark.createDataFrame(table).createOrReplaceTempView(name)
        return self.count()

    def load(self, batch: Batch) -> None:
        """Does the same as ``apply``."""
        self.apply(batch)

    def count(self) -> int:
        """Returns the number of rows of the result, computed by Spark SQL."""
        return int(self._spark.sql(f"SELECT count(*) FROM ({self.loaded.sql})").first()[0])

    def enumerate(self) -> int:
        """Raises SkipError: this subject does not enumerate."""
        raise SkipError("full enumeration is what recompute does")

    def totals(self) -> Totals:
        """Returns the checksum of the recomputed result."""
        text = sql(self.loaded.sql, self.loaded.outputs).replace('"', "`")
        count, checksum = self._spark.sql(text).first()
        return Totals(int(count), int(checksum))

    def state_bytes(self) -> int:
        """Returns the bytes of the tables that were passed to Spark."""
        return sum(table.nbytes for table in self._tables.values())

    def stats(self) -> dict[str, Any]:
        """Returns the version of Spark."""
        return {"version": self._spark.version}

    def close(self) -> None:
        """Does nothing: the session stays for the next subject of this process."""


class GraphFrames(SparkRecompute):
    """The motif search of GraphFrames; needs its Python package and its jar."""

    def __init__(self, loaded: Loaded, mode: str) -> None:
        if loaded.workload.name not in MOTIFS:
            raise SkipError("GraphFrames finds motifs: 3-hop paths and triangles are written for it")
        try:
            import graphframes
        except ImportError:
            raise SkipError("GraphFrames is not installed (pip install graphframes-py)") from None
        self._frame = graphframes.GraphFrame
        super().__init__(loaded, mode)

    def _session(self, conf: dict[str, str]) -> Any:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkRuntimeError

        try:
            session = super()._session(conf | {"spark.jars.packages": PACKAGE})
            session._jvm.java.lang.Class.forName("org.graphframes.GraphFrame")
        except (PySparkRuntimeError, Py4JJavaError):
            raise SkipError(f"the jar {PACKAGE} could not be had from Maven") from None
        return session

    def count(self) -> int:
        """Returns the number of rows of the motif search."""
        from pyspark.sql import functions as F

        motif, condition = MOTIFS[self.loaded.workload.name]
        edges = self._spark.table("G").select("src", "dst")
        vertices = edges.select(F.col("src").alias("id")).union(edges.select("dst")).distinct()
        threshold = self.loaded.sql.rsplit(" ", 1)[-1]
        found = self._frame(vertices, edges).find(motif).where(condition.replace("{n}", threshold))
        return int(found.count())

    def totals(self) -> Totals:
        """Returns the count only."""
        return Totals(self.count(), None)
