"""The participating engines: name, title, kind, and how a subject is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.cases.workloads import Loaded
from bench.subjects.subject import Subject


@dataclass(frozen=True)
class Entry:
    """``kind``: ours, algorithm (another algorithm, same tables), peer (another project's engine).

    ``maker`` is ``module:name``; a *subject* is called with (loaded, mode, **arguments) and driven batch by batch, a
    *job* (``job=True``) is called with (spec, progress) and returns the result of the whole cell, because it runs
    elsewhere. ``batch_rows`` is the default size of a batch.
    """

    title: str
    kind: str
    maker: str
    arguments: tuple[tuple[str, Any], ...] = ()
    batch_rows: int = 10_000
    job: bool = False
    modes: tuple[str, ...] = ("delta",)

    def load(self) -> Callable[..., Any]:
        """Returns the maker; imports its module."""
        module, name = self.maker.split(":")
        found: Callable[..., Any] = getattr(import_module(f"bench.subjects.{module}"), name)
        return found

    def subject(self, loaded: Loaded, mode: str, **more: Any) -> Subject:
        """Returns a fresh subject. Raises SkipError if it does not take part."""
        made: Subject = self.load()(loaded, mode, **dict(self.arguments), **more)
        return made


_NUMBA = "baselines.numba_ivm:NumbaIvm"

ENGINES: dict[str, Entry] = {
    "crown": Entry("CROWN (this project)", "ours", "crown:Crown", modes=("none", "delta", "full", "arrow", "count")),
    "crown-view": Entry(
        "CROWN, the public view (this project)", "ours", "view:PublicView", modes=("delta", "none", "ranges")
    ),
    "crown-folder": Entry("CROWN, a view in a folder (this project)", "ours", "folder:Folder"),
    "crown-model": Entry("CROWN, the sums of a regression (this project)", "ours", "model:Model", modes=("none",)),
    "crown-spark": Entry(
        "CROWN on Spark (this project)", "ours", "spark_path:run", batch_rows=100_000, job=True, modes=("spark",)
    ),
    "crown-spark-cells": Entry(
        "CROWN on Spark, a cell (this project)", "ours", "spark_cells:run", batch_rows=0, job=True,
        modes=("backfill", "restored"),
    ),
    "crown-pipelines": Entry(
        "CROWN, a project of views (this project)", "ours", "pipelines:run", batch_rows=0, job=True,
        modes=("pipelines",),
    ),
    "crown-startup": Entry(
        "CROWN, starting (this project)", "ours", "startup:run", batch_rows=0, job=True, modes=("startup",)
    ),
    "crown-load": Entry(
        "CROWN, a bulk load (this project)", "ours", "loading:run", batch_rows=0, job=True, modes=("load",)
    ),
    "triangle-count": Entry(
        "triangle count (this project)", "ours", "triangle.speed:run", batch_rows=1_000, job=True,
        modes=("single", "batches", "toggle"),
    ),
    "triangle-python": Entry(
        "triangle count, plain Python", "algorithm", "triangle.speed:run", batch_rows=1, job=True, modes=("single",)
    ),
    "triangle-slopes": Entry(
        "triangles, operations counted (this project)", "ours", "triangle.slopes:run", batch_rows=0, job=True,
        modes=("updates", "epsilon", "outputs", "delay", "space"),
    ),
    "first-order": Entry("first-order IVM, compiled", "algorithm", _NUMBA, (("algorithm", "first-order"),)),
    "standard": Entry("binary joins materialized, compiled", "algorithm", _NUMBA, (("algorithm", "standard"),)),
    "higher-order": Entry("higher-order IVM, compiled", "algorithm", _NUMBA, (("algorithm", "higher-order"),)),
    "yannakakis": Entry(
        "Dynamic Yannakakis, compiled", "algorithm", _NUMBA, (("algorithm", "yannakakis"),), modes=("none", "delta")
    ),
    "python": Entry("first-order IVM, plain Python", "algorithm", "baselines.python_ivm:PythonIvm"),
    "duckdb-delta": Entry("DuckDB, delta queries by hand", "peer", "peers.duck:DuckDelta"),
    "duckdb-recompute": Entry("DuckDB, recompute", "peer", "peers.duck:DuckRecompute"),
    "flink": Entry("Flink SQL", "peer", "peers.flink:run", job=True, batch_rows=0),
    "flink-multi-join": Entry(
        "Flink SQL, multi-join", "peer", "peers.flink:run_multi_join", job=True, batch_rows=0
    ),
    "flink-restart": Entry(
        "Flink SQL, with checkpoints", "peer", "peers.flink:run_restart", job=True, batch_rows=0
    ),
    "dd": Entry("differential dataflow", "peer", "peers.native:run_dd", job=True),
    "dd-delta": Entry("differential dataflow, delta queries", "peer", "peers.native:run_dd_delta", job=True),
    "dbsp": Entry("dbsp (Feldera)", "peer", "peers.native:run_dbsp", job=True),
    "pathway": Entry("Pathway", "peer", "peers.pathway:run", job=True, batch_rows=10_000),
    "spark-identity": Entry(
        "Spark, rows to Python and back", "peer", "spark_path:run", batch_rows=100_000, job=True, modes=("spark",)
    ),
    "spark-recompute": Entry(
        "Spark SQL, recompute", "peer", "peers.spark:SparkRecompute", batch_rows=100_000
    ),
    "graphframes": Entry("GraphFrames, recompute", "peer", "peers.spark:GraphFrames", batch_rows=100_000),
}  # fmt: skip
