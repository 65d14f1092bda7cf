"""The number of triangles of a graph as an engine for a cell: linear space, however many triangles there are.

    edge changes → engine of the distinct edges → edges that come and go → IVM^ε (Δ0, set intersection tables) → count

Two states, of which the first is the truth: a ``crown`` engine with the edges and their copies, which also knows types,
dictionaries and absent deletes; and the triangle's own, with the edges that are there, the heavy pairs and the count.
The second follows the exact deltas of the first, also when a batch is taken back. The version and the mark "clean" are
the first one's, set after both are done; a snapshot is one file with a copy of both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown.bags.protocol import column_of_table
from crown.engine.engine import Engine
from crown.engine.state.arenas import State, back, check_header
from crown.errors import SnapshotError
from crown.ingest.batch import MissingDeletes, Prepared
from crown.kernels.arena import H_LIMIT, H_TOP
from crown.kernels.tables import LOW32
from crown.store import words_file
from crown.store.budget import SLACK, Budget
from crown.store.codec import encode
from crown.store.memory import ADDRESSABLE, MappedFile, reserve
from crown.store.zset import Zset
from ivm_triangle import Triangle
from ivm_triangle.kernels.state import layout as at
from plans.errors import PlanError
from plans.plan import Plan
from plans.program import Maintainable

EPSILON = 0.5  # worst-case optimal, and the smallest at which the tables are linear
QUERY = "edge(src, dst) :- edges(src, dst), src != dst."
MAGIC = b"crown triangle count"
SCHEMA = pa.schema([("count", pa.int64())])


class MappedTriangle(Triangle):
    """Δ0 of one relation with itself (each tuple stored once), its state in ``file``, or in memory.

    A new one is made if the file, or ``arena``, is zero.
    """

    def __init__(self, file: MappedFile | None = None, arena: np.ndarray | None = None) -> None:
        if file is not None and not file.words[H_LIMIT]:
            back(file, [SLACK])
        memory = arena if file is None else file.words
        super().__init__(epsilon=EPSILON, strategy="sit", edges="edges", arena=memory, file=file)

    @property
    def words(self) -> np.ndarray:
        """Returns the part of the arena that is in use."""
        return self._state.words

    def sizes(self) -> dict[str, int]:
        """Returns sizes and counters. O(1)."""
        word = self._state.word
        return {
            "N": word(at.C_BASE),
            "tuples": word(at.C_SIZE),
            "major_rebalancings": word(at.C_MAJORS),
            "minor_rebalancings": word(at.C_MINORS),
            "operations": word(at.C_OPS),
            "live_bytes": self._state.live_bytes,
            "reserved_bytes": 8 * word(H_TOP),
        }

    def tuples(self) -> set[tuple[int, int]]:
        """Returns the present tuples, as codes. O(N)."""
        words, arena = column_of_table(self._state.arena, 3, 0), self._state.arena
        return set(zip(arena[words >> 32].tolist(), arena[words & LOW32].tolist(), strict=True))


class TriangleCount:
    """Directed cycles a → b → c → a of the distinct edges; with ``both``, an edge, given in one direction, is both.

    One stored relation plays all three. A directed cycle is counted in three rotations, a triangle of an undirected
    graph in six. Per changed edge O(√N) amortized; space O(N). Values are the codes of the edges' engine.
    """

    def __init__(self, edges: Engine, triangle: MappedTriangle, both: bool) -> None:
        self.edges = edges
        self.triangle = triangle
        self.both = both

    # -- what the edges' engine is for both ---------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Returns the plan of the edges."""
        return self.edges.plan

    @property
    def fingerprint(self) -> str:
        """Returns the plan's, and what is counted over it."""
        return fingerprint_of(self.plan, self.both)

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of what ``run`` yields: the count."""
        return SCHEMA

    @property
    def missing(self) -> MissingDeletes:
        """Copies that the deletes of the last batch did not find."""
        return self.edges.missing

    @property
    def budget(self) -> Budget:
        """Returns how much memory the edges may take; the count is linear in them."""
        return self.edges.budget

    @property
    def version(self) -> int:
        """Returns the number of the last batch applied."""
        return self.edges.version

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        return self.edges.clean

    def begin(self) -> None:
        """Marks both states dirty."""
        self.edges.begin()

    def commit(self, version: int) -> None:
        """Marks both states clean."""
        self.edges.commit(version)

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """See ``Engine.prepare``."""
        return self.edges.prepare(changes, strict)

    # -- changes ------------------------------------------------------------------------------------------------------

    def run(
        self, prepared: Prepared, *, deltas: bool = True, consolidate: bool | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Applies a batch; yields one row, the count after it (none without ``deltas``). One number needs no
        ``consolidate``.

        A ``ChangeError`` comes before anything has changed, or after the edges' engine took its part back.
        """
        self._follow(prepared)
        return self._told(deltas)

    def _told(self, wanted: bool) -> Iterator[pa.RecordBatch]:
        if wanted:
            yield pa.record_batch([pa.array([self.count], pa.int64())], schema=SCHEMA)

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Takes back the last batch, given what was applied and what its deletes did not find. O(changes * √N)."""
        prepared = self.edges.prepare(changes)
        with self.edges.uninterrupted:
            net = self.edges.core.undo(prepared.changes, missing or MissingDeletes())
        if len(net):
            self.triangle.apply_codes(self._arcs(net))

    def _follow(self, prepared: Prepared) -> None:
        """Applies a batch to the edges, then the edges that came and went to the triangle."""
        changed = pa.Table.from_batches(self.edges.run(prepared), self.edges.delta_schema)
        if not len(changed):
            return
        intern = self.edges.dictionary.intern
        codes = [encode(changed.column(i).combine_chunks(), self.plan.output[i].type, intern, False) for i in range(2)]
        self.triangle.apply_codes(self._arcs(Zset.of_columns(np.stack(codes), changed.column(2).to_numpy())))

    def _arcs(self, edges: Zset) -> np.ndarray:
        """Returns rows (relation 0, from, to, weight) of the one stored relation: int64[n, 4]."""
        rows = np.empty((len(edges), 4), np.int64)
        rows[:, 0], rows[:, 1:3], rows[:, 3] = 0, edges.rows, edges.weights
        return np.concatenate([rows, rows[:, [0, 2, 1, 3]]]) if self.both else rows

    # -- looking inside -----------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Returns the number of triangles. O(1)."""
        return self.triangle.count() // (6 if self.both else 3)

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes both states into one file of words. Returns the bytes written. O(N)."""
        edges = self.edges
        edges.compact()
        header = {"plan": edges.plan.to_json(), "on_missing": edges.on_missing, "extra": extra or {}}
        parts = [self.triangle.words, edges.arena[: int(edges.arena[H_TOP])]]
        return words_file.write(Path(path), MAGIC, header, parts)

    def stats(self) -> dict[str, Any]:
        """Returns the counters of the edges' engine, with the bytes of both states, and sizes and counters of the
        triangle's."""
        edges, triangle = self.edges.stats(), self.triangle.sizes()
        both = {name: edges[name] + triangle[name] for name in ("live_bytes", "reserved_bytes")}
        return edges | both | {"triangle": triangle | {"count": self.count}}

    def check_invariants(self) -> None:
        """Checks both states by their definitions, and that they hold the same edges. Raises AssertionError. Slow."""
        self.edges.check_invariants()
        self.triangle.check_invariants()
        present = {(x, y) for _, x, y, _ in self._present().tolist()}
        assert self.triangle.tuples() == present, "the two states hold different edges"

    def _present(self) -> np.ndarray:
        """Returns the arcs of all distinct edges."""
        edges = Zset.gathered([block.copy() for block in self.edges.core.results.tuples()], 2)
        return self._arcs(edges)


