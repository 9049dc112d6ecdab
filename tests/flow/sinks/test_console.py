import pyarrow as pa

from headwater.flow.sinks.console import ConsoleSink
from headwater.flow.sinks.foreach import ForeachBatchSink
from tests.contracts.sink import JOB, mark


def test_rows_are_shown_as_lines() -> None:
    shown: list[str] = []
    ConsoleSink(shown.append, rows_max=2).write(mark(3), pa.table({"n": [1, 2, 3], "t": ['a"', None, "c"]}))
    assert shown == ['batch 3: 3 rows\n{"n":1,"t":"a\\""}\n{"n":2,"t":null}\n… and 1 more']


def test_a_batch_without_rows_is_shown_too() -> None:
    shown: list[str] = []
    ConsoleSink(shown.append).write(mark(0), pa.table({"n": pa.array([], pa.int64())}))
    assert shown == ["batch 0: 0 rows"]


def test_what_keeps_no_count_says_so() -> None:
    for sink in (ConsoleSink(print), ForeachBatchSink(lambda rows, batch: None)):
        assert not sink.exactly_once
        assert sink.write(mark(0), pa.table({"n": [1]}))
        assert sink.write(mark(0), pa.table({"n": [1]}))
        assert sink.committed(JOB) is None
