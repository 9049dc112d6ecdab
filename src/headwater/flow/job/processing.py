"""One batch of a job, from rows to everything it has to leave behind; in an order that any crash may interrupt.

    1  Spark works out all outputs from the state of the batch before, tasks write runs of new state
    2  the new state is committed under the batch's number
    3  every sink takes its rows, with the batch's number in the same transaction
    4  poisoned rows and accounts are written to their topics, in the same way
    5  the batch is noted as finished; offsets are committed to the job's group

A batch that comes again starts from the state of the batch before again. What sinks took already they take only once.
"""

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.clock import Clock
from headwater.errors import ConflictError, FlowError, UnavailableError
from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.nodes import Source
from headwater.flow.job.accounts import Account
from headwater.flow.job.collecting import Collected, Origin, collect, frame_for, late_rows, reports, used_twice
from headwater.flow.job.deduping import LATE
from headwater.flow.job.evaluating import Evaluation
from headwater.flow.job.folder import BatchRecord, JobFolder, Offsets, offsets
from headwater.flow.job.lateness import Times
from headwater.flow.job.merging import Told
from headwater.flow.job.operating import Operators
from headwater.flow.job.resolving import Resolved
from headwater.flow.job.roots import Root, roots_of
from headwater.flow.job.sources import frames_of
from headwater.flow.kafka.client import Client
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.source.splitting import ranges_between
from headwater.flow.source.staging import Staged, clear_stage, read_plan, read_stage
from headwater.record import TopicPartition

_logger = logging.getLogger(__name__)

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
QUERIES_AT_ONCE = 4


@dataclass(frozen=True)
class Outputs:
    """Where a job's rows go: a sink for every output, and two for what it has to say about itself."""

    sinks: Mapping[str, Sink]
    poisoned: Sink
    late: Sink
    accounts: Sink


class Asides(NamedTuple):
    """Records of rows that no output has."""

    poisoned: pa.Table
    late: pa.Table


@dataclass(frozen=True)
class Progress:
    """What a finished batch tells whoever watches."""

    record: BatchRecord
    seconds: float
    state_bytes: int


