"""Make of an output what its code says now from the state that is there, without a look at the log.

It works where a rebuild does, and ends in the same way (rebuild.py): state under another name or with
other columns is written beside the old, the view is written anew into a hidden table, share by share; then a note
makes the change certain, and it is carried out. Before the note a crash leaves everything as it was; behind it, the
next run carries on. Readers see the old view until the swap.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.errors import FlowError
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.commit.job_identity import Identity
from headwater.flow.declare.topology.graph import Planned
from headwater.flow.declare.topology.nodes import steps_behind
from headwater.flow.deploy.code_changes import Verdict
from headwater.flow.deploy.rebuild import begun, carry_out, note_caught_up
from headwater.flow.deploy.state_migration import Carry
from headwater.flow.deploy.state_rows import state_frame
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.job_operators import fingerprint
from headwater.flow.operate.join_operators import StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.reports import Operator
from headwater.flow.plan.resolution import Resolved
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import apply_step, visible
from headwater.flow.sinks.sink import Mark
from headwater.flow.state.restating import restate
from headwater.flow.state.store import StateStore
from headwater.views.store import ViewStore


@dataclass(frozen=True)
class Migration:
    """One output of a job that stands still at a finished batch. `store` is that of a view; others have none."""

    session: SparkSession
    planned: Planned
    resolved: Resolved
    verdict: Verdict
    names: Mapping[Any, str]
    """Operators of the job, by what they are declared as."""
    description: Mapping[str, Any]
    operators: Mapping[str, Any]
    identity: Identity
    folder: JobFolder
    store: ViewStore | None
    rows_per_batch: int
    tell: Callable[[str], None]

    def run(self, at: BatchRecord) -> None:
        """At the batch that the job stands at; after a crash it goes on where it was."""
        name = self.planned.name
        # State that is read at another batch is another state: the same code, but not the same attempt.
        shadow = begun(self.folder, name, self.store, {**self.description, "migrated_at": at.batch})
        for carry in self.verdict.carries:
            if carry.needed:
                self._restate(carry, shadow, at.batch)
        if self.verdict.rewrite:
            self._write_view(shadow, at.batch)
        note_caught_up(
            self.folder, name, batch=at.batch, version=at.batch, made_from=self.description,
            operators=self.operators, view=self.verdict.rewrite,
        )  # fmt: skip
        carry_out(self.folder, self.planned, self.identity, self.store, at)

    def _restate(self, carry: Carry, shadow: JobFolder, batch: int) -> None:
        source = self._store(self.folder.state / carry.source, carry.operator)
        if carry.source == carry.operator and source.manifest(batch).fingerprint == source.fingerprint:
            return  # another output that shares it was here before
        restate(source, batch, self._store(shadow.state / carry.operator, carry.operator), carry.columns)

    def _store(self, folder: Path, operator: str) -> StateStore:
        node = next(node for node, name in self.names.items() if name == operator)
        kept = self.resolved.operators[node]
        if isinstance(kept, TableJoinOperator | StreamJoinOperator):
            raise FlowError(f"the state of join {operator} cannot be written anew", "Rebuild the output.")
        folder.mkdir(parents=True, exist_ok=True)
        return StateStore(str(folder), kept.state, shards=self.identity.shards, fingerprint=fingerprint(kept))

    def _write_view(self, shadow: JobFolder, batch: int) -> None:
        assert self.store is not None
        name, job = self.planned.name, f"{self.identity.job_id}/migrate"
        mark = self.store.begin_shadow(name, self.resolved.schema, self.resolved.key, job=job)
        for share, rows in self._shares(shadow, batch, first=mark.batch + 1):
            self.store.write(name, Mark(job, share), rows, shadow=True)

    def _shares(self, shadow: JobFolder, batch: int, *, first: int) -> Iterator[tuple[int, pa.Table]]:
        """The view's rows in pieces that fit into memory, always the same ones."""
        steps, base = steps_behind(self.planned.node)
        operator, name = self.resolved.operators[base], self.names[base]
        assert isinstance(operator, Operator)
        built = shadow.state / name
        store = self._store(built if built.exists() else self.folder.state / name, name)
        handle = store.begin(batch)
        keys = sum(shard.keys for shard in store.manifest(batch).shards)
        shares = max(1, -(-keys // self.rows_per_batch))
        for share in range(first, shares):
            frame = state_frame(self.session, operator, handle, share=share, shares=shares)
            for step in steps:
                frame = apply_step(step, [frame], Counter())
            yield share, frame.select(*map(quoted, visible(frame))).toArrow()
            self.tell(f"{self.planned.name}: {(share + 1) * keys // shares:,} of {keys:,} keys written anew")
