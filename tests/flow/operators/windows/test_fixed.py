from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from tests.flow.operators.windows.subjects import Batch, Life, batches_strategy, lives

tumbling = st.builds(Tumbling, st.sampled_from([1, 7, 10]), st.integers(0, 3))


@given(lives(tumbling), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)
