from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.session import Session
from tests.flow.operators.windows.subjects import EXAMPLES, Batch, Life, batches_strategy, life, lives

sessions = st.builds(Session, st.sampled_from([1, 5, 9]))


@settings(max_examples=EXAMPLES)
@given(lives(sessions), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)


def test_a_straggler_that_joins_three_sessions_retracts_three_and_emits_one() -> None:
    subject = life(Session(10), "corrections", horizon=1000)
    subject.batch([(1, 5, 100), (1, 6, 109), (1, 7, 120), (1, 8, 128), (1, 9, 145)], 1)
    subject.batch([], 200)
    assert [key[1:] for key in subject.table] == [(100, 119), (120, 138), (145, 155)]
    subject.operations.clear()
    subject.batch([(1, 1, 110), (1, 1, 137)])
    assert sorted(subject.operations) == ["c", "d", "d", "d"]
    assert [key[1:] for key in subject.table] == [(100, 155)]
    subject.check()


def test_rows_exactly_a_gap_apart_are_of_one_session() -> None:
    subject = life(Session(10))
    subject.batch([(1, 5, 0), (1, 6, 10), (1, 7, 21)])
    assert sorted(key[1:] for key in subject.table) == [(0, 20), (21, 31)]


def test_a_session_is_not_over_while_a_row_at_its_end_may_still_come() -> None:
    subject = life(Session(10), "final")
    subject.batch([(1, 5, 0)])
    subject.batch([], 10)
    assert subject.table == {}, "the watermark is at its end, and a row of that time is not late"
    subject.batch([(1, 6, 10)])
    subject.batch([], 11)
    assert [key[1:] for key in subject.table] == [(0, 20)]
