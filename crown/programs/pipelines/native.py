"""The engine of a program, part of which runs in one native call per batch.

batch -> record batches, not scanned -> the call (``Pipeline``) -> deltas
                                          -> nets of its stages -> the other stages (``ProgramRuntime``) -> deltas
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from crown.engine.delivery import READY_TO_COMMIT
from crown.guards.threads import Stopped
from crown.ingest.batch import PreparedBatch
from crown.programs.delta_options import NO_DELTAS, DeltaOptions
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.builder import build_pipeline
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.runtime import ProgramRuntime
from crown.store.records import Records
from crown.store.zset import Zset


class NativeRuntime(ProgramRuntime):
    """Runs the stages of a program. For the arguments see ``ProgramRuntime``.

    ``pipeline``: runs stages in one native call; None if no stage can be part of it. ``segments``: how each part of the
    stages runs, and why.
    """

    pipeline: Pipeline | None
    segments: tuple[str, ...]

    def _build_pipeline(self, records: Records | None, results: Iterable[int] = ()) -> None:
        """Builds the pipeline, if a part of the stages has a native form.

        ``records`` makes the deltas of the last stage. If it is None, deltas are made of the nets of the stages
        ``results``.
        """
        self.pipeline, self.segments = build_pipeline(self, self._preparer, records, results)
        if self.pipeline is not None:
            self._excluded = self.pipeline.excluded
            self._gathered.sort(key=lambda one: one[0] in self._excluded)

    def prepare_for_apply(
        self, changes: Mapping[str, Any], strict: bool, options: DeltaOptions, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Prepares a batch that is applied next. Record batches may be left for the call to scan.

        For the arguments see ``prepare``.
        """
        pipeline = self.pipeline
        if strict and pipeline is not None and (max_rows := pipeline.max_rows(options)):
            self.check_ready()
            if self._interns and self.memory.dictionary.overgrown:
                self._sweep()
            batch = self._preparer.unscanned(changes)
            if batch is not None and batch.rows <= max_rows:
                return batch
        return self.prepare(changes, strict, known)

    def update(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch without deltas. Raises the errors of ``prepare`` and of ``transaction``."""
        with self.uninterrupted:
            self.apply(self.prepare_for_apply(changes, True, NO_DELTAS), NO_DELTAS)

    @override
    def _transaction(
        self, prepared: PreparedBatch, options: DeltaOptions, before_commit: Callable[[], None] | None, hold: bool
    ) -> Generator[Any, None, None]:
        self.takes_steps = True
        if self.pipeline is None or not prepared.unscanned:
            return super()._transaction(prepared, options, before_commit, hold)
        return self._transaction_of_call(self.pipeline, prepared, options, before_commit, hold)

    def _transaction_of_call(
        self,
        pipeline: Pipeline,
        prepared: PreparedBatch,
        options: DeltaOptions,
        before_commit: Callable[[], None] | None,
        hold: bool,
    ) -> Generator[Any, None, None]:
        """Makes the native call before it yields None; if it may only ``hold``, it yields the arguments, and the caller
        makes the call. Takes steps from where the call has stopped."""
        status, unscanned = kernels.NOT_SCANNED, prepared.unscanned
        try:
            pipeline.open(unscanned)
            self._open_batch()
            self._in_step = True
            if hold:
                status = yield from pipeline.calls(options, unscanned)
            else:
                status = pipeline.run(options, unscanned)
            if status == kernels.NOT_SCANNED:
                self._in_step = False
                self._close_batch(changed=False)
            else:
                if status in kernels.ALL_DONE:
                    self.base_tables.record_complete()
                    if pipeline.linear:
                        pipeline.update_row_counts(self.tallies)
                    self._in_step = self.takes_steps = False
                    deltas = pipeline.deltas() if options.deltas else []
                    try:
                        yield None
                        yield from deltas
                    except GeneratorExit:  # the remaining deltas are dropped
                        pass
                    if before_commit is not None:
                        before_commit()
                    if hold:
                        yield READY_TO_COMMIT
                    self._commit_batch(None)
                    return
                pipeline.note_counts(prepared)
                if status == kernels.STAGES_FOLLOW:
                    self._in_step = False
                prepared = pipeline.hand_over(prepared, status)
                self._in_step = True  # until the steps have the nets that undo it
        except BaseException as error:
            pipeline.withdraw(unscanned)
            if isinstance(error, Stopped) and status == kernels.NOT_SCANNED:
                self._in_step = False  # the call was not made
            if status in kernels.ALL_DONE and self.lost:
                pipeline.note_counts(prepared)
                self.base_tables.tally(prepared, -1)
            rolled_back, nets = prepared, dict[str | int, Zset]()
            if status in (*kernels.ALL_DONE, kernels.STAGES_FOLLOW):
                rolled_back = replace(rolled_back, nets=pipeline.nets())
                nets.update(self._empty_base_nets)
                nets.update(one for one in enumerate(self._empty_nets) if one[0] not in self._excluded)
                nets.update(rolled_back.nets)
            self._roll_back(rolled_back, nets, error)
            raise
        finally:
            pipeline.close()
        if status == kernels.NOT_SCANNED:
            prepared = self.prepare({one.name: one.given for one in unscanned})  # raises if the batch is invalid
        closed = False
        try:
            yield None
        except GeneratorExit:
            closed = True
        except BaseException as error:  # part of a batch cannot be undone: it is applied, then undone as a whole
            closed, before_commit = True, partial(_raise, error)
        steps = super()._transaction(prepared, options, before_commit, hold)
        next(steps)
        if closed:
            next(steps, None)  # a join that has begun with deltas continues with them
            steps.close()
        else:
            yield from steps


def _raise(error: BaseException) -> None:
    raise error
