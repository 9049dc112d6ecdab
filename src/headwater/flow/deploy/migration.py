"""Migrate an output to what its code says now, from its state, without reading the log.

It works where a rebuild does, and ends in the same way (rebuild.py): state under another name or with
other columns is written beside the old, the view is rewritten into a hidden table, share by share; then a note
makes the change certain, and it is carried out. Before the note a crash leaves everything as it was; after it, the
next run carries on. Readers see the old view until the swap.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.errors import FlowError
from headwater.flow.commit.job_context import JobContext
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.declare.topology.nodes import steps_behind
from headwater.flow.deploy.code_changes import Verdict
from headwater.flow.deploy.rebuild import CaughtUp, ChangedOutput, begun, carry_out, note_caught_up
from headwater.flow.deploy.state_migration import Carry
from headwater.flow.deploy.state_rows import state_frame
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.grouping.group_operator import GroupOperator
from headwater.flow.operate.join_operators import StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.patterns.pattern_operator import PatternOperator
from headwater.flow.operate.reports import Operator
from headwater.flow.operate.tables.table_operator import KeptTable
from headwater.flow.plan.resolution import Resolved
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import apply_step, visible
from headwater.flow.sinks.sink import Mark
from headwater.flow.state.files import StateFiles
from headwater.flow.state.restating import restate
from headwater.flow.state.store import StateStore
from headwater.views.shape import ONE_ROW


@dataclass(frozen=True)
class Migration:
    """One output of a job that is paused at a finished batch."""

    context: JobContext
    session: SparkSession
    output: ChangedOutput
    verdict: Verdict
    rows_per_batch: int
    report: Callable[[str], None]

    @property
    def _folder(self) -> JobFolder:
        return self.context.folder

    @property
    def _resolved(self) -> Resolved:
        return self.context.resolved[self.output.planned.name]

    def run(self, at: BatchRecord) -> None:
        """At the batch that the job is paused at; after a crash it resumes where it was."""
        # State that is read at another batch is another state: the same code, but not the same attempt.
        shadow = begun(self._folder, self.output, {**self.output.made_from, "migrated_at": at.batch})
        for carry in self.verdict.carries:
            if carry.needed:
                self._restate(carry, shadow, at.batch)
        if self.verdict.rewrite:
            self._write_view(shadow, at.batch)
        note_caught_up(self._folder, self.output, CaughtUp(at.batch, version=at.batch, view=self.verdict.rewrite))
        carry_out(self._folder, self.output.planned, self.context.identity, self.output.store, at)

    def _restate(self, carry: Carry, shadow: JobFolder, batch: int) -> None:
        source = self._store(self._folder.state_files(carry.source), carry.operator)
        if carry.source == carry.operator and source.manifest(batch).fingerprint == source.fingerprint:
            return  # another output that shares it was here before
        restate(source, batch, self._store(shadow.state_files(carry.operator), carry.operator), carry.columns)

    def _store(self, files: StateFiles, operator: str) -> StateStore:
        node = next(node for node, name in self.context.job.operators.items() if name == operator)
        kept = self._resolved.operators[node]
        if isinstance(kept, TableJoinOperator | StreamJoinOperator | GroupOperator | KeptTable | PatternOperator):
            raise FlowError(f"the state of {operator} cannot be rewritten", "Rebuild the output.")
        return StateStore(files, kept.state, shards=self.context.identity.shards, fingerprint=kept.fingerprint)

    def _write_view(self, shadow: JobFolder, batch: int) -> None:
        store, name, job = self.output.store, self.output.planned.name, f"{self.context.identity.job_id}/migrate"
        assert store is not None
        mark = store.begin_shadow(name, self._resolved.schema, self._resolved.key or ONE_ROW, job=job)
        for share, rows in self._shares(shadow, batch, first=mark.batch + 1):
            store.write(name, Mark(job, share), rows, shadow=True)

    def _shares(self, shadow: JobFolder, batch: int, *, first: int) -> Iterator[tuple[int, pa.Table]]:
        """The view's rows in pieces that fit into memory, always the same ones."""
        steps, base = steps_behind(self.output.planned.node)
        operator, name = self._resolved.operators[base], self.context.job.operators[base]
        assert isinstance(operator, Operator)
        built = shadow if name in shadow.operators() else self._folder
        store = self._store(built.state_files(name), name)
        handle = store.begin(batch)
        keys = sum(shard.keys for shard in store.manifest(batch).shards)
        shares = max(1, -(-keys // self.rows_per_batch))
        for share in range(first, shares):
            frame = state_frame(self.session, operator, handle, share=share, shares=shares)
            for step in steps:
                frame = apply_step(step, [frame], Counter())
            yield share, frame.select(*map(quoted, visible(frame))).toArrow()
            self.report(f"{self.output.planned.name}: {(share + 1) * keys // shares:,} of {keys:,} keys rewritten")
