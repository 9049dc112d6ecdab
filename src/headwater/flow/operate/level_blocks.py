"""Where the rows of a level's operators come from: the log, results of earlier levels, or Spark; as blocks.

Of a small batch whose rows Spark does not have to evaluate, the driver runs the tasks itself, one after the other: they
are done before Spark would have started the first. Of a larger one Spark's tasks read the log and prepare rows. Where
little is left of them, such as counts of some thousand keys, the driver operates on it: a shuffle and a second stage of
tasks would take longer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.declare.topology.nodes import Node, key_of
from headwater.flow.exchange.blocks import BLOCKS, Address, Exchange, bytes_of, visit
from headwater.flow.exchange.co_partitioning import CoPartitionedTask, co_partitioned
from headwater.flow.operate.level import Emitting, Level, Results, shuffled
from headwater.flow.operate.shard_task import RESULTS, ShardTask
from headwater.flow.prepare.inputs import AnyPrepare, InputSteps, LogSteps, ResultSteps
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.log_rows import LogInput, ReadTask, TooManyBytes, log_blocks
from headwater.flow.rows.reading import Reading
from headwater.flow.rows.result_rows import ResultInput, ResultTask, earlier_blocks
from headwater.flow.rows.spark_rows import PrepareTask, spark_blocks

InputKey = tuple[Node, int]
DRIVER_BYTES = 32 * 1024**2
"""As much as the driver reads of a batch at most before it leaves the batch to Spark's tasks."""
PREPARED_BYTES = 8 * 1024**2
"""As much as tasks may prepare of a batch for the driver to operate on it."""


@dataclass(frozen=True)
class LevelInputs:
    """What the operators of a level are given."""

    exchange: Exchange
    nodes: Sequence[Node]
    frames: Mapping[InputKey, DataFrame]
    """Inputs that Spark evaluates."""
    steps: Mapping[InputKey, InputSteps] = field(default_factory=dict)
    """Inputs that tasks make themselves."""
    earlier: Mapping[InputKey, Level] = field(default_factory=dict)
    """The levels that they are made from."""
    reading: Reading | None = None
    topics: Collection[str] = ()
    """What the tasks of this level read."""
    small: bool = False
    """The batch has so few rows that the driver may run its tasks."""
    absorbed: Collection[Node] = ()
    """Operators whose frames are late rows that are replayed."""
    too_large: Callable[[], None] | None = None
    """What is called if tasks prepare more than the driver operates on; None: it does not operate on what they do."""

    def is_logged(self, node: Node, number: int) -> bool:
        return isinstance(self.steps.get((node, number)), LogSteps)


