"""The engine of a program whose batch is one native call, as far as its stages have a native form.

changes -> not scanned yet -> the call (``crown.programs.pipelines.pipeline``) -> deltas
                                 -> nets of its stages -> the other stages (``crown.programs.runtime``) -> deltas
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from crown.ingest.batch import PreparedBatch
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.made import pipeline_of
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.runtime import ProgramRuntime
from crown.programs.wanted import ALL, Wanted
from crown.store.records import Records
from crown.store.zset import Zset


class NativeRuntime(ProgramRuntime):
    """Runs the stages of a program. Arguments as for ``ProgramRuntime``.

    ``pipeline``: what runs stages in one native call; None if it would run none. ``segments`` says how each part of the
    stages runs, and why.
    """

    pipeline: Pipeline | None
    segments: tuple[str, ...]

    def _find_pipeline(self, records: Records | None, results: Iterable[int] = ()) -> None:
        """Finds what runs the batches in one call. ``records`` makes the deltas of the last stage. If it is None,
        deltas are made of the nets of the stages ``results``."""
        self.pipeline, self.segments = pipeline_of(self, self._preparer, records, results)
        if self.pipeline is not None:
            self._left = self.pipeline.left
            self._gathering.sort(key=lambda one: one[0] in self._left)

    def prepare_at_once(
        self, changes: Mapping[str, Any], strict: bool, wanted: Wanted, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Does what ``prepare`` does for a batch that is applied next, by ``apply``: it may be scanned only then."""
        pipeline = self.pipeline
        if strict and pipeline is not None and (most := pipeline.most(wanted)):
            self.ready()
            if self._interns and self.memory.dictionary.overgrown:
                self._sweep()
            found = self._preparer.unscanned(changes)
            if found is not None and found.rows <= most:
                return found
        return self.prepare(changes, strict, known)

    @override
    def apply(
        self,
        prepared: PreparedBatch,
        wanted: Wanted = ALL,
        closing: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        pipeline, unscanned = self.pipeline, prepared.unscanned
        self.ready()
        if pipeline is None or not unscanned:
            return self._drawn(prepared, wanted, closing)
        asked, rest = kernels.BAD, None
        pipeline.open(unscanned)
        self._open()
        self._torn = self._in_call = True
        try:
            asked = pipeline.run(wanted, unscanned)
            if asked == kernels.BAD:
                self._torn = False
                self._end(changed=False)
            else:
                pipeline.note(prepared)
                if asked in kernels.ALL_DONE:
                    return self._delivered_at_once(pipeline, prepared, wanted, closing)
                if asked == kernels.SPLIT:
                    self._torn = False
                rest = pipeline.handed_over(prepared, asked)
        except BaseException as error:
            given, nets = prepared, dict[str | int, Zset]()
            if asked in (*kernels.ALL_DONE, kernels.SPLIT):
                given = replace(given, nets=pipeline.nets())
                nets.update(self._unchanged)
                nets.update(one for one in enumerate(self._nothing_of) if one[0] not in self._left)
                nets.update(given.nets)
            self._roll_back(given, nets, error)
            raise
        finally:
            self._in_call = False
            pipeline.close()
        if rest is not None:
            return self._drawn(rest, wanted, closing)
        given = self.prepare({one.name: one.given for one in unscanned})  # which says what is wrong with it
        return self._drawn(given, wanted, closing)

    def _delivered_at_once(
        self, pipeline: Pipeline, given: PreparedBatch, wanted: Wanted, closing: Callable[[list[Any]], None] | None
    ) -> list[Any]:
        """Returns what is delivered of a batch that a pipeline has done, and lets it stand."""
        self.base_tables.record_complete()
        if pipeline.linear:
            pipeline.tally(self.tallies)
        self._torn = False
        found = pipeline.delivered() if wanted.deltas else []
        if closing is not None:
            closing(found)
        self._stand(given)
        return found
