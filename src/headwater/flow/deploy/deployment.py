"""What a job finds when it starts: outputs to keep, to migrate, to build, or to refuse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import JobRefused
from headwater.flow.commit.job_context import Environment, JobContext
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.declare.topology.graph import TOPIC, VIEW, Planned
from headwater.flow.deploy.code_changes import KEEP, MIGRATE, NEW, REBUILD, Verdict, compare, save
from headwater.flow.deploy.descriptions import Described, descriptions
from headwater.flow.deploy.migration import Migration
from headwater.flow.deploy.rebuild import ChangedOutput, Rebuild, carry_out, forget, unfinished
from headwater.flow.kafka.client import EARLIEST
from headwater.flow.plan.planned_batches import partition_offsets
from headwater.flow.sinks.sink import Sink
from headwater.flow.sinks.view import ViewSink
from headwater.views.store import ViewStore, open_store

ROWS_BESIDE = 100_000
"""Read in a batch that is built beside a running job, at most: meanwhile a store of one file takes no other writer."""


@dataclass(frozen=True)
class Deployment:
    context: JobContext
    environment: Environment
    rows_per_batch: int
    data: Path
    report: Callable[[str], None]
    rollback: frozenset[str] = frozenset()
    """Of the outputs that are rebuilt, those that go back to what the last rebuild has replaced."""

    @property
    def _folder(self) -> JobFolder:
        return self.context.folder

    def settle(self, rebuild: frozenset[str]) -> None:
        """Bring state and views to what the code says now. JobRefused for a change that the user has not agreed to."""
        now = descriptions(self.context.job, self.context.resolved)
        last = self._folder.last_finished()
        planned = {one.name: one for one in self.context.job.outputs}
        if last is None:
            for name in sorted(self.rollback & planned.keys()):
                raise JobRefused(f"view {name} has no version before it to go back to", "Leave out --rollback.")
            for name in sorted(rebuild & planned.keys()):
                self._begin_again(planned[name])
        else:
            finished = unfinished(self._folder)
            for name in finished:
                if name in planned:
                    self._with_store(planned[name], lambda one, store: carry_out(
                        self._folder, one, self.context.identity, store, last))  # fmt: skip
                else:
                    forget(self._folder, name)  # should it ever be declared again, it is new
            kept = {one.output for one in compare(self._folder, now) if one.what == KEEP}
            rebuild -= self._back_already(now) | (kept & {*finished})  # these have just been put in place
            verdicts = [_asked(one, rebuild) for one in compare(self._folder, now)]
            self._report_verdicts(verdicts)
            self._refuse_unasked(verdicts, planned, rebuild)
            for one in verdicts:
                self._bring_up(one, now, planned, last)
        save(self._folder, now)

    def build_ahead(self, rebuild: frozenset[str]) -> None:
        """Build what `settle` would rebuild, while another process runs the job: nothing of that one's is changed."""
        last = self._folder.last_finished()
        if last is None or unfinished(self._folder):
            return  # there is nothing to build beside, or it was built and has only to be put in place
        now = descriptions(self.context.job, self.context.resolved)
        planned = {one.name: one for one in self.context.job.outputs}
        rebuild -= self._back_already(now)
        verdicts = [_asked(one, rebuild) for one in compare(self._folder, now)]
        self._refuse_unasked(verdicts, planned, rebuild)
        for one in verdicts:
            if _is_built(one, now):
                self._check_log_is_whole(one, last)
                self._with_store(planned[one.output], lambda output, store: self._follow(output, store, now))

    def _follow(self, planned: Planned, store: ViewStore | None, now: Described) -> None:
        rows = min(self.rows_per_batch, ROWS_BESIDE)
        self._rebuilding(planned, store, now, rows).follow(self._newest)

    def _back_already(self, now: Described) -> frozenset[str]:
        """Views that had gone back before a crash, while others of the job had not. If all are what the code says, it
        is the code of the last rebuild."""
        asked = {one.output: one.what for one in compare(self._folder, now) if one.output in self.rollback}
        there = frozenset(name for name, what in asked.items() if what == KEEP)
        return there if len(there) < len(asked) else frozenset()

    def _newest(self) -> BatchRecord:
        found = self._folder.last_finished()
        assert found is not None  # one was finished before
        return found

    def _report_verdicts(self, verdicts: list[Verdict]) -> None:
        """One line for each output, if there is anything to say."""
        if any(one.what != KEEP for one in verdicts):
            for one in verdicts:
                self.report(str(one))

    def _refuse_unasked(self, verdicts: list[Verdict], planned: Mapping[str, Planned], rebuild: frozenset[str]) -> None:
        refused = [one for one in verdicts if one.what == REBUILD and one.output not in rebuild]
        if len(refused) == 1:
            first = refused[0]
            raise JobRefused(
                f"{planned[first.output].output} has changed since its checkpoint was made: {first.why}",
                f"Rebuild it from the log with --rebuild {first.output}, or give it another name.",
            )
        if refused:
            all_of_them = "; ".join(f"{planned[one.output].output}: {one.why}" for one in refused)
            asked = " ".join(f"--rebuild {one.output}" for one in refused)
            raise JobRefused(
                f"{len(refused)} outputs have changed since their checkpoint was made: {all_of_them}",
                f"Rebuild them from the log with {asked}, or give them other names.",
            )

    def _bring_up(self, verdict: Verdict, now: Described, planned: Mapping[str, Planned], last: BatchRecord) -> None:
        if verdict.what == MIGRATE or verdict.rewrite:
            self._migrate(verdict, planned[verdict.output], now, last)
        elif _is_built(verdict, now):
            self._check_log_is_whole(verdict, last)
            self._with_store(planned[verdict.output], lambda one, store: self._rebuild(one, store, now, last))

    def _migrate(self, verdict: Verdict, planned: Planned, now: Described, last: BatchRecord) -> None:
        if not verdict.carries:
            self._refuse_half_written(planned, last)
            return
        session, rows = self.environment.session, self.rows_per_batch
        self._with_store(planned, lambda one, store: Migration(
            self.context, session, _changed(now, one, store), verdict, rows, self.report
        ).run(last))  # fmt: skip

    def _refuse_half_written(self, planned: Planned, last: BatchRecord) -> None:
        """A topic may hold a part of the batch that was under way, and the log knows the rest only as it was begun."""
        begun = last.batch + 1
        if planned.output.kind == TOPIC and self._folder.planned_or_none(begun) is not None:
            raise JobRefused(
                f"batch {begun} of {planned.output} was begun by the code before this change and is not finished",
                f"Run that code once more with --once, or say --rebuild {planned.name} to continue with this one.",
            )

    def _check_log_is_whole(self, verdict: Verdict, last: BatchRecord) -> None:
        """What retention has removed cannot be built again: an old view that knows it is not given up for one that
        does not."""
        if verdict.output in self.rollback:
            return  # it begins where the version before ended
        firsts = self.environment.client.offsets(dict.fromkeys(partition_offsets(last.end), EARLIEST))
        deleted = {partition: first for partition, first in firsts.items() if first}
        if not deleted:
            return
        partition, first = next(iter(deleted.items()))
        said = f"offsets 0 to {first - 1} of {partition.topic}/{partition.partition} are deleted"
        if verdict.what == NEW:
            self.report(f"{verdict.output}: {said}; it is built from what is left")
            return
        raise JobRefused(
            f"{verdict.output} cannot be rebuilt: {said}",
            "Give it another name to build one from what is left, beside the old one.",
        )

    def _rebuild(self, planned: Planned, store: ViewStore | None, now: Described, last: BatchRecord) -> None:
        self._rebuilding(planned, store, now, self.rows_per_batch).run(last)

    def _rebuilding(self, planned: Planned, store: ViewStore | None, now: Described, rows: int) -> Rebuild:
        made = Rebuild(self.context, self.environment, _changed(now, planned, store), rows, self.report)
        if planned.name in self.rollback:
            made.go_back()
        return made

    def _begin_again(self, planned: Planned) -> None:
        """Without a checkpoint there is nothing to build beside: the job reads everything again anyway."""
        if planned.output.kind == VIEW:
            self._with_store(planned, lambda one, store: store.drop(one.name) if store else None)

    def _with_store(self, planned: Planned, work: "Callable[[Planned, ViewStore | None], None]") -> None:
        if planned.output.kind != VIEW:
            work(planned, None)
            return
        store = open_store(planned.output.store or self.data, self.context.app)
        try:
            work(planned, store)
        finally:
            store.close()