@dataclass
class LevelBlocks:
    """Collects the inputs of a level's operators, and gives tasks their rows."""

    session: SparkSession
    inputs: LevelInputs
    exchange: Exchange
    _frames: list[DataFrame] = field(default_factory=list)
    _logged: dict[int, tuple[LogInput, ...]] = field(default_factory=dict)
    _schemas: dict[int, pa.Schema] = field(default_factory=dict)
    _results: list[tuple[Level, int, ResultInput]] = field(default_factory=list)

    def add(self, key: InputKey, name: str, prepare: AnyPrepare, to: Address, frame: DataFrame | None) -> None:
        """An input of the operator of that name; `frame` if Spark evaluates it."""
        steps = self.inputs.steps.get(key)
        if frame is not None:
            self._frames.append(spark_blocks(frame, PrepareTask(name, prepare, to, self.exchange)))
        elif isinstance(steps, LogSteps):
            own = LogInput(name, steps.steps, prepare, to)
            self._logged[steps.source] = (*self._logged.get(steps.source, ()), own)
            self._schemas[steps.source] = steps.read
        else:
            assert isinstance(steps, ResultSteps)
            level, base = self.inputs.earlier[key], steps.base
            keys = key_of(base) if base.keyed else ()
            result = ResultInput(name, level.schemas[base], keys, steps.steps, prepare, to)
            self._results.append((level, level.numbers[base], result))

    @property
    def _read(self) -> ReadTask | None:
        reading = self.inputs.reading
        return None if reading is None else reading.task(self._logged, self._schemas, self.inputs.topics)

    def co_partitioned(self, name: str) -> "CoPartitionedRun | None":
        """How tasks run that need nothing but the partitions of their shard; None if rows have to be shuffled."""
        reading, read = self.inputs.reading, self._read
        if self._frames or self._results or reading is None or read is None:
            return None
        own = reading.by_shard(read, self.inputs.topics)
        return None if own is None else CoPartitionedRun(self.session, own, name)

    def in_driver(self) -> "DriverRun | None":
        """How the driver runs the tasks itself; None if Spark has to."""
        earlier = [(level.table, task) for level, task in self._earlier()]
        if not self.inputs.small or self._frames or any(table is None for table, _ in earlier):
            return None
        blocks = [block for table, task in earlier if table is not None for block in task(iter(table.to_batches()))]
        if (read := self._read) is not None:
            try:
                blocks += [block for number in range(len(read.tasks)) for block in read.blocks(number, DRIVER_BYTES)]
            except TooManyBytes:
                return None
        return DriverRun(blocks)

    def gathered(self) -> "GatheredRun | None":
        """How tasks read and prepare, and the driver operates; None if it does not."""
        read, too_large = self._read, self.inputs.too_large
        if too_large is None or read is None or self._frames or self._results:
            return None
        return GatheredRun(self.session, read, too_large)

    def shuffled(self, task: ShardTask, emitting: Emitting) -> DataFrame:
        blocks = list(self._frames)
        if (read := self._read) is not None:  # a frame of its own for visits would cost Spark more than all of them
            blocks.append(log_blocks(self.session, replace(read, visits_all=task.visits_all)))
        blocks += [earlier_blocks(level.blocks, own) for level, own in self._earlier()]
        return shuffled(blocks, task, emitting, visits_all=task.visits_all and read is None)

    def _earlier(self) -> list[tuple[Level, ResultTask]]:
        """The levels whose results are inputs, and what prepares them."""
        levels = {id(level): level for level, _, _ in self._results}
        found = []
        for level in levels.values():
            inputs: dict[int, tuple[ResultInput, ...]] = {}
            for other, number, one in self._results:
                if other is level:
                    inputs[number] = (*inputs.get(number, ()), one)
            found.append((level, ResultTask(inputs, self.exchange)))
        return found


@dataclass(frozen=True)
class DriverRun:
    """Runs the tasks of all shards in the driver, on blocks that are there."""

    blocks: Sequence[pa.RecordBatch]

    def __call__(self, task: ShardTask, emitting: Emitting) -> pa.Table:
        visits = [visit(shard) for shard in range(task.exchange.shards)] if task.visits_all else []
        return pa.Table.from_batches(emitting(task)(iter([*visits, *self.blocks])), RESULTS)


@dataclass(frozen=True)
class GatheredRun:
    """Spark's tasks read; the driver runs those of shards, or Spark after a shuffle if too much was prepared."""

    session: SparkSession
    read: ReadTask
    too_large: Callable[[], None]

    def __call__(self, task: ShardTask, emitting: Emitting) -> Results:
        prepared = log_blocks(self.session, self.read).toArrow()
        blocks = prepared.to_batches()
        if sum(map(bytes_of, blocks)) <= PREPARED_BYTES:
            return DriverRun(blocks)(task, emitting)
        self.too_large()
        blocks_again = self.session.createDataFrame(prepared, spark_schema(BLOCKS))
        return shuffled([blocks_again], task, emitting, visits_all=task.visits_all)


@dataclass(frozen=True)
class CoPartitionedRun:
    """Runs tasks that read the partitions of their shard; `name` is that of one of their operators."""

    session: SparkSession
    read: ReadTask
    name: str

    def __call__(self, task: ShardTask, emitting: Emitting) -> DataFrame:
        own = CoPartitionedTask(self.read, task, self.name)
        return co_partitioned(self.session, emitting(own), task.exchange.shards)