class Processor:
    def __init__(
        self,
        app: str,
        job: Job,
        job_id: str,
        folder: JobFolder,
        operators: Operators,
        outputs: Outputs,
        resolved: Mapping[str, Resolved],
        client: Client,
        *,
        shards: int,
        clock: Clock,
        group: str | None = None,
        watch: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._app, self._job, self._job_id, self._folder = app, job, job_id, folder
        self._operators, self._outputs, self._resolved, self._client = operators, outputs, resolved, client
        self._shards, self._clock, self._group, self._watch = shards, clock, group, watch
        self._keep, self._read_twice = used_twice(job)

    def process(self, frame: DataFrame, batch: int) -> None:
        """Take one micro-batch. Called again with the same number after a crash; then only what is missing is done."""
        started_ms = self._clock.elapsed_ms()
        record = self._folder.finished(batch)
        if record is None:
            record = self._work(frame, batch)
        self._commit_offsets(record.end)
        self._tidy(record)
        seconds = (self._clock.elapsed_ms() - started_ms) / 1000
        self._watch(Progress(record, seconds, self._operators.size_bytes(batch)))

    def _work(self, frame: DataFrame, batch: int) -> BatchRecord:
        start, end = self._span(batch)
        self._operators.base = batch - 1
        before = self._folder.finished(batch - 1)
        times = Times(before.times if before else {}, self._job.sources)
        self._operators.times = times
        frame.sparkSession.conf.set(SHUFFLE_PARTITIONS, self._shards)
        source = frame.persist() if self._read_twice else frame
        evaluation = Evaluation(frames_of(self._job, source), self._operators.operate, self._keep)
        try:
            origin = Origin(self._app, self._job.name, batch, self._folder.planned_ms(batch))
            collected = self._collect(evaluation, origin)
            told = [one for found in collected.values() for one in found.told] + list(reports(evaluation))
            staged = self._staged(start, end)
            accounts = self._accounts(evaluation, collected, told, staged)
            late = late_records(late_rows(evaluation), times) if any(one.late for one in told) else NO_RECORDS
        finally:
            evaluation.release()
            source.unpersist()
        record = BatchRecord(batch, start, end, accounts, self._times(batch, staged))
        self._leave_behind(record, collected, told, Asides(poisoned_records(staged), late), origin)
        return record

    def _leave_behind(
        self, record: BatchRecord, collected: Mapping[str, Collected], told: list[Told], asides: "Asides",
        origin: Origin,
    ) -> None:  # fmt: skip
        self._operators.commit(record.batch, told)
        mark = Mark(self._job_id, record.batch, record.end)
        for name, found in collected.items():
            self._outputs.sinks[name].write(mark, found.rows)
        self._outputs.poisoned.write(mark, asides.poisoned)
        self._outputs.late.write(mark, asides.late)
        self._outputs.accounts.write(mark, account_records(self._job.name, record, origin.time_ms))
        self._folder.finish(record)

    def _collect(self, evaluation: Evaluation, origin: Origin) -> dict[str, Collected]:
        """Outputs are worked out side by side: small queries leave cores idle between their stages."""
        frames = {one: frame_for(evaluation, one, self._resolved[one.name].key, origin) for one in self._job.outputs}
        with ThreadPoolExecutor(QUERIES_AT_ONCE, thread_name_prefix="headwater-output") as pool:
            under_way = {
                one.name: pool.submit(collect, frame, evaluation, one, origin) for one, frame in frames.items()
            }
            return {name: future.result() for name, future in under_way.items()}

    # -- what was read -------------------------------------------------------------------------------------------------

    def _span(self, batch: int) -> tuple[Offsets, Offsets]:
        """Where the batch starts and ends: as the source was told, which must be what Spark has written down."""
        start, end = (offsets(part) for part in read_plan(self._folder.stage))
        planned = self._folder.planned(batch)
        if end != planned:
            raise FlowError(
                f"batch {batch} of job {self._job.name} was to end at {planned}, but the source has read to {end}",
                "Start the job again.",
            )
        return start, end

    def _staged(self, start: Offsets, end: Offsets) -> list[Staged]:
        ranges = ranges_between(_places(start), _places(end))
        return read_stage(self._folder.stage, ranges)

    def _times(self, batch: int, staged: list[Staged]) -> dict[str, dict[int, int]]:
        before = self._folder.finished(batch - 1)
        times = {topic: dict(parts) for topic, parts in before.times.items()} if before else {}
        for one in staged:
            newest = one.counts.event_time_max_us
            if newest is not None:
                own = times.setdefault(one.range.topic, {})
                own[one.range.partition] = max(own.get(one.range.partition, newest), newest)
        return times

    # -- accounts ------------------------------------------------------------------------------------------------------

    def _accounts(
        self, evaluation: Evaluation, collected: Mapping[str, Collected], told: list[Told], staged: list[Staged]
    ) -> dict[str, Account]:
        ended: dict[str, Account] = dict.fromkeys(self._job.operators.values(), Account())
        for one in told:
            ended[one.operator] += Account(rows_out=one.rows, duplicates=one.duplicates, late=one.late)
        read = {source: _read(source, staged) for source in self._job.sources}
        accounts = {}
        for planned in self._job.outputs:
            account = Account()
            for root in roots_of(planned):
                if root.stateful:
                    account += ended[self._job.operators[root.node]]
                else:
                    account += Account(rows_out=len(collected[planned.name].rows))
                account += self._account(evaluation, root, read)
            accounts[planned.name] = self._checked(planned, account)
        return accounts

    def _account(self, evaluation: Evaluation, root: Root, read: Mapping[Source, Account]) -> Account:
        """What was read for it, and what left on the way to it."""
        account = Account()
        for source in root.paths():
            account += read[source]
        totals = evaluation.counter(root.node).totals()
        gone = max(0, totals["before"] - totals["after"])
        more = max(0, totals["after"] - totals["before"])
        return account + Account(
            filtered=totals["filtered"] + gone, expanded=totals["expanded"] + more, duplicates=totals["duplicates"]
        )

    def _checked(self, planned: Planned, account: Account) -> Account:
        if not account.balanced:
            raise FlowError(
                f"the accounts of {planned.output} do not balance: {account}",
                "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
            )
        return account

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _commit_offsets(self, end: Offsets) -> None:
        """For tools that show lag. The truth is in the checkpoint, so a broker that is away for a moment is no harm."""
        if self._group is None:
            return
        try:
            self._client.commit_offsets(self._group, _places(end))
        except (UnavailableError, ConflictError) as error:
            _logger.warning("the offsets of group %s could not be committed: %s", self._group, error)

    def _tidy(self, record: BatchRecord) -> None:
        self._operators.clean()
        clear_stage(self._folder.stage, _places(record.end))


def _places(position: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): offset for topic, parts in position.items() for number, offset in parts.items()
    }


