from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.sliding import Sliding
from tests.flow.operators.windows.subjects import EXAMPLES, Batch, Life, batches_strategy, life, lives

sliding = st.builds(Sliding, st.sampled_from([1, 5, 10, 12]), st.booleans())


@settings(max_examples=EXAMPLES)
@given(lives(sliding), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)


def test_a_straggler_that_leaves_in_the_moment_in_which_another_row_came_changes_nothing_there() -> None:
    subject = life(Sliding(5, on_change=True))
    subject.batch([(1, 3, 10)])
    subject.batch([(1, 4, 5)])
    subject.check()
    assert subject.operations == ["c", "c", "c"], "10 and 15 for the first, 5 for the straggler"