def _is_built(verdict: Verdict, now: Described) -> bool:
    """Whether it is built from the log."""
    built = verdict.what in (NEW, REBUILD) and not verdict.carries and not verdict.rewrite
    return built and bool(now.uses[verdict.output])


def _asked(verdict: Verdict, rebuild: frozenset[str]) -> Verdict:
    """What the user asked for goes before what would do."""
    if verdict.output not in rebuild or verdict.what in (REBUILD, NEW):
        return verdict
    return Verdict(verdict.output, REBUILD, "as asked")


def _changed(now: Described, planned: Planned, store: ViewStore | None) -> ChangedOutput:
    operators = {name: now.operators[name] for name in now.uses[planned.name]}
    return ChangedOutput(planned, now.outputs[planned.name], operators, store)


def refuse_foreign_outputs(context: JobContext, sinks: Mapping[str, Sink]) -> None:
    """What another checkpoint wrote must not be written to, nor what is ahead of this one, nor a table that lacks
    batches of it: the changes that were in them would be lost."""
    folder, identity = context.folder, context.identity
    last = folder.last_finished()
    finished = last.batch if last else -1
    for planned in context.job.outputs:
        name, sink = planned.name, sinks[planned.name]
        owner = sink.owner() if isinstance(sink, ViewSink) else None
        if owner is not None and owner != identity.job_id:
            raise JobRefused(
                f"view {name} was written from another checkpoint than {folder.path}, which may be lost",
                f"Restore that one, or rebuild the view with --rebuild {name}.",
            )
        held = sink.committed(identity.job_id)
        if held is None and sink.exactly_once and last is not None and name in last.accounts:
            raise JobRefused(
                f"{planned.output} holds nothing of this job, which has finished batch {finished}: what it held, or "
                "what was noted about it, is lost",
                f"Restore it, or rebuild it with --rebuild {name}."
                if planned.output.kind == VIEW
                else "Restore it, or give the output another name.",
            )
        if held is not None and held > finished + 1:
            raise JobRefused(
                f"{name} holds batch {held}, the checkpoint in {folder.path} ends at {finished}: it was rolled back",
                f"Restore the newer checkpoint, or remove it and rebuild with --rebuild {name}.",
            )
        if held is not None and held < finished and planned.node.keyed:
            remedy = f"rebuild it with --rebuild {name}" if planned.output.kind == VIEW else "let it begin elsewhere"
            raise JobRefused(
                f"{planned.output} ends at batch {held}, and the next one is {finished + 1}: it has lost what was "
                "between, or was not declared then",
                f"Restore it, or {remedy}.",
            )