@dataclass(frozen=True)
class TriangleEngines:
    """How a ``TriangleCount`` is kept: the edges in the file of the cell, the triangle state in one beside it.

    The second file is removed before the first is made anew, and complete before the first is clean: so a clean first
    file and a second one beside it belong together.
    """

    both: bool

    def fingerprint(self, plan: Maintainable) -> str:
        """See ``fingerprint_of``."""
        return fingerprint_of(_join(plan), self.both)

    def columns(self, plan: Maintainable) -> list[tuple[str, str]]:
        """Returns the one column, the count."""
        return [("count", "int64")]

    def create(self, plan: Maintainable, path: Path | None, on_missing: str) -> TriangleCount:
        """Returns an engine without edges."""
        if path is not None:
            _beside(path).unlink(missing_ok=True)
        edges = Engine.create(_join(plan), path, on_missing=on_missing)
        edges.begin()
        file = None if path is None else MappedFile.create(_beside(path), ADDRESSABLE)
        return TriangleCount(edges, MappedTriangle(file), self.both)

    def attach(self, plan: Maintainable, path: Path, on_missing: str) -> TriangleCount:
        """Returns the engine over both mapped files. O(1)."""
        file = MappedFile.open(_beside(path))
        return TriangleCount(Engine.attach(_join(plan), path, on_missing=on_missing), MappedTriangle(file), self.both)

    def load(
        self, source: Path, plan: Maintainable, path: Path, on_missing: str
    ) -> tuple[TriangleCount, dict[str, Any]]:
        """Returns the engine with both states as they were written. O(N)."""
        edges, triangle, extra = read(source, _join(plan), path)
        edges.on_missing = on_missing
        return TriangleCount(edges, triangle, self.both), extra


