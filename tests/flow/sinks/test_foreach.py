import pyarrow as pa
import pytest

from headwater.flow.sinks.foreach import IDEMPOTENCY_KEY, ForeachBatchSink
from tests.contracts.sink import mark


def test_the_function_gets_rows_and_batch_and_a_key_that_stays_the_same() -> None:
    got: list[tuple[list[dict[str, object]], int, bytes]] = []
    sink = ForeachBatchSink(
        lambda rows, batch: got.append((rows.to_pylist(), batch, rows.schema.metadata[IDEMPOTENCY_KEY]))
    )
    for _ in range(2):
        sink.write(mark(4), pa.table({"n": [1]}))
    assert got == [([{"n": 1}], 4, b"shop/main/1#foreach#4")] * 2


def test_an_error_of_the_function_goes_up() -> None:
    def fail(rows: pa.Table, batch: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ForeachBatchSink(fail).write(mark(0), pa.table({"n": [1]}))
