"""CPU seconds by stage of a flow whose tasks run in this process, one after the other."""

import inspect
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from benchmarks.flow.stage_names import DECODE, EMIT, OPERATE, PREPARE, READ, REST, SHUFFLE, STAGES, STATE
from headwater.flow.commit import batch_evaluation
from headwater.flow.exchange.blocks import Exchange
from headwater.flow.operate import shard_task
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operate.shard_task import ShardTask
from headwater.flow.rows import prepared_blocks
from headwater.flow.rows.log_rows import LogInput, SourceRows
from headwater.flow.rows.prepared_blocks import Preparation
from headwater.flow.sinks.foreach import ForeachBatchSink
from headwater.flow.source import rows as source_rows
from headwater.flow.state.shard import ShardState

FUNCTIONS: dict[str, list[tuple[Any, str]]] = {
    READ: [(source_rows, "read_range"), (source_rows, "decode_batches")],
    DECODE: [(source_rows.RangeReader, "read")],
    PREPARE: [(SourceRows, "typed"), (LogInput, "rows"), (Preparation, "flush")],
    SHUFFLE: [(prepared_blocks, "partitioned"), (shard_task, "received"), (Exchange, "encoded")],
    OPERATE: [(ShardTask, "__call__")],
    STATE: [(Operators, "commit"), *((ShardState, name) for name in
            ("lookup", "fetch", "matches", "held", "leading", "write", "scan", "select", "between"))],
    EMIT: [(ShardTask, "_emitted"), (batch_evaluation, "collected_results"), (ForeachBatchSink, "write")],
}  # fmt: skip
"""A stage is what its functions take, less the functions of other stages that they call."""


class StageClock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._since = 0.0

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for stage, functions in FUNCTIONS.items():
                for owner, name in functions:
                    stack.enter_context(patch.object(owner, name, self._timed(stage, getattr(owner, name))))
            began = time.process_time()
            yield
            spent = time.process_time() - began
        self.seconds[REST] = spent - sum(self.seconds[stage] for stage in STAGES)

    def _timed(self, stage: str, function: Any) -> Any:
        if inspect.isgeneratorfunction(function):

            @wraps(function)
            def made(*arguments: Any, **named: Any) -> Iterator[Any]:
                found = function(*arguments, **named)
                nothing = object()
                while True:
                    with self._in(stage):
                        one = next(found, nothing)
                    if one is nothing:
                        return
                    yield one

            return made

        @wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            with self._in(stage):
                return function(*arguments, **named)

        return called

    @contextmanager
    def _in(self, stage: str) -> Iterator[None]:
        self._switch()
        self._stack.append(stage)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    def _switch(self) -> None:
        """The time since the last switch was that of the innermost stage."""
        now = time.thread_time()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now
