"""Keys that end, against plain Python: for any rows, any watermarks, and batches that come again."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import ShardState
from tests.flow.operators.windows.oracle import ended_runs
from tests.flow.operators.windows.subjects import END_OF_TIME, EXAMPLES, Batch, Life, batches_strategy, life, lives

kept = st.builds(Kept, st.sampled_from([1, 9, 33, 64, 160]))
updates = st.just({"emit": "updates"})


@settings(max_examples=EXAMPLES)
@given(lives(kept, updates), batches_strategy)
def test_at_every_moment_the_table_has_the_keys_that_are_kept_and_the_others_are_counted(
    subject: Life, batches: list[Batch]
) -> None:
    assert isinstance(subject.work.window, Kept)
    for batch in [*batches, Batch([], END_OF_TIME)]:
        subject.batch(batch.rows, batch.advance, batch.again)
        subject.check()
        assert subject.expired == ended_runs(subject.accepted, subject.work.window.gap_us, subject.watermark)
    assert sum(shard.keys for shard in subject.store.manifest(subject.version).shards) == 0, "state is left behind"


def test_a_key_that_comes_again_in_the_batch_that_ends_it_starts_again() -> None:
    subject = life(Kept(16))
    subject.batch([(1, 5, 0), (2, 5, 10)], 1)
    subject.batch([(1, 7, 30)], 30)
    assert subject.table == {(1,): {"rows": 1}}
    assert (subject.expired, subject.operations) == (2, ["c", "c", "d"])


def test_rows_of_the_future_start_a_key_again_before_its_old_rows_have_ended() -> None:
    subject = life(Kept(16))
    subject.batch([(1, 5, 0), (1, 5, 40)], 1)
    assert subject.table == {(1,): {"rows": 1}}
    subject.batch([(1, 5, 15), (1, 5, 28)])
    assert subject.table == {(1,): {"rows": 4}}, "rows between them show that the key had not ended"


def test_only_what_ends_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = life(Kept(160))
    for key in range(10):
        subject.batch([(key, 5, key * 10)], 10)
    read: list[int] = []
    select = ShardState.select

    def counted(self: ShardState, wanted: Callable[[Integers], Mask]) -> pa.RecordBatch:
        rows = select(self, wanted)
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(ShardState, "select", counted)
    subject.batch([], 79)
    assert (sum(read), subject.expired) == (0, 0), "nothing ends before 180"
    subject.batch([], 1)
    assert (sum(read), subject.expired) == (1, 1)
    subject.batch([], 29)
    assert (sum(read), subject.expired) == (3, 3)