def _read(source: Source, staged: list[Staged]) -> Account:
    own = [one.counts for one in staged if one.range.topic == source.topic]
    return Account(
        rows_in=sum(counts.rows for counts in own),
        poisoned=sum(counts.poisoned for counts in own),
        lost=sum(counts.lost for counts in own),
    )


def poisoned_records(staged: list[Staged]) -> pa.Table:
    """Rows that did not decode: why, where they lie in the log, and what they were."""
    tables = [one.poisoned for one in staged if len(one.poisoned)]
    if not tables:
        return _records([], [], [])
    rows = pa.concat_tables(tables)
    values = [
        json.dumps(
            {
                "reason": row["reason"], "topic": row["topic"], "partition": row["partition"], "offset": row["offset"],
                **_shown("key", row["key"]), **_shown("value", row["value"]),
            }, ensure_ascii=False,
        ).encode()
        for row in rows.to_pylist()
    ]  # fmt: skip
    times = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
    return _records(rows["key"].to_pylist(), values, times.to_pylist())


def _shown(name: str, content: bytes | None) -> dict[str, str | None]:
    """As text where it is text, so that a person can read it; else so that no byte is lost."""
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content or b"").decode()}


def late_records(rows: pa.Table, times: Times) -> pa.Table:
    """Rows that were too late: why, where they lie in the log, and what they were."""
    values, stamps = [], []
    for row in rows.to_pylist():
        time_us = round(row["time"].timestamp() * 1_000_000)
        said = {
            "reason": times.reason(row["source"], row["partition"], time_us),
            "topic": times.sources[row["source"]].topic, "partition": row["partition"], "offset": row["offset"],
            "row": json.loads(row[LATE]),
        }  # fmt: skip
        values.append(json.dumps(said, ensure_ascii=False).encode())
        stamps.append(time_us // 1000)
    return _records([None] * len(values), values, stamps)


def account_records(job: str, record: BatchRecord, time_ms: int) -> pa.Table:
    """One record for each output of the batch."""
    keys, values = [], []
    for name, account in record.accounts.items():
        keys.append(json.dumps({"job": job, "output": name}).encode())
        said = {"job": job, "output": name, "batch": record.batch, "end": record.end, **account.to_json()}
        values.append(json.dumps(said).encode())
    return _records(keys, values, [time_ms] * len(keys))


def _records(keys: Sequence[bytes | None], values: Sequence[bytes], times_ms: Sequence[int]) -> pa.Table:
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(times_ms, pa.int64())]
    return pa.Table.from_arrays(columns, names=["_key", "_value", "_timestamp_ms"])


NO_RECORDS = _records([], [], [])