def _join(plan: Maintainable) -> Plan:
    assert isinstance(plan, Plan), "the edges are read by one join"
    return plan


def fingerprint_of(plan: Plan, both: bool) -> str:
    """Returns the fingerprint of a triangle count: the plan's of the edges, and what is counted over it."""
    return f"{'triangles' if both else 'directed triangles'} of {plan.fingerprint}"


def read(
    source: Path, plan: Plan | None = None, path: Path | None = None
) -> tuple[Engine, MappedTriangle, dict[str, Any]]:
    """Returns what ``TriangleCount.save`` wrote, in the file ``path`` and the one beside it, or in memory. O(N).

    Raises ``SnapshotError`` for a foreign, damaged or truncated file, and one of another plan than ``plan``.
    """
    try:
        with source.open("rb") as file:
            header = words_file.read_header(file, source, MAGIC, "the triangle count", {"plan", "on_missing", "extra"})
            saved = Plan.from_json(header["plan"])
            if plan is not None and saved.fingerprint != plan.fingerprint:
                raise SnapshotError(f"{source} was taken of edges of another type")
            words = [int(n) for n in header["words"]]
            if len(words) != 2 or max(words) > ADDRESSABLE:
                raise SnapshotError(f"{source} is damaged: its parts are {words} words")
            files = None if path is None else _files(path, words)
            arenas = (reserve(), reserve()) if files is None else (files[0].words, files[1].words)
            words_file.fill(file, [arenas[0][: words[0]], arenas[1][: words[1]]], int(header["crc32"]), source)
    except (OSError, PlanError) as error:
        raise SnapshotError(f"cannot read the snapshot {source}: {error}") from error
    triangle, edges = arenas
    check_header(edges, saved, source)
    if files is None:
        return Engine(State(saved, edges, None), header["on_missing"]), MappedTriangle(arena=triangle), header["extra"]
    triangle[H_LIMIT], edges[H_LIMIT] = words
    engine = Engine(State(saved, edges, files[1]), header["on_missing"])
    engine.begin()
    return engine, MappedTriangle(files[0]), header["extra"]


def _files(path: Path, words: list[int]) -> tuple[MappedFile, MappedFile]:
    """Returns new files for the triangle and the edges, with blocks for that many words each."""
    for old in (_beside(path), path):
        old.unlink(missing_ok=True)
    made = MappedFile.create(_beside(path), ADDRESSABLE), MappedFile.create(path, ADDRESSABLE)
    for file, wanted in zip(made, words, strict=True):
        back(file, [wanted])
    return made


def _beside(path: Path) -> Path:
    return path.with_suffix(".triangles")
